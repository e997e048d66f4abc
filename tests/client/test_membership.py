"""Memberships of both kinds without IO: any order of answers, losses, timers and polls, and each rule by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.assignors.protocol import Assigned, decode_subscription, encode_assignment
from odradek.client.core.membership import GiveUp, Loss, Membership, Send, Subscribed, Take
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.group_model import (
    BEAT_MS,
    PARTITIONS,
    POLL_MS,
    SESSION_MS,
    TOPIC,
    TOPIC_ID,
    TOPICS,
    ClassicCoordinator,
    ConsumerCoordinator,
    ModelMember,
    classic,
    consumer,
)

P = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
KINDS = ("range", "sticky", "cooperative-sticky", "consumer")


class MembershipWorld:
    """Three members of one kind and their coordinator."""

    def __init__(self, kind: str, count: int = 3) -> None:
        self.kind = kind
        self.now_ms = 0
        self.coordinator = ConsumerCoordinator() if kind == "consumer" else ClassicCoordinator()
        self.members = [ModelMember(self._membership(number), self.coordinator) for number in range(count)]

    def _membership(self, number: int) -> Membership:
        return consumer(f"m{number}") if self.kind == "consumer" else classic(self.kind)

    def step(self, action: str, at: int, which: int) -> None:
        member = self.members[at % len(self.members)]
        if action == "poll":
            member.poll(self.now_ms)
        elif action in ("send", "lose request"):
            member.flush(self.now_ms, lose=action == "lose request")
        elif action in ("hear", "lose answer"):
            member.hear(self.now_ms, which=which, lose=action == "lose answer")
        elif action == "wait":
            self.wait((10, 300, BEAT_MS, POLL_MS + 1)[which % 4])
        elif action == "expel":
            known = sorted(self.known())
            if known:
                self.coordinator.expel(known[which % len(known)])
        elif isinstance(self.coordinator, ClassicCoordinator):
            self.coordinator.expel_the_late()
        self.check()

    def known(self) -> set[str]:
        return set(self.coordinator.members if isinstance(self.coordinator, ClassicCoordinator) else self.coordinator.epochs)

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        for member in self.members:
            member.membership.tick(self.now_ms)

    def check(self) -> None:
        """Nobody has what another has, unless the coordinator has given up one of the two and it has not heard of it."""
        known = self.known()
        owners = Counter(
            partition
            for member in self.members
            if member.membership.is_member and member.membership.metadata().member_id in known
            for partition in member.application
        )
        assert all(count == 1 for count in owners.values()), owners

    def settle(self) -> None:
        """All answers come, all poll: after a while every partition has its owner."""
        for _ in range(200):
            for member in self.members:
                member.flush(self.now_ms)
                member.hear(self.now_ms)
                member.poll(self.now_ms)
                member.flush(self.now_ms)
            if isinstance(self.coordinator, ClassicCoordinator) and self.now_ms % POLL_MS == 0:
                self.coordinator.expel_the_late()
            self.wait(100)
            self.check()


@pytest.mark.parametrize("kind", KINDS)
@effort(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("poll", "send", "hear", "poll", "send", "hear", "wait", "lose request", "lose answer", "expel", "late")),
            st.integers(0, 2),
            st.integers(0, 3),
        ),
        max_size=80,
    )
)
def test_no_partition_has_two_owners_whatever_happens_and_all_have_one_in_the_end(kind: str, steps: list[tuple[str, int, int]]) -> None:
    world = MembershipWorld(kind)
    for action, at, which in steps:
        world.step(action, at, which)
    # Who was forgotten by the coordinator may be one that it still counts: its session ends.
    mine = {member.membership.metadata().member_id for member in world.members}
    for member_id in world.known() - mine:
        world.coordinator.expel(member_id)
    world.settle()
    owned = [each for member in world.members for each in member.application]
    assert sorted(owned) == P
    before = [len(member.sent) for member in world.members]
    for _ in range(100):
        for member in world.members:
            member.poll(world.now_ms)
            member.flush(world.now_ms)
            member.hear(world.now_ms)
        world.wait(100)
    quiet = [len(member.sent) - count for member, count in zip(world.members, before, strict=True)]
    assert max(quiet) <= 10_000 // BEAT_MS + 2, "where nothing happens there are heartbeats only"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["no answer", "loading", "moved"])
def test_a_coordinator_that_does_not_answer_is_not_stormed(kind: str, fault: str) -> None:
    world = MembershipWorld(kind, count=1)
    member = world.members[0]

    def refuse(request: object, reply: Callable[[object], None]) -> None:
        code = ErrorCode.NOT_COORDINATOR if fault == "moved" else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        reply((ConsumerGroupHeartbeatResponse if kind == "consumer" else JoinGroupResponse)(error_code=code))

    world.coordinator.ask = refuse  # type: ignore[method-assign, assignment]
    for _ in range(6_000):
        member.poll(world.now_ms)
        member.flush(world.now_ms, lose=fault == "no answer")
        member.hear(world.now_ms)
        world.wait(10)
    assert 40 <= len(member.sent) <= 90
    assert member.membership.forgets_coordinator() == (fault == "moved")


class Told:
    """A membership whose answers a test writes itself."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.now_ms = 0
        self.sends: list[Send] = []
        membership.subscribe(Subscribed(frozenset({TOPIC})), 0)

    def poll(self) -> list[object]:
        """The work of one poll."""
        self.membership.poll_began(self.now_ms)
        done: list[object] = []
        while (work := self.membership.work) is not None:
            self.membership.begin(work)
            done.append(work)
            self.membership.done(work, self.now_ms)
        self.membership.poll_ended(self.now_ms)
        return done

    def requests(self) -> list[object]:
        taken = self.membership.take_requests()
        self.sends += [each for each in taken if isinstance(each, Send)]
        return [each.request if isinstance(each, Send) else each for each in taken]

    def answer(self, response: object, *, ticket: int | None = None) -> None:
        last = self.sends[-1].ticket if ticket is None else ticket
        assert last is not None
        self.membership.answered(last, response, self.now_ms)  # type: ignore[arg-type]

    def wait(self, milliseconds: int) -> list[object]:
        self.now_ms += milliseconds
        self.membership.tick(self.now_ms)
        return self.requests()

    def join(self, *partitions: TopicPartition, generation: int = 1) -> None:
        """Up to the assignment, which the application has not taken yet."""
        self.requests()
        self.answer(JoinGroupResponse(generation_id=generation, protocol_name=self.protocol(), leader="other", member_id="me"))
        assert isinstance(self.requests()[-1], SyncGroupRequest)
        self.answer(SyncGroupResponse(assignment=encode_assignment(Assigned(partitions))))

    def protocol(self) -> str:
        request = self.sends[-1].request
        assert isinstance(request, JoinGroupRequest)
        return request.protocols[0].name


