"""State that was replayed ahead of its commit returns to what was committed, whatever was done to it in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.undo import JournaledDict, UndoJournal, VersionedDict

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


_VALUES = tuple(object() for _ in range(3))
"""The same object may come again: what is committed must not be taken for what is not."""

_changes = st.dictionaries(st.sampled_from("abc"), st.sampled_from(_VALUES), max_size=3)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _changes),
        st.tuples(st.just("set"), st.tuples(st.sampled_from("abc"), st.sampled_from(_VALUES))),
        st.tuples(st.just("pop"), st.sampled_from("abc")),
        st.tuples(st.just("commit"), st.integers(0, 5)),
        st.tuples(st.just("revert"), st.integers(0, 5)),
    ),
    max_size=30,
)


@given(_steps)
@settings(max_examples=300, derandomize=True)
def test_the_committed_view_is_the_state_of_then(steps: list[tuple[str, Any]]) -> None:
    journal = UndoJournal()
    items: VersionedDict[str, object] = VersionedDict(journal)
    states: list[dict[str, object]] = [{}]
    """What is committed, and after it the state after each change that is not."""
    first = 0
    for action, argument in steps:
        if action == "commit":
            count = min(argument, len(states) - 1)
            first += count
            del states[:count]
            journal.commit_to(first)
        elif action == "revert":
            kept = max(len(states) - argument, 1)
            del states[kept:]
            journal.revert_to(first + kept - 1)
        else:
            journal.offset = first + len(states) - 1
            state = dict(states[-1])
            if action == "put":
                items.put_all(argument)
                state |= argument
            elif action == "set":
                items[argument[0]] = state[argument[0]] = argument[1]
            else:
                assert items.pop(argument) is state.pop(argument, None)
            states.append(state)
        assert dict(items.items()) == states[-1]
        assert dict(items.committed_items()) == states[0]
        assert {key: value for key in "abc" if (value := items.committed(key)) is not None} == states[0]
    journal.commit_to(first + len(states))
    assert dict(items.committed_items()) == dict(items.items()) == states[-1]
    assert items.uncommitted == 0, "what is committed leaves nothing to take back"


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
