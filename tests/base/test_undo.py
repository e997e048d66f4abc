"""The promises of the journal: offsets in order, the newest change taken back first, nothing kept while it does not record."""

from __future__ import annotations

import pytest

from odradek.base.undo import JournaledDict, UndoJournal, VersionedDict


def test_what_an_undo_changes_is_not_recorded_again() -> None:
    journal = UndoJournal()
    items: JournaledDict[str, int] = JournaledDict(journal)
    journal.record(5, lambda: items.pop("made by hand"))
    items.unjournaled()["made by hand"] = 1
    journal.revert_to(5)
    assert len(items) == len(journal) == 0
    assert journal.recording


def test_recording_goes_on_after_an_undo_that_fails() -> None:
    journal = UndoJournal()

    def fail() -> None:
        raise ZeroDivisionError

    journal.record(1, fail)
    with pytest.raises(ZeroDivisionError):
        journal.revert_to(0)
    assert journal.recording


def test_the_newest_is_taken_back_first_and_what_lies_below_stays() -> None:
    journal = UndoJournal()
    done: list[str] = []
    for offset, name in ((3, "a"), (4, "b"), (4, "c"), (5, "d")):
        journal.record(offset, lambda name=name: done.append(name))  # type: ignore[misc]
    journal.commit_to(4)
    assert len(journal) == 3
    journal.revert_to(5)
    assert done == ["d"]
    journal.revert_to(4)
    assert done == ["d", "c", "b"]
    assert len(journal) == 0


def test_offsets_do_not_go_backwards() -> None:
    journal = UndoJournal()
    journal.record(5, lambda: None)
    journal.record(5, lambda: None)
    with pytest.raises(ValueError, match="undo for offset 4 after one for offset 5"):
        journal.record(4, lambda: None)


def test_nothing_is_kept_of_a_replay_of_what_is_committed() -> None:
    journal = UndoJournal()
    journal.recording = False
    items: VersionedDict[str, int] = VersionedDict(journal)
    items["a"] = 1
    items.put_all({"b": 2})
    journal.record(7, lambda: None)
    assert len(journal) == 0
    assert dict(items.committed_items()) == {"a": 1, "b": 2}


def test_a_dictionary_that_was_cleared_comes_back() -> None:
    journal = UndoJournal()
    items: JournaledDict[str, int] = JournaledDict(journal)
    items["a"] = items["b"] = 1
    journal.commit_to(1 << 62)
    journal.offset = 5
    items.clear()
    assert len(items) == 0
    journal.revert_to(5)
    assert dict(items.items()) == {"a": 1, "b": 1}


@pytest.mark.parametrize("many", [False, True])
def test_the_committed_state_is_the_latest_once_all_is_committed_or_taken_back(many: bool) -> None:
    journal = UndoJournal()
    items: VersionedDict[str, int] = VersionedDict(journal)

    def put(offset: int, **values: int) -> None:
        journal.offset = offset
        if many:
            items.put_all(values)
        else:
            for key, value in values.items():
                items[key] = value

    put(1, a=1, b=1)
    assert dict(items.committed_items()) == {}
    journal.commit_to(2)
    put(2, a=2)
    put(3, a=3, c=3)
    assert dict(items.committed_items()) == {"a": 1, "b": 1}
    journal.revert_to(3)
    assert dict(items.items()) == {"a": 2, "b": 1}
    journal.commit_to(3)
    assert dict(items.committed_items()) == dict(items.items()) == {"a": 2, "b": 1}
    put(4, a=4)
    journal.commit_to(5)
    items.unjournaled()["a"] = 9
    assert items.committed("a") == 9, "no former value is left behind"