def member(*names: str, **changed: object) -> Told:
    """A classic member that has taken the first two partitions."""
    told = Told(classic(*names, **changed))
    assert told.poll() == []
    told.join(P[0], P[1])
    assert told.poll() == [Take((P[0], P[1]), (P[0], P[1]))]
    assert told.requests() == []
    return told


def test_nobody_joins_before_the_first_poll() -> None:
    told = Told(classic("range"))
    assert told.requests() == []
    told.poll()
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms, request.member_id) == (SESSION_MS, POLL_MS, "")


def test_a_given_member_id_is_used_at_once() -> None:
    told = Told(classic("range"))
    told.poll()
    told.requests()
    told.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "me"


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    told = member("range")
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert told.requests() == []
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.REVOKED)]
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).owned == []


def test_a_cooperative_member_joins_again_at_once_and_keeps_what_it_has() -> None:
    told = member("cooperative-sticky")
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).owned == [P[0], P[1]]
    assert told.membership.owned == {P[0], P[1]}


def test_a_cooperative_member_gives_up_what_others_get_and_joins_again() -> None:
    told = member("cooperative-sticky")
    told.membership.request_rejoin("test", told.now_ms)
    told.join(P[1], P[2], generation=2)
    assert told.poll() == [GiveUp((P[0],), Loss.REVOKED), Take((P[1], P[2]), (P[2],))]
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).owned == [P[1], P[2]]


def test_what_was_not_taken_before_the_next_rebalance_is_not_claimed() -> None:
    told = member("cooperative-sticky")
    told.membership.request_rejoin("test", told.now_ms)
    told.join(P[0], P[1], P[2], generation=2)
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).owned == [P[0], P[1]]
    assert told.poll() == []


