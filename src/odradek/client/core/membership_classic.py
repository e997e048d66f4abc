"""Membership of a classic group (org.apache.kafka.clients.consumer.internals.AbstractCoordinator and ConsumerCoordinator).

1. `subscribe` and the first poll make the member join. The application must give up partitions first. Under an eager protocol it gives up
   all of them, under a cooperative protocol (KIP-429) only the partitions of topics that are not subscribed to any more.
2. JoinGroup waits at the coordinator until all members are there. The leader looks up the topics of all members, assigns, and sends the
   assignment with SyncGroup. The other members ask for their assignment with SyncGroup.
3. The application takes the assignment. A cooperative member first gives up the partitions that another member is to get, and joins again
   afterwards.
4. Heartbeats go on whatever the application does, and tell of the next rebalance. If poll is not called for max.poll.interval.ms, the
   member leaves and loses its partitions.

A rebalance that needs nothing from the application goes on between two calls of poll. An assignment that was not taken before the next
rebalance is void: the member does not claim it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.assignors.protocol import (
    Assigned,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.assignors.registry import Assignor
from odradek.client.assignors.spec import UNKNOWN_GENERATION, Topics
from odradek.client.core.membership import GiveUp, GroupSettings, Loss, Outbox, Send, Subscribed, Take, Work, in_order
from odradek.client.core.metadata import FOREVER
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.schema import Message

_LOG = logging.getLogger("odradek.client.groups")
_PROTOCOL_TYPE = "consumer"
_JOIN_GRACE_MS = 5_000
"""Milliseconds by which the time limit of JoinGroup exceeds that of the rebalance."""


class _Phase(Enum):
    OUTSIDE = "outside"
    JOINING = "joining"
    LOOKING_UP = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"


_UNDER_WAY = (_Phase.JOINING, _Phase.LOOKING_UP, _Phase.SYNCING)
_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class ClassicMembership(Outbox):
    """Member of one group; see `membership.Membership` for its events."""

    def __init__(self, settings: GroupSettings, assignors: Sequence[Assignor], backoff: Backoff) -> None:
        """`assignors`: in the order in which the member prefers them. The member is cooperative only when all of them are (as in Kafka)."""
        super().__init__(settings, backoff)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._phase = _Phase.OUTSIDE
        self._wanted: Subscribed | None = None
        self._member_id = ""
        self._generation = UNKNOWN_GENERATION
        self._protocol: str | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        self._held: tuple[tuple[TopicPartition, ...], int] = ((), UNKNOWN_GENERATION)
        """Last assignment and its generation, for sticky assignors."""
        self._work: Work | None = None
        self._begun: Work | None = None
        self._next: Take | None = None
        self._join_again_after: Take | None = None
        self._rejoin: str | None = None
        """Reason why the member has to join (again)."""
        self._lost = False
        self._may_join = False
        self._fenced: KafkaError | None = None
        self._joining: int | None = None
        self._beating: int | None = None
        self._beat_at_ms = FOREVER
        self._heard_ms = 0
        self._retry_at_ms = 0
        self._failures = 0
        self._said: Mapping[str, Subscription] | None = None
        """Subscriptions of all members, if this member is the leader; else None."""
        self._instances: Mapping[str, str | None] = {}
        self._skip_assignment = False
        self._seen: Mapping[str, object] | None = None

    # -- state ----------------------------------------------------------------------------------------------------------------------

    @property
    def work(self) -> Work | None:
        """Next step of the application, or None."""
        return self._work

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """Partitions that the application has."""
        return self._owned

    @property
    def is_member(self) -> bool:
        """Return whether the coordinator counts the consumer as a member, as far as the consumer knows."""
        return self._generation != UNKNOWN_GENERATION

    @property
    def rebalancing(self) -> bool:
        """Return whether a rebalance is under way, during which offsets cannot be committed."""
        return self._phase in _UNDER_WAY or (self._phase is _Phase.OUTSIDE and self._rejoin is not None and self._may_join)

    @property
    def state(self) -> str:
        """Word for the state, for people."""
        if self._fenced is not None:
            return "fenced"
        return "giving up" if isinstance(self._work, GiveUp) else self._phase.value

    @property
    def watched(self) -> frozenset[str]:
        """Topics to watch: for the leader the topics of all members, for another member its subscription."""
        if self._said is not None:
            return frozenset(topic for said in self._said.values() for topic in said.topics)
        return self._wanted.topics if self._wanted is not None else frozenset()

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the identity of the member towards the coordinator."""
        member_id = self._member_id if self.is_member else ""
        return ConsumerGroupMetadata(self.settings.group_id, self._generation, member_id, self.settings.instance_id)

    # -- calls of the application ---------------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Subscribed, now_ms: int) -> None:
        """Replace the subscription."""
        if wanted != self._wanted or self._fenced is not None:
            self._wanted = wanted
            self._fenced = None
            self.request_rejoin("the subscription changed", now_ms)

    def request_rejoin(self, reason: str, now_ms: int) -> None:
        """Join again as soon as the partitions that have to be given up are given up."""
        if self._wanted is None or self._fenced is not None:
            return
        if self._rejoin is None:
            _LOG.debug("group %s: joining: %s", self.settings.group_id, reason)
        self._rejoin = self._rejoin or reason
        self._advance(now_ms)

    def topics_changed(self, topics: Topics, now_ms: int) -> None:
        """Join again if this member is the leader and the topics no longer have the partitions that it assigned."""
        if self._said is None or self._phase is not _Phase.STABLE:
            return
        shape = self._shape(topics)
        if self._seen is None:
            self._seen = shape
        elif shape != self._seen:
            self._seen = shape
            self.request_rejoin("partitions of the topics have changed", now_ms)

    def _shape(self, topics: Topics) -> Mapping[str, object]:
        """Return the facts whose change is worth a new assignment: partition counts, and racks if the leader has one (as in Kafka)."""
        return topics if self.settings.rack is not None else {name: len(partitions) for name, partitions in topics.items()}

    def poll_began(self, now_ms: int) -> None:
        """Note that the application is in poll; a member that left because poll was not called joins again."""
        self._in_poll = True
        if self._fenced is not None:
            if not self._errors:
                self._errors.append(self._fenced)
            return
        self._may_join = True
        self._advance(now_ms)

    def begin(self, work: Work) -> None:
        """Note that the application begins with the work."""
        assert work is self._work
        self._begun = work
        if isinstance(work, Take):
            self._owned = frozenset(work.partitions)

    def done(self, work: Work, now_ms: int) -> None:
        """Note that the application has done the work."""
        if isinstance(work, GiveUp):
            self._owned = self._owned.difference(work.partitions)
        self._begun = None
        if self._work is work:
            self._work, self._next = self._next, None
        if self._join_again_after is work and not self._lost:
            self._join_again_after = None
            self.request_rejoin("partitions were revoked for other members", now_ms)
        self._advance(now_ms)

    def leave(self, now_ms: int, *, reason: str, stay: bool | None) -> Send | None:
        """End the membership; return the request to send, None without a request.

        The session of a static member runs out by itself, unless `stay` is False. `stay` True does the same for any member.
        """
        request = self._leave_request(reason) if self._leaves(stay) else None
        self._wanted = None
        self._forget_member(now_ms, keep_member_id=False)
        self._rejoin = None
        self._lost = False
        self._owned = frozenset()
        self._work = self._next = None
        return request

    def _leaves(self, stay: bool | None) -> bool:
        stays = self.settings.instance_id is not None if stay is None else stay
        return bool(self._member_id) and not stays

    def _leave_request(self, reason: str) -> Send:
        member = LeaveGroupRequest.MemberIdentity(
            member_id=self._member_id, group_instance_id=self.settings.instance_id, reason=reason[:255]
        )
        request = LeaveGroupRequest(group_id=self.settings.group_id, members=[member])
        return Send(None, request, LeaveGroupResponse, self.settings.request_timeout_ms)

    # -- time -----------------------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Send the heartbeat that is due, retry failed requests, and leave when poll was not called for max.poll.interval.ms."""
        if not self._in_poll and now_ms >= self._poll_deadline_ms and self._may_join and (self._member_id or self._joining):
            self._expire(now_ms)
        if self._beats():
            if now_ms >= self._heard_ms + self.settings.session_timeout_ms:
                # A coordinator would have expired the session by now; another node may be the coordinator.
                self._heard_ms = now_ms
                self._beating = None
                self._forget_coordinator = True
                self._beat_at_ms = now_ms
            if self._beating is None and now_ms >= self._beat_at_ms:
                self._beat(now_ms)
        self._advance(now_ms)

    def wake_at_ms(self) -> int:
        """Return the time at which `tick` has something to do, FOREVER for never."""
        times: list[int] = []
        if self._beats():
            times.append(self._heard_ms + self.settings.session_timeout_ms)
            if self._beating is None:
                times.append(self._beat_at_ms)
        if self._rejoin is not None and self._may_join and self._phase not in _UNDER_WAY and self._work is None:
            times.append(self._retry_at_ms)
        if not self._in_poll and self._may_join and (self._member_id or self._joining):
            times.append(self._poll_deadline_ms)
        return min(times, default=FOREVER)

    def _beats(self) -> bool:
        return self.is_member and self._phase in (_Phase.STABLE, _Phase.LOOKING_UP, _Phase.SYNCING)

    def _beat(self, now_ms: int) -> None:
        self._beat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
        )
        self._beating = self._send(request, HeartbeatResponse)

    def _expire(self, now_ms: int) -> None:
        _LOG.warning(
            "group %s: poll() was not called for max.poll.interval.ms (%d): leaving the group; lower max.poll.records or raise "
            "max.poll.interval.ms",
            self.settings.group_id,
            self.settings.max_poll_interval_ms,
        )
        if self._leaves(None):
            self._requests.append(self._leave_request("poll was not called for max.poll.interval.ms"))
        self._may_join = False
        self._forget_member(now_ms, keep_member_id=False)

    # -- joining --------------------------------------------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> None:
        """Go on as far as possible without the application and without a response."""
        if self._begun is not None or self._phase in _UNDER_WAY:
            return
        if self._lost:
            if self._owned:
                if not (isinstance(self._work, GiveUp) and self._work.loss is Loss.LOST):
                    self._work, self._next = GiveUp(in_order(self._owned), Loss.LOST), None
                return
            self._lost = False
            self._work = None
        if isinstance(self._work, GiveUp) or self._rejoin is None or not self._may_join or self._wanted is None:
            return
        if now_ms < self._retry_at_ms:
            return
        self._work = self._join_again_after = None
        wanted = self._wanted.topics
        leaving = {each for each in self._owned if each.topic not in wanted} if self._cooperative else self._owned
        if leaving:
            self._work = GiveUp(in_order(leaving), Loss.REVOKED)
        else:
            self._join()

    def _join(self) -> None:
        assert self._wanted is not None
        owned = in_order(self._owned)
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    Subscription(
                        sorted(self._wanted.topics),
                        owned,
                        self._generation,
                        self.settings.rack,
                        assignor.user_data(*self._said_of(assignor)),
                    )
                ),
            )
            for assignor in self._assignors.values()
        ]
        request = JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=protocols,
            reason=(self._rejoin or "")[:255],
        )
        timeout_ms = max(self.settings.request_timeout_ms, self.settings.max_poll_interval_ms + _JOIN_GRACE_MS)
        self._phase = _Phase.JOINING
        self._rejoin = None
        self._beating = None
        self._said = self._seen = None
        self._joining = self._send(request, JoinGroupResponse, timeout_ms)

    def _said_of(self, assignor: Assignor) -> tuple[Sequence[TopicPartition], int]:
        return (in_order(self._owned), self._generation) if assignor.cooperative else self._held

    def answered(self, ticket: int, response: Message, now_ms: int) -> None:
        """Process the coordinator's response."""
        if ticket == self._beating and isinstance(response, HeartbeatResponse):
            self._beating = None
            self._on_heartbeat(code_of(response.error_code), now_ms)
        elif ticket == self._joining:
            self._joining = None
            if isinstance(response, JoinGroupResponse):
                self._on_joined(response, now_ms)
            elif isinstance(response, SyncGroupResponse):
                self._on_synced(response, now_ms)

    def failed(self, ticket: int, error: KafkaError, now_ms: int) -> None:
        """Note that no response came."""
        if ticket == self._beating:
            self._beating = None
            self._failures += 1
            self._beat_at_ms = now_ms + self._backoff.delay_ms(self._failures)
        elif ticket == self._joining:
            self._joining = None
            if error.code.retriable or error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT):
                self._join_later(f"no response: {error}", now_ms)
            else:
                self._fail(error, now_ms)

    def _on_joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        error = code_of(response.error_code)
        if error is ErrorCode.NONE:
            self._joined(response, now_ms)
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._join_later("need to join again with the given member id", now_ms, at_once=True)
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget_member(now_ms, keep_member_id=False, pause=True)
        elif error in _MOVED or error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS):
            self._forget_coordinator = self._forget_coordinator or error in _MOVED
            self._join_later(f"JoinGroup: {error.name}", now_ms)
        else:
            self._refused(error, "joining", now_ms)

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._protocol = response.protocol_name
        self._heard_ms = now_ms
        self._beat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        if response.protocol_name not in self._assignors:
            self._fail(
                KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group's assignor {response.protocol_name!r} is unknown"), now_ms
            )
            return
        if response.leader != response.member_id:
            self._sync({})
            return
        try:
            self._said = {member.member_id: decode_subscription(member.metadata) for member in response.members}
        except ProtocolError as error:
            self._unreadable(f"the subscription of a member is malformed: {error}", now_ms)
            return
        self._instances = {member.member_id: member.group_instance_id for member in response.members}
        self._skip_assignment = response.skip_assignment
        self._phase = _Phase.LOOKING_UP
        self._joining = self._look_up(sorted(self.watched))

    def looked_up(self, ticket: int, topics: Topics, now_ms: int) -> None:
        """Assign the partitions as the group's leader, and send the assignment."""
        if ticket != self._joining or self._said is None or self._protocol is None:
            return
        self._seen = self._shape(topics)
        if self._skip_assignment:
            self._sync({})
            return
        assignor = self._assignors[self._protocol]
        found = assignor.assign(topics, assignor.members(self._said, self._instances))
        self._sync({member_id: encode_assignment(Assigned(partitions)) for member_id, partitions in found.items()})

    def named(self, ticket: int, names: Mapping[UUID, str], now_ms: int) -> None:
        """Do nothing: classic groups know topics by name."""

    def _sync(self, assignments: Mapping[str, bytes]) -> None:
        each = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[each(member_id=member_id, assignment=assignment) for member_id, assignment in assignments.items()],
        )
        timeout_ms = max(self.settings.request_timeout_ms, self.settings.max_poll_interval_ms + _JOIN_GRACE_MS)
        self._phase = _Phase.SYNCING
        self._joining = self._send(request, SyncGroupResponse, timeout_ms)

    def _on_synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        error = code_of(response.error_code)
        if error is ErrorCode.NONE:
            try:
                assigned = decode_assignment(response.assignment)
            except ProtocolError as unreadable:
                self._unreadable(f"the assignment is malformed: {unreadable}", now_ms)
                return
            self._assigned(assigned.partitions, now_ms)
        elif error in _FORGOTTEN:
            self._forget_member(now_ms, keep_member_id=error is not ErrorCode.UNKNOWN_MEMBER_ID, pause=True)
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_later("the group began another rebalance", now_ms, at_once=True)
        elif error in _MOVED or error.retriable:
            self._forget_coordinator = self._forget_coordinator or error in _MOVED
            self._join_later(f"SyncGroup: {error.name}", now_ms)
        else:
            self._refused(error, "waiting for the assignment", now_ms)

    def _assigned(self, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        assert self._wanted is not None
        self._phase = _Phase.STABLE
        self._failures = 0
        self._heard_ms = now_ms
        # Partitions of topics that are no longer subscribed to are not taken: the member joins again anyway.
        assigned = frozenset(each for each in partitions if each.topic in self._wanted.topics)
        self._held = in_order(assigned), self._generation
        take = Take(in_order(assigned), in_order(assigned - self._owned))
        revoked = self._owned - assigned
        if revoked:
            self._work, self._next = GiveUp(in_order(revoked), Loss.REVOKED), take
            self._join_again_after = take
        else:
            self._work = take
        self._advance(now_ms)

    # -- errors ---------------------------------------------------------------------------------------------------------------------

    def _on_heartbeat(self, error: ErrorCode, now_ms: int) -> None:
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._heard_ms = now_ms
            self._failures = 0
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self._phase is _Phase.STABLE:
                self.request_rejoin("group is already rebalancing", now_ms)
        elif error in _FORGOTTEN:
            self._forget_member(now_ms, keep_member_id=error is not ErrorCode.UNKNOWN_MEMBER_ID)
        elif error in _MOVED or error.retriable:
            self._failures += 1
            self._beat_at_ms = now_ms + self._backoff.delay_ms(self._failures)
            self._forget_coordinator = self._forget_coordinator or error in _MOVED
        elif error is not ErrorCode.NONE:
            self._refused(error, "sending a heartbeat", now_ms)

    def commit_refused(self, error: ErrorCode, sent_as: ConsumerGroupMetadata, now_ms: int) -> None:
        """Draw the conclusions for the membership when the coordinator refuses a commit of this member."""
        if sent_as != self.metadata():
            return
        if error in _FORGOTTEN:
            self._forget_member(now_ms, keep_member_id=error is not ErrorCode.UNKNOWN_MEMBER_ID)
        elif error is ErrorCode.REBALANCE_IN_PROGRESS and self._phase is _Phase.STABLE:
            self.request_rejoin("offset commit failed since group is already rebalancing", now_ms)
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self._refused(error, "committing", now_ms)

    def _join_later(self, reason: str, now_ms: int, *, at_once: bool = False) -> None:
        self._phase = _Phase.OUTSIDE
        if at_once:
            self._retry_at_ms = now_ms
        else:
            self._failures += 1
            self._retry_at_ms = now_ms + self._backoff.delay_ms(self._failures)
        self.request_rejoin(reason, now_ms)

    def _forget_member(self, now_ms: int, *, keep_member_id: bool, pause: bool = False) -> None:
        """Begin again as a new member, because the coordinator does not know this member (any more).

        The partitions may belong to another member.
        """
        self._phase = _Phase.OUTSIDE
        self._generation = UNKNOWN_GENERATION
        if not keep_member_id:
            self._member_id = ""
        self._joining = self._beating = None
        self._said = self._seen = None
        self._next = self._join_again_after = None
        self._lost = bool(self._owned)
        if self._begun is None:
            self._work = None
        if pause:
            self._failures += 1
            self._retry_at_ms = now_ms + self._backoff.delay_ms(self._failures)
        self.request_rejoin("the coordinator does not know the member", now_ms)
        self._advance(now_ms)

    def _refused(self, error: ErrorCode, doing: str, now_ms: int) -> None:
        refusal = KafkaError(error, f"group {self.settings.group_id}, {doing}" + _ADVICE.get(error, ""))
        if error is ErrorCode.FENCED_INSTANCE_ID:
            # Joining again would fence the other consumer, which would fence this one, without end: only another subscribe() joins again.
            self._fenced = refusal
        self._fail(refusal, now_ms)

    def _unreadable(self, what: str, now_ms: int) -> None:
        self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {self.settings.group_id}: {what}"), now_ms)

    def _fail(self, error: KafkaError, now_ms: int) -> None:
        """Hand the error to the application; its next poll joins again."""
        self._errors.append(error)
        self._may_join = False
        self._forget_member(now_ms, keep_member_id=False, pause=True)


_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.FENCED_INSTANCE_ID: ": another consumer uses the same group.instance.id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ": no assignor in partition.assignment.strategy is supported by all other members",
    ErrorCode.INVALID_SESSION_TIMEOUT: ": session.timeout.ms is outside of the range that the broker allows",
    ErrorCode.GROUP_MAX_SIZE_REACHED: ": the group has reached its maximum number of members",
}
