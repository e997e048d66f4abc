"""Membership of a consumer group of KIP-848 (org.apache.kafka.clients.consumer.internals.ConsumerMembershipManager).

1. The first ConsumerGroupHeartbeat, with epoch 0, joins and has all fields; later heartbeats have only fields that changed since.
2. The coordinator answers with the member's epoch and the time of the next heartbeat. If the member's target assignment has changed, the
   answer has the new target.
3. The member first gives up the partitions that are not in its target, then takes the others, then at once reports its partitions. The
   coordinator assigns no partition to a member before another member has given it up.
4. A fenced member has lost all its partitions and joins again with epoch 0. A member that does not call poll for max.poll.interval.ms
   leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.assignors.spec import Topics
from odradek.client.core.membership import GiveUp, GroupSettings, LookUpNames, Loss, Outbox, Send, Subscribed, Take, Work, in_order
from odradek.client.core.metadata import FOREVER
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.schema import Message

_LOG = logging.getLogger("odradek.client.groups")
_JOINING_EPOCH = 0
_LEAVING_EPOCH = -1
_STATIC_LEAVING_EPOCH = -2
"""Epoch of a static member that leaves and may come back with another member id; it keeps its partitions until the session ends."""

_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_OWNED = ConsumerGroupHeartbeatRequest.TopicPartitions


class ConsumerMembership(Outbox):
    """Member of one group; see `membership.Membership` for its events."""

    def __init__(self, settings: GroupSettings, member_id: str, remote_assignor: str | None, backoff: Backoff) -> None:
        """`member_id`: a random id for the member's whole life. `remote_assignor`: None lets the coordinator choose."""
        super().__init__(settings, backoff)
        self._member_id = member_id
        self._remote_assignor = remote_assignor
        self._epoch = _JOINING_EPOCH
        self._wanted: Subscribed | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        self._target: Mapping[UUID, frozenset[int]] | None = None
        """Target assignment that the coordinator sent last; None before the first."""
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._naming: int | None = None
        self._name_at_ms = 0
        self._work: Work | None = None
        self._begun: Work | None = None
        self._lost = False
        self._taken_any = False
        self._may_join = False
        self._fenced: KafkaError | None = None
        self._beating: int | None = None
        self._beat_at_ms = 0
        self._failures = 0
        self._say_all = True
        self._told: Subscribed | None = None
        self._told_owned: frozenset[TopicPartition] | None = None

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
        return self._epoch > _JOINING_EPOCH

    @property
    def rebalancing(self) -> bool:
        """Return False: no rebalance forbids commits, as the member's epoch tells the coordinator which commits to accept."""
        return False

    @property
    def state(self) -> str:
        """Word for the state, for people."""
        if self._fenced is not None:
            return "fenced"
        if not self.is_member:
            return "joining" if self._wanted is not None and self._may_join else "outside"
        return "stable" if self._work is None and self._told_owned == self._owned else "reconciling"

    @property
    def watched(self) -> frozenset[str]:
        """Return no topics, because the coordinator watches them."""
        return frozenset()

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the identity of the member towards the coordinator; the generation is the member's epoch."""
        settings = self.settings
        if not self.is_member:
            return ConsumerGroupMetadata(settings.group_id, group_instance_id=settings.instance_id)
        return ConsumerGroupMetadata(settings.group_id, self._epoch, self._member_id, settings.instance_id)

    # -- calls of the application ---------------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Subscribed, now_ms: int) -> None:
        """Replace the subscription."""
        if wanted != self._wanted or self._fenced is not None:
            self._wanted = wanted
            self._fenced = None
            self._hurry(now_ms)

    def request_rejoin(self, reason: str, now_ms: int) -> None:
        """Do nothing: as in Kafka, the coordinator decides when to rebalance."""

    def topics_changed(self, topics: Topics, now_ms: int) -> None:
        """Do nothing: the coordinator watches the topics."""

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
        """Note that the application has done the work; the member reports its partitions once no work is left."""
        if isinstance(work, GiveUp):
            self._owned = self._owned.difference(work.partitions)
        else:
            self._taken_any = True
        self._begun = None
        if self._work is work:
            self._work = None
        self._advance(now_ms)
        if self._work is None:
            self._hurry(now_ms)

    def leave(self, now_ms: int, *, reason: str, stay: bool | None) -> Send | None:
        """End the membership; return the request to send, None without a request.

        A static member keeps its partitions until its session ends, unless `stay` is False.
        """
        request = self._leave_request(stay)
        self._wanted = None
        self._rejoin(now_ms)
        self._lost = False
        self._owned = frozenset()
        self._work = None
        return request

    def _leave_request(self, stay: bool | None) -> Send | None:
        static = self.settings.instance_id is not None
        if not (self.is_member or self._beating is not None) or (stay is True and not static):
            return None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self._member_id,
            member_epoch=_STATIC_LEAVING_EPOCH if static and stay is not False else _LEAVING_EPOCH,
            instance_id=self.settings.instance_id,
        )
        return Send(None, request, ConsumerGroupHeartbeatResponse, self.settings.request_timeout_ms)

    # -- time -----------------------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Send the heartbeat that is due, and leave when poll was not called for max.poll.interval.ms."""
        if self._polls_too_seldom() and now_ms >= self._poll_deadline_ms:
            self._expire(now_ms)
        self._advance(now_ms)

    def wake_at_ms(self) -> int:
        """Return the time at which `tick` has something to do, FOREVER for never."""
        times: list[int] = []
        if self._may_beat():
            times.append(self._beat_at_ms)
        if self._unnamed() and self._naming is None:
            times.append(self._name_at_ms)
        if self._polls_too_seldom():
            times.append(self._poll_deadline_ms)
        return min(times, default=FOREVER)

    def _polls_too_seldom(self) -> bool:
        return not self._in_poll and self._may_join and (self.is_member or self._beating is not None)

    def _expire(self, now_ms: int) -> None:
        _LOG.warning(
            "group %s: poll() was not called for max.poll.interval.ms (%d): leaving the group; lower max.poll.records or raise "
            "max.poll.interval.ms",
            self.settings.group_id,
            self.settings.max_poll_interval_ms,
        )
        request = self._leave_request(None)
        if request is not None:
            self._requests.append(request)
        self._may_join = False
        self._rejoin(now_ms)

    def _may_beat(self) -> bool:
        """Return whether a heartbeat may be sent: a member always may; a join waits until lost partitions are given up."""
        if self._beating is not None or self._wanted is None:
            return False
        return self.is_member or (self._may_join and not self._lost and self._begun is None)

    def _hurry(self, now_ms: int) -> None:
        self._beat_at_ms = min(self._beat_at_ms, now_ms)
        self._advance(now_ms)

    def _advance(self, now_ms: int) -> None:
        if self._begun is None:
            self._decide(now_ms)
        if self._may_beat() and now_ms >= self._beat_at_ms:
            self._beat()

    def _decide(self, now_ms: int) -> None:
        """Set the next work of the application from its partitions and the target."""
        if self._lost:
            if self._owned:
                if not (isinstance(self._work, GiveUp) and self._work.loss is Loss.LOST):
                    self._work = GiveUp(in_order(self._owned), Loss.LOST)
                return
            self._lost = False
        if self._target is None:
            self._work = None
            return
        self._name(now_ms)
        target = frozenset(
            TopicPartition(self._names[topic_id], number)
            for topic_id, numbers in self._target.items()
            if topic_id in self._names
            for number in numbers
        )
        revoked = self._owned - target
        if revoked:
            work: Work | None = GiveUp(in_order(revoked), Loss.REVOKED)
        elif target != self._owned or (not self._taken_any and not self._unnamed()):
            work = Take(in_order(target), in_order(target - self._owned))
        else:
            work = None
        if work != self._work:
            self._work = work

    def _unnamed(self) -> list[UUID]:
        return [topic_id for topic_id in self._target or () if topic_id not in self._names]

    def _name(self, now_ms: int) -> None:
        unnamed = self._unnamed()
        if unnamed and self._naming is None and now_ms >= self._name_at_ms:
            self._naming = self._ticket()
            self._requests.append(LookUpNames(self._naming, tuple(sorted(unnamed))))

    # -- heartbeats -----------------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        assert self._wanted is not None
        settings = self.settings
        request = ConsumerGroupHeartbeatRequest(group_id=settings.group_id, member_id=self._member_id, member_epoch=self._epoch)
        request.instance_id = settings.instance_id
        if self._say_all:
            request.rack_id = settings.rack
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.server_assignor = self._remote_assignor
        if self._say_all or self._wanted != self._told:
            request.subscribed_topic_names = sorted(self._wanted.topics)
            if self._wanted.pattern is not None:
                request.subscribed_topic_regex = self._wanted.pattern
            elif self._told is not None and self._told.pattern is not None:
                request.subscribed_topic_regex = ""
        settled = self._work is None and self._begun is None
        if self._say_all or (settled and self._owned != self._told_owned):
            request.topic_partitions = self._owned_by_id()
            self._told_owned = self._owned
        self._told = self._wanted
        self._say_all = False
        self._beat_at_ms = FOREVER
        self._beating = self._send(request, ConsumerGroupHeartbeatResponse)

    def _owned_by_id(self) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, number in in_order(self._owned):
            by_topic.setdefault(topic, []).append(number)
        return [_OWNED(topic_id=self._ids[topic], partitions=numbers) for topic, numbers in by_topic.items()]

    def answered(self, ticket: int, response: Message, now_ms: int) -> None:
        """Process the coordinator's response."""
        if ticket != self._beating or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        self._beating = None
        error = code_of(response.error_code)
        if error is not ErrorCode.NONE:
            self._refused(error, response.error_message, now_ms)
            return
        self._failures = 0
        self._epoch = response.member_epoch
        self._beat_at_ms = now_ms + response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = {each.topic_id: frozenset(each.partitions) for each in response.assignment.topic_partitions if each.partitions}
        self._advance(now_ms)
        if self._wanted != self._told or (self._work is None and self._begun is None and self._owned != self._told_owned):
            self._hurry(now_ms)

    def named(self, ticket: int, names: Mapping[UUID, str], now_ms: int) -> None:
        """Process the names of topics in the target; missing names are asked for again."""
        if ticket != self._naming:
            return
        self._naming = None
        self._names.update(names)
        self._ids.update({name: topic_id for topic_id, name in names.items()})
        if self._unnamed():
            self._failures += 1
            self._name_at_ms = now_ms + self._backoff.delay_ms(self._failures)
        self._advance(now_ms)

    def looked_up(self, ticket: int, topics: Topics, now_ms: int) -> None:
        """Do nothing: the member never looks up topics, as the coordinator assigns."""

    def failed(self, ticket: int, error: KafkaError, now_ms: int) -> None:
        """Note that no response came. The next heartbeat has all fields, as the coordinator may not have seen this one."""
        if ticket == self._naming:
            self.named(ticket, {}, now_ms)
        elif ticket == self._beating:
            self._beating = None
            if error.code.retriable or error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT):
                self._try_again(now_ms)
            else:
                self._fail(error, now_ms)

    def _try_again(self, now_ms: int) -> None:
        self._say_all = True
        self._failures += 1
        self._beat_at_ms = now_ms + self._backoff.delay_ms(self._failures)

    # -- errors ---------------------------------------------------------------------------------------------------------------------

    def _refused(self, error: ErrorCode, message: str | None, now_ms: int) -> None:
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self._rejoin(now_ms)
        elif error in _MOVED or error.retriable:
            self._forget_coordinator = self._forget_coordinator or error in _MOVED
            self._try_again(now_ms)
        else:
            advice = _ADVICE.get(error) or message or ""
            refusal = KafkaError(error, f"group {self.settings.group_id}" + (f": {advice}" if advice else ""))
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # The consumer stays a member: rights may be granted later, and it reads other topics until then.
                if not self._errors:
                    self._errors.append(refusal)
                self._try_again(now_ms)
                return
            if error is ErrorCode.FENCED_INSTANCE_ID:
                self._fenced = refusal
            self._fail(refusal, now_ms)

    def _fail(self, error: KafkaError, now_ms: int) -> None:
        """Hand the error to the application; its next poll joins again."""
        self._errors.append(error)
        self._may_join = False
        self._failures += 1
        self._rejoin(now_ms, pause_ms=self._backoff.delay_ms(self._failures))

    def _rejoin(self, now_ms: int, pause_ms: int = 0) -> None:
        """Lose all partitions and join again with epoch 0."""
        self._epoch = _JOINING_EPOCH
        self._beating = self._naming = None
        self._target = None
        self._told = self._told_owned = None
        self._say_all = True
        self._taken_any = False
        self._lost = bool(self._owned)
        if self._begun is None:
            self._work = None
        self._beat_at_ms = now_ms + pause_ms
        self._advance(now_ms)

    def commit_refused(self, error: ErrorCode, sent_as: ConsumerGroupMetadata, now_ms: int) -> None:
        """Send the next heartbeat at once, as its response tells whether the consumer is still a member."""
        if sent_as.member_id == self._member_id and error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._hurry(now_ms)


_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.FENCED_INSTANCE_ID: "another consumer uses the same group.instance.id",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another consumer uses the same group.instance.id, or its session has not ended yet",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster does not support group.protocol=consumer; use classic",
}