def test_strategies_of_both_kinds_are_eager() -> None:
    told = Told(classic("range", "cooperative-sticky"))
    told.poll()
    told.join(P[0])
    told.poll()
    told.membership.request_rejoin("test", told.now_ms)
    assert told.poll() == [GiveUp((P[0],), Loss.REVOKED)]


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_is_forgotten_loses_all_and_joins_again(error: ErrorCode) -> None:
    told = member("cooperative-sticky")
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=error))
    assert told.membership.metadata() == ConsumerGroupMetadata("g")
    assert told.wait(BEAT_MS) == []
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.LOST)]
    (request,) = told.requests()
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == ("" if error is ErrorCode.UNKNOWN_MEMBER_ID else "me")


def test_what_was_to_be_revoked_is_lost_when_the_member_is_forgotten_meanwhile() -> None:
    told = member("range")
    told.membership.request_rejoin("test", told.now_ms)
    assert told.membership.work == GiveUp((P[0], P[1]), Loss.REVOKED)
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.LOST)]


def test_heartbeats_go_on_while_the_application_gives_up_partitions() -> None:
    told = member("range")
    told.membership.request_rejoin("test", told.now_ms)
    work = told.membership.work
    assert work is not None
    told.membership.begin(work)
    for _ in range(3):
        assert [type(each) for each in told.wait(BEAT_MS)] == [HeartbeatRequest]
        told.answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert told.membership.work is work


def test_who_does_not_poll_leaves_and_its_next_poll_brings_it_back() -> None:
    told = member("cooperative-sticky")
    assert told.membership.wake_at_ms() <= POLL_MS
    for _ in range(POLL_MS // BEAT_MS - 1):
        assert [type(each) for each in told.wait(BEAT_MS)] == [HeartbeatRequest]
        told.answer(HeartbeatResponse())
    assert [type(each) for each in told.wait(BEAT_MS)] == [LeaveGroupRequest]
    assert told.wait(10 * POLL_MS) == []
    assert not told.membership.is_member
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.LOST)]
    assert [type(each) for each in told.requests()] == [JoinGroupRequest]


def test_a_poll_that_waits_for_records_is_not_too_long() -> None:
    told = member("range")
    told.membership.poll_began(told.now_ms)
    for _ in range(3 * POLL_MS // BEAT_MS):
        assert [type(each) for each in told.wait(BEAT_MS)] == [HeartbeatRequest]
        told.answer(HeartbeatResponse())


def test_a_static_member_that_does_not_poll_does_not_leave() -> None:
    told = member("range", instance_id="one")
    assert LeaveGroupRequest not in [type(each) for each in told.wait(POLL_MS)]
    assert not told.membership.is_member


@pytest.mark.parametrize(
    ("instance_id", "stay", "leaves"), [(None, None, True), (None, True, False), ("one", None, False), ("one", False, True)]
)
def test_who_leaves(instance_id: str | None, stay: bool | None, leaves: bool) -> None:
    told = member("range", instance_id=instance_id)
    send = told.membership.leave(told.now_ms, reason="test", stay=stay)
    assert (send is not None) == leaves
    assert told.wait(10 * BEAT_MS) == []


def test_a_coordinator_that_is_silent_for_a_session_is_looked_for_anew() -> None:
    told = member("range")
    told.membership.poll_began(0)
    told.wait(BEAT_MS)
    assert not told.membership.forgets_coordinator()
    assert [type(each) for each in told.wait(SESSION_MS)] == [HeartbeatRequest]
    assert told.membership.forgets_coordinator()


def test_a_lost_heartbeat_is_repeated_soon_and_not_at_once() -> None:
    told = member("range")
    told.wait(BEAT_MS)
    ticket = told.sends[-1].ticket
    assert ticket is not None
    told.membership.failed(ticket, KafkaError(ErrorCode.NETWORK_EXCEPTION), told.now_ms)
    assert told.wait(10) == []
    assert [type(each) for each in told.wait(200)] == [HeartbeatRequest]


def test_answers_of_before_are_nothing_any_more() -> None:
    told = member("cooperative-sticky")
    told.wait(BEAT_MS)
    old = told.sends[-1].ticket
    told.membership.request_rejoin("test", told.now_ms)
    told.requests()
    told.answer(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), ticket=old)
    assert told.membership.is_member


