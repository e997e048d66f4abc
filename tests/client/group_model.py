"""Models of the coordinators of both kinds of groups, and members without IO that they talk to: time and order are the test's.

The models keep Kafka's rules and nothing else: who is a member of which generation, who waits for whom, what was assigned.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.assignors.registry import ASSIGNORS
from odradek.client.core.membership import GiveUp, GroupSettings, LookUp, LookUpNames, Membership, Send, Subscribed, Take, Work
from odradek.client.core.membership_classic import ClassicMembership
from odradek.client.core.membership_consumer import ConsumerMembership
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.schema import Message

TOPIC = "t"
TOPIC_ID = UUID(int=9)
PARTITIONS = 5
TOPICS = {TOPIC: [frozenset[str]()] * PARTITIONS}
SESSION_MS, BEAT_MS, POLL_MS = 10_000, 1_000, 5_000
Reply = Callable[[Message], None]


def settings(**changed: Any) -> GroupSettings:
    plain = GroupSettings(
        group_id="g",
        instance_id=None,
        rack=None,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=BEAT_MS,
        max_poll_interval_ms=POLL_MS,
        request_timeout_ms=3_000,
    )
    return plain._replace(**changed)


def backoff(seed: int = 1) -> Backoff:
    return Backoff(100, 1_000, random.Random(seed))


def classic(*names: str, **changed: Any) -> ClassicMembership:
    return ClassicMembership(settings(**changed), [ASSIGNORS[name] for name in names or ("cooperative-sticky",)], backoff())


def consumer(member_id: str = "m", **changed: Any) -> ConsumerMembership:
    return ConsumerMembership(settings(**changed), member_id, None, backoff())


class ClassicCoordinator:
    """A classic group: a rebalance ends when all members have joined, or those that did not are thrown out."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, bytes] = {}
        self.protocol = ""
        self.joining: dict[str, Reply] = {}
        self.syncing: dict[str, Reply] = {}
        self.assignments: dict[str, bytes] | None = None
        self.preparing = False
        self._next = 0

    def ask(self, request: Message, reply: Reply) -> None:
        if isinstance(request, JoinGroupRequest):
            self._join(request, reply)
        elif isinstance(request, SyncGroupRequest):
            self._sync(request, reply)
        elif isinstance(request, HeartbeatRequest):
            reply(HeartbeatResponse(error_code=self._refusal(request.member_id, request.generation_id)))
        elif isinstance(request, LeaveGroupRequest):
            for member in request.members:
                self.expel(member.member_id)
            reply(LeaveGroupResponse())

    def _refusal(self, member_id: str, generation: int) -> ErrorCode:
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.preparing else ErrorCode.NONE

    def _join(self, request: JoinGroupRequest, reply: Reply) -> None:
        if not request.member_id:
            self._next += 1
            reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=f"member-{self._next}"))
            return
        number = int(request.member_id.removeprefix("member-"))
        if number > self._next:
            reply(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            return
        self.members[request.member_id] = request.protocols[0].metadata
        self.protocol = request.protocols[0].name
        self.joining[request.member_id] = reply
        self._prepare()
        self._complete()

    def _prepare(self) -> None:
        if not self.preparing:
            self.preparing = True
            self.assignments = None
            waiting, self.syncing = self.syncing, {}
            for reply in waiting.values():
                reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def _complete(self) -> None:
        if not self.preparing or set(self.joining) != set(self.members) or not self.members:
            return
        self.preparing = False
        self.generation += 1
        self.leader = min(self.members)
        each = JoinGroupResponse.JoinGroupResponseMember
        listed = [each(member_id=member_id, metadata=metadata) for member_id, metadata in self.members.items()]
        waiting, self.joining = self.joining, {}
        for member_id, reply in waiting.items():
            reply(
                JoinGroupResponse(
                    generation_id=self.generation,
                    protocol_name=self.protocol,
                    leader=self.leader,
                    member_id=member_id,
                    members=listed if member_id == self.leader else [],
                )
            )

    def _sync(self, request: SyncGroupRequest, reply: Reply) -> None:
        refusal = self._refusal(request.member_id, request.generation_id)
        if refusal:
            reply(SyncGroupResponse(error_code=refusal))
            return
        if request.member_id == self.leader and self.assignments is None:
            self.assignments = {each.member_id: each.assignment for each in request.assignments}
        self.syncing[request.member_id] = reply
        if self.assignments is not None:
            waiting, self.syncing = self.syncing, {}
            for member_id, answer in waiting.items():
                answer(SyncGroupResponse(assignment=self.assignments.get(member_id, b"")))

    def expel(self, member_id: str) -> None:
        """Its session has ended, or it left."""
        if self.members.pop(member_id, None) is not None:
            self.joining.pop(member_id, None)
            self.syncing.pop(member_id, None)
            self._prepare()
            self._complete()

    def expel_the_late(self) -> None:
        """The rebalance has taken too long."""
        if self.preparing:
            for member_id in set(self.members) - set(self.joining):
                self.expel(member_id)


class ConsumerCoordinator:
    """A group of KIP-848: deals partitions evenly, and gives nobody what another has not given up."""

    def __init__(self) -> None:
        self.epoch = 0
        self.target: dict[str, set[int]] = {}
        self.held: dict[str, set[int]] = {}
        """What a member may still have: what it was told, until it says that it has less."""
        self.epochs: dict[str, int] = {}
        self.told: dict[str, set[int] | None] = {}

    def ask(self, request: Message, reply: Reply) -> None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        member_id = request.member_id
        if request.member_epoch < 0:
            self.expel(member_id)
            reply(ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch))
            return
        if request.member_epoch == 0:
            assert request.topic_partitions == [], "a member that joins has nothing"
            assert request.subscribed_topic_names == [TOPIC]
            self.held.pop(member_id, None)
            self.epochs[member_id] = 0
            self.told[member_id] = None
            self._deal()
        elif member_id not in self.epochs:
            reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            return
        elif request.member_epoch not in (self.epochs[member_id], self.epochs[member_id] - 1):
            reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
            return
        if request.topic_partitions is not None and request.member_epoch > 0:
            named = {number for each in request.topic_partitions for number in each.partitions}
            told = self.told.get(member_id) or set()
            self.held[member_id] = named | (told & self.target[member_id])
        others = {number for other, held in self.held.items() if other != member_id for number in held}
        gives = self.target[member_id] - others
        mine = self.held.setdefault(member_id, set())
        may_have = gives if mine <= self.target[member_id] else mine & self.target[member_id]
        assignment = None
        if self.told[member_id] != may_have:
            self.told[member_id] = set(may_have)
            self.epochs[member_id] += 1
            each = ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=TOPIC_ID, partitions=sorted(may_have))
            assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[each] if may_have else [])
        self.held[member_id] |= may_have
        reply(
            ConsumerGroupHeartbeatResponse(
                member_id=member_id, member_epoch=self.epochs[member_id], heartbeat_interval_ms=BEAT_MS, assignment=assignment
            )
        )

    def _deal(self) -> None:
        order = sorted(self.epochs)
        self.target = {
            member_id: {number for number in range(PARTITIONS) if number % len(order) == at} for at, member_id in enumerate(order)
        }

    def expel(self, member_id: str) -> None:
        for kept in (self.epochs, self.held, self.told, self.target):
            kept.pop(member_id, None)
        if self.epochs:
            self._deal()


