"""What a leader counts: whose copies make a majority, and from when on."""

from __future__ import annotations

from uuid import UUID

from odradek.consensus.progress import OBSERVER_SESSION_MS, QuorumProgress
from odradek.consensus.voters import ReplicaKey, Voter, VoterSet

ONE, TWO, THREE, FOUR = (ReplicaKey(number) for number in (1, 2, 3, 4))


def progress(count: int, epoch_start_offset: int = 0) -> QuorumProgress:
    return QuorumProgress(ONE, VoterSet(Voter(number) for number in range(1, count + 1)), epoch_start_offset)


def test_a_leader_commits_former_epochs_only_with_a_record_of_its_own() -> None:
    """Raft, figure 8: what a majority holds of former epochs may still lose to another log; with a record of this epoch it cannot."""
    counted = progress(3, epoch_start_offset=10)
    counted.local_flushed(11)
    counted.of(TWO).fetched(10, 11, 0)
    assert not counted.advance(), "two of three hold all of the former epochs, and nothing of this one"
    assert counted.high_watermark is None
    counted.of(TWO).fetched(11, 11, 0)
    assert counted.advance()
    assert counted.high_watermark == 11


def test_half_of_the_voters_is_no_majority() -> None:
    counted = progress(4)
    counted.local_flushed(5)
    counted.of(TWO).fetched(5, 5, 0)
    assert not counted.advance()
    counted.of(THREE).fetched(3, 5, 0)
    assert counted.advance()
    assert counted.high_watermark == 3


def test_a_voter_counts_with_what_it_has_now() -> None:
    counted = progress(3)
    counted.local_flushed(2)
    counted.of(TWO).fetched(9, 9, 0)
    counted.of(TWO).fetched(1, 9, 1)  # its disk was replaced
    counted.local_flushed(9)
    assert counted.advance()
    assert counted.high_watermark == 1


def test_a_directory_that_is_not_the_voters_is_observed() -> None:
    voters = VoterSet(Voter(number, UUID(int=number + 1000)) for number in (1, 2, 3))
    counted = QuorumProgress(ReplicaKey(1, UUID(int=1001)), voters, 0)
    counted.local_flushed(5)
    wiped = ReplicaKey(2, UUID(int=7))
    counted.of(wiped).fetched(5, 5, 0)
    assert not counted.is_voter(wiped)
    assert not counted.advance()
    counted.of(ReplicaKey(2, UUID(int=1002))).fetched(5, 5, 0)
    assert counted.advance()


def test_an_observer_that_becomes_a_voter_brings_what_it_has_fetched() -> None:
    counted = progress(3)
    counted.local_flushed(5)
    counted.of(FOUR).fetched(5, 5, 0)
    counted.update_voters(VoterSet([Voter(1), Voter(4)]), None)
    assert counted.advance()
    assert counted.high_watermark == 5
    assert set(counted.observers) == {TWO, THREE}, "who leaves the set is observed"


def test_observers_that_went_away_are_forgotten() -> None:
    counted = progress(1)
    counted.of(TWO).fetched(0, 5, 0)
    counted.of(THREE).fetched(0, 5, 1)
    counted.forget_silent_observers(OBSERVER_SESSION_MS)
    assert set(counted.observers) == {THREE}


def test_a_replica_was_caught_up_when_the_log_ended_where_it_is_now() -> None:
    """As Kafka tells it: not now, but when it fetched last, since the log has grown meanwhile."""
    replica = progress(3).of(TWO)
    caught_up: list[int] = []
    for offset, leader_end, now_ms in ((5, 5, 100), (5, 9, 200), (9, 12, 300), (10, 20, 400)):
        replica.fetched(offset, leader_end, now_ms)
        caught_up.append(replica.last_caught_up_ms)
    assert caught_up == [100, 100, 200, 200]
