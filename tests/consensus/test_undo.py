"""State that was replayed ahead of its commit returns to what was committed, whatever was done to it in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.undo import JournaledDict, UndoJournal

_operations = st.lists(st.tuples(st.sampled_from("ab c d".replace(" ", "")), st.one_of(st.none(), st.integers(0, 9))), max_size=30)


@given(_operations, st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=100, derandomize=True)
def test_reverting_restores_the_state_at_an_offset(operations: list[tuple[str, int | None]], committed: int, revert: int) -> None:
    journal = UndoJournal()
    items: JournaledDict[str, int] = JournaledDict(journal)
    history: list[dict[str, int]] = []
    for offset, (key, value) in enumerate(operations):
        history.append(dict(items.items()))
        journal.offset = offset
        if value is None:
            items.pop(key)
        else:
            items[key] = value
    history.append(dict(items.items()))
    committed = min(committed, len(operations))
    revert = max(committed, min(revert, len(operations)))
    journal.commit_to(committed)
    journal.revert_to(revert)
    assert dict(items.items()) == history[revert]
    journal.revert_to(0)
    assert dict(items.items()) == history[committed], "what was committed cannot be taken back"
    assert len(journal) == 0


def test_offsets_may_not_go_backwards() -> None:
    journal = UndoJournal()
    journal.record(5, lambda: None)
    with pytest.raises(ValueError, match="after one for offset 5"):
        journal.record(4, lambda: None)


def test_a_replay_of_committed_records_keeps_nothing() -> None:
    journal = UndoJournal()
    journal.recording = False
    items: JournaledDict[str, int] = JournaledDict(journal)
    items["a"] = 1
    assert len(journal) == 0
