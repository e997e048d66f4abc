"""The judge of what is committed in the metadata log."""

from __future__ import annotations

import pytest

from tests.simulation.whole.invariants.raft import Committed, CommittedBatches


def committed(*batches: tuple[int, int]) -> CommittedBatches:
    known = CommittedBatches()
    for base, end in batches:
        assert known.note(base, Committed(end, 1, base)) is None
    return known


def test_what_is_known_may_be_told_again() -> None:
    known = committed((0, 3), (3, 4))
    assert known.note(0, Committed(3, 1, 0)) is None
    assert (known.end, known.last_epoch) == (4, 1)


def test_a_log_that_begins_with_a_snapshot_may_be_the_first_to_tell() -> None:
    known = committed((10, 12), (12, 13))
    assert known.note(9, Committed(10, 1, 9)) is None
    assert known.note(4, Committed(9, 1, 4)) is None
    assert known.end == 13


@pytest.mark.parametrize(
    ("base", "found"),
    [
        (3, Committed(5, 2, 3)),
        (3, Committed(5, 1, 4)),
        (3, Committed(6, 1, 3)),
        (4, Committed(5, 1, 4)),
        (2, Committed(5, 1, 2)),
        (9, Committed(12, 1, 9)),
    ],
    ids=["epoch", "crc", "longer", "within", "around", "reaches-into"],
)
def test_another_one_at_the_place_of_a_committed_one_is_found(base: int, found: Committed) -> None:
    known = committed((0, 2), (3, 5), (10, 12))
    assert known.note(base, found) is not None
    assert known.end == 12


def test_what_may_stand_on_a_disk() -> None:
    known = committed((0, 3), (10, 12))
    assert known.may_hold(0, 3, 0)
    assert not known.may_hold(0, 3, 1)
    assert known.may_hold(4, 8, 77), "nobody has told of it"
    assert not known.may_hold(12, 13, 12), "not committed yet"