class ModelMember:
    """A membership, its network and its application."""

    def __init__(self, membership: Membership, coordinator: ClassicCoordinator | ConsumerCoordinator) -> None:
        self.membership = membership
        self.coordinator = coordinator
        self.inbox: list[tuple[int, Message]] = []
        self.sent: list[Message] = []
        self.errors: list[BaseException] = []
        self.work_done: list[Work] = []
        self.application: set[TopicPartition] = set()
        self.membership.subscribe(Subscribed(frozenset({TOPIC})), 0)

    def flush(self, now_ms: int, *, lose: bool = False) -> None:
        """Sends what is to be sent; `lose`: the connection breaks instead."""
        while requests := self.membership.take_requests():
            for request in requests:
                if isinstance(request, LookUp):
                    self.membership.looked_up(request.ticket, TOPICS, now_ms)
                elif isinstance(request, LookUpNames):
                    self.membership.named(request.ticket, dict.fromkeys(request.ids, TOPIC), now_ms)
                else:
                    self._send(request, now_ms, lose=lose)

    def _send(self, send: Send, now_ms: int, *, lose: bool) -> None:
        self.sent.append(send.request)
        ticket = send.ticket
        if lose and ticket is not None:
            self.membership.failed(ticket, KafkaError(ErrorCode.NETWORK_EXCEPTION), now_ms)
            return
        self.coordinator.ask(send.request, lambda response: None if ticket is None else self.inbox.append((ticket, response)))

    def hear(self, now_ms: int, *, which: int = 0, lose: bool = False) -> None:
        """Takes one of the answers that wait."""
        if self.inbox:
            ticket, response = self.inbox.pop(which % len(self.inbox))
            if lose:
                self.membership.failed(ticket, KafkaError(ErrorCode.NETWORK_EXCEPTION), now_ms)
            else:
                self.membership.answered(ticket, response, now_ms)

    def poll(self, now_ms: int) -> None:
        """What poll does: the work, and out again."""
        self.membership.poll_began(now_ms)
        while (error := self.membership.take_error()) is not None:
            self.errors.append(error)
        while (work := self.membership.work) is not None:
            self.membership.begin(work)
            self.work_done.append(work)
            if isinstance(work, GiveUp):
                assert self.application.issuperset(work.partitions), "only what the application has is taken from it"
                self.application.difference_update(work.partitions)
            else:
                assert isinstance(work, Take)
                assert self.application.isdisjoint(work.added)
                self.application.update(work.added)
                assert self.application == set(work.partitions)
            self.membership.done(work, now_ms)
        self.membership.poll_ended(now_ms)
        assert self.membership.owned == self.application