def test_the_leader_rebalances_when_partitions_are_added() -> None:
    told = Told(classic("range"))
    told.poll()
    told.requests()
    metadata = told.sends[-1].request.protocols[0].metadata  # type: ignore[attr-defined]
    each = JoinGroupResponse.JoinGroupResponseMember(member_id="me", metadata=metadata)
    told.answer(JoinGroupResponse(generation_id=1, protocol_name="range", leader="me", member_id="me", members=[each]))
    (look_up,) = told.requests()
    told.membership.looked_up(look_up.ticket, TOPICS, told.now_ms)  # type: ignore[attr-defined]
    (sync,) = told.requests()
    assert isinstance(sync, SyncGroupRequest)
    told.answer(SyncGroupResponse(assignment=sync.assignments[0].assignment))
    assert told.poll() == [Take(tuple(P), tuple(P))]
    told.membership.topics_changed(TOPICS, told.now_ms)
    assert told.membership.work is None
    told.membership.topics_changed({TOPIC: [frozenset({"rack"})] * PARTITIONS}, told.now_ms)
    assert told.membership.work is None, "racks matter to members that have one"
    told.membership.topics_changed({TOPIC: [frozenset()] * 9}, told.now_ms)
    assert told.membership.work == GiveUp(tuple(P), Loss.REVOKED)


@pytest.mark.parametrize(
    "error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.GROUP_MAX_SIZE_REACHED]
)
def test_an_error_that_does_not_heal_is_told_and_the_next_poll_tries_again_after_a_while(error: ErrorCode) -> None:
    told = Told(classic("range"))
    told.poll()
    told.requests()
    told.answer(JoinGroupResponse(error_code=error))
    raised = told.membership.take_error()
    assert isinstance(raised, KafkaError)
    assert raised.code is error
    assert told.wait(60_000) == []
    told.membership.poll_began(told.now_ms)
    assert [type(each) for each in told.requests()] == [JoinGroupRequest]
    told.answer(JoinGroupResponse(error_code=error))
    told.membership.poll_began(told.now_ms)
    assert told.requests() == []


def test_who_is_fenced_does_not_fence_back() -> None:
    told = member("range", instance_id="one")
    told.wait(BEAT_MS)
    told.answer(HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    for _ in range(3):
        told.poll()
        assert isinstance(told.membership.take_error(), KafkaError)
        assert told.wait(60_000) == []
    told.membership.subscribe(Subscribed(frozenset({TOPIC})), told.now_ms)
    told.poll()
    assert [type(each) for each in told.wait(0)] == [JoinGroupRequest]


def test_a_refused_commit_tells_of_the_membership() -> None:
    told = member("range")
    old = ConsumerGroupMetadata("g", 0, "me")
    told.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, old, told.now_ms)
    assert told.membership.is_member
    told.membership.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, told.membership.metadata(), told.now_ms)
    assert told.membership.work == GiveUp((P[0], P[1]), Loss.REVOKED)
    told.membership.commit_refused(ErrorCode.ILLEGAL_GENERATION, told.membership.metadata(), told.now_ms)
    assert told.membership.work == GiveUp((P[0], P[1]), Loss.LOST)


# -- KIP-848 ----------------------------------------------------------------------------------------------------------------------------


def assignment(*numbers: int) -> ConsumerGroupHeartbeatResponse.Assignment:
    each = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=TOPIC_ID, partitions=list(numbers))
    return ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[each] if numbers else [])


def beat(epoch: int, *numbers: int, unchanged: bool = False) -> ConsumerGroupHeartbeatResponse:
    told = None if unchanged else assignment(*numbers)
    return ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch, heartbeat_interval_ms=BEAT_MS, assignment=told)


def new_member(**changed: object) -> Told:
    """A member of a KIP-848 group that has taken the first two partitions and said so."""
    told = Told(consumer(**changed))
    told.poll()
    told.requests()
    told.answer(beat(1, 0, 1))
    for each in told.requests():
        told.membership.named(each.ticket, {TOPIC_ID: TOPIC}, told.now_ms)  # type: ignore[attr-defined]
    assert told.poll() == [Take((P[0], P[1]), (P[0], P[1]))]
    (request,) = told.requests()
    assert owned(request) == {0, 1}
    told.answer(beat(1, unchanged=True))
    assert told.membership.state == "stable"
    return told


def owned(request: object) -> set[int] | None:
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    if request.topic_partitions is None:
        return None
    return {number for each in request.topic_partitions for number in each.partitions}


