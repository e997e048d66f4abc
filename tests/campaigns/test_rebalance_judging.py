"""Tests that the checks of rebalances report violations, and accept legal histories."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from odradek.testing.history import Assigned, Event, MicroOperation, Poll, Revoked, Send
from odradek.testing.history import Commit as Committing
from tests.campaigns import rebalance_judging as judging
from tests.campaigns.group_log import Commit, GroupLog, GroupState, MemberState, Revocation
from tests.campaigns.rebalance_judging import Silence

PLACE = ("t", 0)


def event(time: float, member: str, function: str, *micro_operations: MicroOperation, kind: str = "ok", **extra: object) -> Event:
    return Event(time, member, kind, function, micro_operations, extra)  # type: ignore[arg-type]


def given(time: float, member: str, generation: int) -> Event:
    return event(time, member, "rebalance", Assigned("g", *PLACE, generation))


def gone(time: float, member: str, generation: int) -> Event:
    return event(time, member, "rebalance", Revoked("g", *PLACE, generation))


def read(time: float, member: str, *offsets: int) -> Event:
    return event(time, member, "poll", *[Poll(*PLACE, offset, str(offset)) for offset in offsets])


def commit(offset: int, number: int, *, member: str = "a", owner: str | None = "a", is_member: bool = True, generation: int = 1) -> Commit:
    return Commit(number, PLACE, offset, member, number, generation, member, 1, 1, is_member, owner)


def overlaps(history: list[Event], deaths: dict[str, float] | None = None, silences: list[Silence] | None = None) -> list[str]:
    found = judging.claims_of(history, {"a", "b"}, {"a": float("inf"), "b": float("inf"), **(deaths or {})})
    judging.guard(found, {"a": "p", "b": "q"}, silences or [], 3)
    return judging.one_owner(found, {})


def test_two_owners_at_a_time_are_seen() -> None:
    assert len(overlaps([given(1, "a", 1), given(2, "b", 2), gone(3, "a", 1)])) == 1
    assert overlaps([given(1, "a", 1), gone(2, "a", 1), given(2.1, "b", 2)]) == []


def test_who_is_dead_owns_nothing() -> None:
    history = [given(1, "a", 1), given(5, "b", 2)]
    assert len(overlaps(history)) == 1
    assert len(overlaps(history, deaths={"a": 6})) == 1
    assert overlaps(history, deaths={"a": 4}) == []


def test_who_is_paused_owns_until_its_session_may_have_ended() -> None:
    history = [given(1, "a", 1), given(6, "b", 2), gone(9, "a", 1)]
    assert overlaps(history, silences=[Silence("p", 2, 8)]) == []
    assert len(overlaps(history, silences=[Silence("p", 4, 8)])) == 1, "it was given away before"
    assert len(overlaps(history, silences=[Silence("p", 2, 4)])) == 1, "no session ends in so short a time"
    assert len(overlaps(history, silences=[Silence("q", 2, 8)])) == 1, "somebody else was paused"


def test_two_owners_in_a_generation_are_seen() -> None:
    assert len(overlaps([given(1, "a", 1), gone(2, "a", 1), given(3, "b", 1)])) == 1


def test_commits_that_go_back_are_seen() -> None:
    assert judging.commits_go_on("g", [commit(3, 1), commit(3, 2), commit(4, 3)], {}) == []
    assert len(judging.commits_go_on("g", [commit(3, 1), commit(2, 2)], {})) == 1


def test_commits_of_others_than_the_owner_are_seen() -> None:
    assert judging.fenced("g", [commit(3, 1), commit(3, 2, owner=None)]) == []
    assert len(judging.fenced("g", [commit(3, 1, is_member=False, owner=None)])) == 1
    assert len(judging.fenced("g", [commit(3, 1, owner="b")])) == 1
    assert len(judging.fenced("g", [commit(3, 1, is_member=False, generation=-1)])) == 1, "the group was not empty"
    nobody = commit(3, 1, is_member=False, owner=None)._replace(members=0)
    assert len(judging.fenced("g", [nobody])) == 1
    assert judging.fenced("g", [nobody], {"a"}) == []


def test_positions_that_are_not_the_committed_ones_are_seen() -> None:
    done = [
        given(1, "a", 1),
        read(2, "a", 0, 1),
        event(3, "a", "commit", Committing("g", *PLACE, 2), kind="invoke", id=1),
        event(4, "a", "commit", Committing("g", *PLACE, 2), id=1),
        gone(5, "a", 1),
        given(6, "b", 2),
    ]

    def problems(*offsets: int) -> list[str]:
        history = [*done, read(7, "b", *offsets)]
        found = judging.claims_of(history, {"a", "b"}, {"a": float("inf"), "b": float("inf")})
        return judging.positions_go_on(found, [commit(2, 1)], judging.commit_times(history))

    assert problems(2, 3) == []
    assert problems(2, 2, 3) == []
    assert len(problems(0)) == 1
    assert len(problems(3)) == 1
    assert len(problems(2, 4)) == 1
    assert len(problems(3, 2, 3)) == 1


def test_what_was_fetched_before_a_partition_was_lost_is_no_position() -> None:
    committing = event(3, "a", "commit", Committing("g", *PLACE, 2), kind="invoke", id=1)
    done = [given(1, "a", 1), read(2, "a", 0, 1), committing, event(4, "a", "commit", Committing("g", *PLACE, 2), id=1)]

    def problems(*offsets: int) -> list[str]:
        history = [*done, gone(5, "a", 1), given(6, "a", 2), read(7, "a", *offsets)]
        found = judging.claims_of(history, {"a"}, {"a": float("inf")})
        return judging.positions_go_on(found, [commit(2, 1)], judging.commit_times(history))

    assert problems(3, 2, 3, 4) == []
    assert problems(3, 4, 2) == []
    assert len(problems(3, 4)) == 1, "it did not go back"
    assert len(problems(3, 1)) == 1, "it did not go back to what was committed"


def test_records_that_nobody_read_are_seen() -> None:
    sent = [event(1, "feeder", "send", Send(*PLACE, offset, str(offset))) for offset in range(2)]
    assert judging.at_least_once([*sent, read(2, "a", 0, 1)], {"a"}, {PLACE: 2}) == []
    assert len(judging.at_least_once([*sent, read(2, "a", 0)], {"a"}, {PLACE: 2})) == 1
    assert len(judging.at_least_once([*sent, read(2, "a", 0, 1)], {"a"}, {PLACE: 3})) == 1
    other = event(2, "a", "poll", Poll(*PLACE, 1, "something else"))
    assert len(judging.at_least_once([*sent, read(2, "a", 0), other], {"a"}, {PLACE: 2})) == 1


def test_silences_that_follow_one_another_are_one() -> None:
    short = [Silence("", 1, 2), Silence("", 2.5, 3.5), Silence("", 9, 10)]
    assert judging.starvations(short, 2) == [Silence("", 1, 3.5)]
    assert judging.starvations(short, 3) == []


def test_a_member_is_deaf_only_if_it_gave_up_the_heartbeat_that_told_it() -> None:
    four, five = ("t", 4), ("t", 5)
    has = {"a": frozenset({five}), "b": frozenset[tuple[str, int]]()}

    def deaf(*given_up: float, owned: dict[str, frozenset[tuple[str, int]]] = has, stable: bool = True, name: str = "a") -> list[str]:
        members = {"A": MemberState(7, stable, frozenset({four, five}), 100.0), "B": MemberState(7)}
        state = GroupState(generation=7, members=members, client_ids={"A": "a", "B": "b"})
        return judging.deaf(owned, state, {name: given_up}, 4)

    assert deaf(90.0, 100.4) == ["a"]
    assert deaf(99.9) == ["a"], "its request waited for the coordinator"
    assert deaf() == [], "it gave up none"
    assert deaf(95.9, 104.1) == [], "these were others"
    assert deaf(100.4, name="b") == [], "that was another member's"
    assert deaf(100.4, stable=False) == [], "the coordinator is not done"
    assert deaf(100.4, owned=has | {"a": frozenset({five, ("t", 3)})}) == [], "it has what it was not told"
    assert deaf(100.4, owned=has | {"b": frozenset({five})}) == [], "there is more that differs"
    assert deaf(100.4, owned={"a": has["a"]}) == [], "one is not there"
    assert deaf(100.4, owned=has | {"a": frozenset({four, five})}) == [], "nothing differs"


def test_who_did_not_hear_that_it_has_to_give_up_owns_until_its_time_is_over() -> None:
    history = [given(1, "a", 1), given(10, "b", 2), gone(11, "a", 1)]

    def overlapping(since: float, *given_up: float, member: str = "a", partition: tuple[str, int] = PLACE) -> int:
        found = judging.claims_of(history, {"a", "b"}, {"a": float("inf"), "b": float("inf")})
        revocations = {"g": [Revocation(member, frozenset({partition}), since)]}
        judging.guard_deaf(found, revocations, {"a": given_up}, 4, 8)
        return len(judging.one_owner(found, {}))

    assert overlapping(2, 2.4) == 0
    assert overlapping(2) == 1, "it heard"
    assert overlapping(2, 6.1) == 1, "that was another heartbeat"
    assert overlapping(2.5, 2.9) == 1, "it had time left"
    assert overlapping(2, 2.4, partition=("t", 1)) == 1, "it had to give up something else"
    assert overlapping(2, 2.4, member="b") == 1, "somebody else had to give up"


def test_who_is_removed_because_it_did_not_give_up_in_time_loses_all() -> None:
    four, five = ("t", 4), ("t", 5)
    topic = UUID(int=1)
    log = GroupLog("", {topic: "t"})

    def stood(at: float, kept: list[int] | None, leaving: Sequence[int] = ()) -> list[Revocation]:
        of = ConsumerGroupCurrentMemberAssignmentValue
        value = None
        if kept is not None:
            value = of(
                member_epoch=7,
                state=1 if leaving else 0,
                assigned_partitions=[of.TopicPartitions(topic_id=topic, partitions=kept)],
                partitions_pending_revocation=[of.TopicPartitions(topic_id=topic, partitions=list(leaving))],
            )
        log.take_in(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"), value), 0, at)
        return log.groups["g"].revocations

    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="a")
    log.take_in(CoordinatorRecord(key, ConsumerGroupMemberMetadataValue(client_id="A")), 0, 0.0)
    assert stood(1, [4, 5]) == []
    assert stood(2, [4], [5]) == [Revocation("A", frozenset({five}), 2)]
    assert stood(3, [4], [5])[1:] == [Revocation("A", frozenset({five}), 3)]
    assert stood(10, None)[2:] == [Revocation("A", frozenset({four, five}), 2)]
    stood(11, [4], [5])
    stood(12, [4])
    assert len(stood(13, None)) == 4, "it had given up in time"


def test_a_commit_may_be_overtaken_while_nobody_has_heard_of_it() -> None:
    later, earlier = commit(20, 2), commit(10, 1)
    unheard = {("a", 1): (1.0, float("inf")), ("a", 2): (2.0, 3.0)}
    assert judging.commits_go_on("g", [later, earlier], unheard) == []
    assert len(judging.commits_go_on("g", [later, earlier], unheard | {("a", 1): (1.0, 1.5)})) == 1, "it was done before"
    assert len(judging.commits_go_on("g", [later, earlier._replace(number=3)], {("a", 3): (2.5, 3.0), **unheard})) == 1, (
        "it is the later one"
    )
    assert len(judging.commits_go_on("g", [later, earlier._replace(member="b")], {("b", 1): (1.0, 9.0), **unheard})) == 1