def test_the_first_heartbeat_says_everything_and_the_next_nothing() -> None:
    told = Told(consumer(instance_id="one", rack="r"))
    assert told.requests() == []
    told.poll()
    (first,) = told.requests()
    assert isinstance(first, ConsumerGroupHeartbeatRequest)
    assert (first.member_epoch, first.instance_id, first.rack_id, first.rebalance_timeout_ms) == (0, "one", "r", POLL_MS)
    assert (first.subscribed_topic_names, first.topic_partitions) == ([TOPIC], [])
    told.answer(beat(1, unchanged=True))
    (second,) = told.wait(BEAT_MS)
    assert isinstance(second, ConsumerGroupHeartbeatRequest)
    assert (second.member_epoch, second.rack_id, second.rebalance_timeout_ms) == (1, None, -1)
    assert (second.subscribed_topic_names, second.topic_partitions) == (None, None)


def test_what_another_is_to_get_is_given_up_before_it_is_said() -> None:
    told = new_member()
    (plain,) = told.wait(BEAT_MS)
    assert owned(plain) is None
    told.answer(beat(1, 0))
    assert told.requests() == []
    told.wait(BEAT_MS - 1)
    assert [owned(each) for each in told.wait(1)] == [None], "what is still to be given up is still held"
    told.answer(beat(1, unchanged=True))
    assert told.poll() == [GiveUp((P[1],), Loss.REVOKED)]
    assert [owned(each) for each in told.requests()] == [{0}]


def test_a_fenced_member_loses_all_before_it_joins_again() -> None:
    told = new_member()
    told.wait(BEAT_MS)
    told.answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert told.wait(10 * BEAT_MS) == []
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.LOST)]
    (request,) = told.requests()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.member_id, owned(request)) == (0, "m", set())


def test_after_a_heartbeat_without_an_answer_everything_is_said_again() -> None:
    told = new_member()
    told.wait(BEAT_MS)
    ticket = told.sends[-1].ticket
    assert ticket is not None
    told.membership.failed(ticket, KafkaError(ErrorCode.NETWORK_EXCEPTION), told.now_ms)
    assert told.requests() == []
    (request,) = told.wait(200)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.subscribed_topic_names, owned(request)) == (1, [TOPIC], {0, 1})


def test_another_subscription_is_said_at_once_and_a_pattern_is_taken_back() -> None:
    told = new_member()
    told.membership.subscribe(Subscribed(frozenset(), "t.*"), told.now_ms)
    (request,) = told.requests()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")
    told.membership.subscribe(Subscribed(frozenset({TOPIC})), told.now_ms)
    assert told.requests() == [], "one at a time"
    told.answer(beat(1, unchanged=True))
    (request,) = told.requests()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([TOPIC], "")


def test_topics_whose_name_is_not_known_yet_are_taken_later() -> None:
    told = Told(consumer())
    told.poll()
    told.requests()
    told.answer(beat(1, 0))
    (look_up,) = told.requests()
    assert told.membership.work is None
    told.membership.named(look_up.ticket, {}, told.now_ms)  # type: ignore[attr-defined]
    assert told.requests() == []
    (again,) = told.wait(200)
    told.membership.named(again.ticket, {TOPIC_ID: TOPIC}, told.now_ms)  # type: ignore[attr-defined]
    assert told.poll() == [Take((P[0],), (P[0],))]


@pytest.mark.parametrize(
    ("instance_id", "stay", "epoch"), [(None, None, -1), (None, True, None), ("one", None, -2), ("one", False, -1), ("one", True, -2)]
)
def test_how_a_member_of_a_new_group_leaves(instance_id: str | None, stay: bool | None, epoch: int | None) -> None:
    told = new_member(instance_id=instance_id)
    send = told.membership.leave(told.now_ms, reason="test", stay=stay)
    assert (None if send is None else send.request.member_epoch) == epoch  # type: ignore[attr-defined]
    assert told.wait(10 * BEAT_MS) == []


def test_a_member_of_a_new_group_that_does_not_poll_leaves() -> None:
    told = new_member()
    (request,) = [each for each in told.wait(POLL_MS) if each.member_epoch < 0]  # type: ignore[attr-defined]
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert told.wait(10 * POLL_MS) == []
    assert told.poll() == [GiveUp((P[0], P[1]), Loss.LOST)]
    assert [each.member_epoch for each in told.requests()] == [0]  # type: ignore[attr-defined]
