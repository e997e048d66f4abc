"""Shell of a group membership: sends its requests, keeps its timers, and does its work when the application calls.

The membership decides (`core.membership_classic`, `core.membership_consumer`); the loop alone sends heartbeats. Work for the application
waits in `membership.work` until the application calls poll, unsubscribe or close.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, OdradekError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.assignors.spec import Topics
from odradek.client.consumer.commits import Committer
from odradek.client.consumer.listeners import Call, listener_call
from odradek.client.core.membership import GiveUp, LookUp, LookUpNames, Loss, Membership, Send, Take, Work, in_order
from odradek.client.core.metadata import FOREVER, ClusterView
from odradek.client.core.offsets import CommitFailed, Offsets
from odradek.client.core.subscription import Kind, Subscription
from odradek.client.network.cluster import Cluster, as_kafka_error
from odradek.client.network.coordinators import Coordinator
from odradek.client.settings.common_keys import METADATA_MAX_AGE_MS
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

_LONGEST_SLEEP_MS = 1_000
"""Longest delay in milliseconds until it is noticed that the application has left poll, or that the metadata is new."""
_MISSING_AGAIN_MS = 1_000
"""Milliseconds between two checks whether missing topics exist now."""


class Assignable(Protocol):
    """Reader of the partitions."""

    def suspend(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no further records of these partitions; they keep their positions."""
        ...

    def reassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay keep their positions, new partitions begin at the committed offsets."""
        ...

    def consumed(self) -> Offsets:
        """Return the offsets after the records that were handed out."""
        ...


class GroupDriver:
    """Driver of one membership, from subscribe to unsubscribe. Belongs to the loop."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        membership: Membership,
        subscription: Subscription,
        committer: Committer,
        reader: Assignable,
        news: Callable[[], None],
    ) -> None:
        """`news` is called when there is work or an error for the application."""
        self.membership = membership
        self.listener: object | None = None
        self._cluster = cluster
        self._coordinator = coordinator
        self._subscription = subscription
        self._committer = committer
        self._reader = reader
        self._news = news
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._view: ClusterView | None = None
        self._look_again_ms = 0
        self._open: Work | None = None
        """Work that the application has begun."""
        self._committing: asyncio.Task[None] | None = None
        self._attempted: Offsets = {}
        """Offsets that `_committing` commits."""
        self._departing: GiveUp | None = None
        self._departure_told = False
        self._left = False
        self._goodbye: Send | None = None
        """Request that tells the coordinator that the member leaves, until it has been sent."""
        committer.member = membership.metadata
        committer.obstacle = self._obstacle
        committer.refused = self._commit_refused
        self._unexpected: list[BaseException] = []
        self._timer = asyncio.create_task(self._keep_time())
        self._timer.add_done_callback(self._ended)

    # -- calls of the application ---------------------------------------------------------------------------------------------------

    def subscription_changed(self) -> None:
        """Apply the changed subscription."""
        self._cluster.metadata.want(self._subscription.topics)
        if self._subscription.kind is not Kind.PATTERN or self._subscription.topics:
            self.membership.subscribe(self._subscription.subscribed(), self._cluster.now_ms())
        self._look_again_ms = 0
        self._flush()
        self._wake.set()

    def enforce_rebalance(self, reason: str) -> None:
        """Let the member join again."""
        self.membership.request_rejoin(reason, self._cluster.now_ms())
        self._told()

    @property
    def attention(self) -> bool:
        """Return whether the application has something to do before it gets more records."""
        membership = self.membership
        told = membership.has_error or self._unexpected or self._committer.callbacks
        return membership.work is not None or self._open is not None or bool(told)

    async def serve(self, deadline_s: float) -> Call | None:
        """Do the group's work at the beginning of a poll. Raises errors that wait for the application.

        Returns a call that the application has to make, None when it can go on reading. `deadline_s` is of the loop's time; work that is
        not done by then goes on in the next poll.
        """
        self.membership.poll_began(self._cluster.now_ms())
        self._flush()
        error = self._unexpected.pop() if self._unexpected else self.membership.take_error()
        if error is not None:
            raise error
        if self._committer.callbacks:
            return self._committer.callbacks[0]
        while self._open is not None or self.membership.work is not None:
            if self._open is None:
                work = self.membership.work
                assert work is not None
                self.membership.begin(work)
                self._open = work
            if not await self._prepare(self._open, deadline_s):
                return None
            call = listener_call(self.listener, self._open)
            if call is not None:
                return call
            self._finish()
        return None

    def poll_ended(self) -> None:
        """Note that the application has left poll."""
        self.membership.poll_ended(self._cluster.now_ms())

    def called(self, call: Call) -> None:
        """Note that the application has made the call."""
        if call.ends is not None and call.ends is self._departing:
            self._departure_told = True
        elif call.ends is not None and call.ends is self._open:
            self._finish()

    async def _prepare(self, work: Work, deadline_s: float) -> bool:
        """Do the part of the work that precedes the listener's call; return False if it is not done by the deadline."""
        if isinstance(work, Take):
            self._cluster.metadata.want(partition.topic for partition in work.partitions)
            self._reader.reassign(work.partitions)
            return True
        self._reader.suspend(work.partitions)
        return work.loss is Loss.LOST or await self._commit_consumed(deadline_s)

    async def _commit_consumed(self, deadline_s: float) -> bool:
        """Commit the records handed out, if commits are automatic. Return False at the deadline.

        A failure is logged, and does not stop the rebalance.
        """
        auto = self._committer.auto
        while auto is not None:
            if self._committing is None or self._committing.done():
                # Commit a second time if the poll that began the first commit was cancelled and a seek came before this poll.
                offsets = auto.changed(self._reader.consumed())
                if offsets.items() <= self._attempted.items():
                    return True
                self._attempted = offsets
                self._committing = asyncio.create_task(self._committer.commit_before_loss(offsets))
            await asyncio.wait({self._committing}, timeout=max(deadline_s - self._loop.time(), 0.0))
            if not self._committing.done():
                return False
        return True

    def _finish(self) -> None:
        work, self._open = self._open, None
        self._committing, self._attempted = None, {}
        assert work is not None
        if isinstance(work, GiveUp):
            self._give_up(work.partitions)
        self.membership.done(work, self._cluster.now_ms())
        self._flush()
        self._wake.set()

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        if self._committer.auto is not None:
            self._committer.auto.forget(gone)
        self._reader.reassign(in_order(self.membership.owned - gone))

    # -- leaving --------------------------------------------------------------------------------------------------------------------

    @property
    def is_departing(self) -> bool:
        """Return whether a departure has begun; if its call was cancelled, the next call goes on with it."""
        return self._departing is not None

    async def depart(self, deadline_s: float, *, reason: str, stay: bool | None, silently: bool = False) -> Call | None:
        """Give up all partitions and leave the group, in steps. If a call is cancelled, the next call goes on.

        Returns a call that the application has to make, None when all is done. `silently`: makes no calls of the application.
        """
        if self._departing is None:
            owned = in_order(self.membership.owned)
            self._departing = GiveUp(owned, Loss.REVOKED if self.membership.is_member else Loss.LOST)
            self._open = None
            self._reader.suspend(owned)
        if not self._departure_told:
            if self._departing.loss is Loss.REVOKED:
                # Wait for the commit only if the coordinator can still accept it.
                await self._commit_consumed(deadline_s)
            call = listener_call(self.listener, self._departing) if self._departing.partitions and not silently else None
            if call is not None:
                return call
            self._departure_told = True
        self._give_up(self._departing.partitions)
        await self._committer.finish(max(deadline_s - self._loop.time(), 0.0))
        if not self._left:
            self._left = True
            self._goodbye = self.membership.leave(self._cluster.now_ms(), reason=reason, stay=stay)
        if self._goodbye is not None:
            await self._say_goodbye(self._goodbye, deadline_s)
            self._goodbye = None
        await self.close()
        return None

    async def _say_goodbye(self, request: Send, deadline_s: float) -> None:
        """Send the leave request on another connection than the coordinator's, where a JoinGroup may be waiting for other members."""
        node_id = self._coordinator.node_id
        if node_id is None:
            return
        with contextlib.suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(max(deadline_s - self._loop.time(), 0.0)):
                # Try twice: if the first connection broke unnoticed, the member would stay in the group until its session ends.
                for _ in range(2):
                    with contextlib.suppress(ConnectionLost):
                        node = await self._cluster.node(node_id)
                        await self._cluster.call(node, request.request, request.response)
                        return

    async def close(self) -> None:
        """End the tasks, without a request to the coordinator."""
        if self._committer.member == self.membership.metadata:
            self._committer.leave_group()
        tasks = [self._timer, *self._tasks, *([self._committing] if self._committing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- commits --------------------------------------------------------------------------------------------------------------------

    def _obstacle(self) -> KafkaError | None:
        member = self.membership.metadata()
        if self.membership.rebalancing:
            return KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"offsets of group {member.group_id} cannot be committed during a rebalance: call poll() first",
            )
        if not self.membership.is_member:
            return CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, member.group_id)
        return None

    def _commit_refused(self, error: ErrorCode, member: object) -> None:
        if member == self.membership.metadata():
            self.membership.commit_refused(error, self.membership.metadata(), self._cluster.now_ms())
            self._flush()

    # -- requests and time ----------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send the requests that the membership has left, and forget the coordinator if the membership says so."""
        if self.membership.forgets_coordinator():
            self._coordinator.forget()
        requests = self.membership.take_requests()
        for request in requests:
            if isinstance(request, Send):
                self._start(self._send(request))
            elif isinstance(request, LookUp):
                self._start(self._look_up(request))
            else:
                self._start(self._look_up_names(request))
        if self.attention:
            self._news()
        if requests:
            self._wake.set()

    def _start(self, action: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let the next poll raise the error of a failed task."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._unexpected.append(error)
            self._news()

    async def _keep_time(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._cluster.now_ms()
            self.membership.tick(now_ms)
            self._watch(now_ms)
            self._flush()
            self._wake.clear()
            wait_ms = min(self.membership.wake_at_ms() - now_ms, self._look_again_ms - now_ms, _LONGEST_SLEEP_MS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait_ms, 0) / 1000):
                    await self._wake.wait()

    async def _send(self, send: Send) -> None:
        try:
            response = await self._coordinator.call(send.request, send.response, timeout_s=send.timeout_ms / 1000)
        except ProtocolError as error:
            failure: KafkaError | None = KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the request to the coordinator failed: {error}")
            response = None
        except (ConnectionLost, OdradekError) as error:
            failure, response = as_kafka_error(error), None
        else:
            failure = None
        if send.ticket is None:
            return
        now_ms = self._cluster.now_ms()
        if response is not None:
            self.membership.answered(send.ticket, response, now_ms)
        else:
            assert failure is not None
            self.membership.failed(send.ticket, failure, now_ms)
        self._told()

    def _told(self) -> None:
        self._flush()
        self._wake.set()
        self._news()

    # -- topics ---------------------------------------------------------------------------------------------------------------------

    def _watch(self, now_ms: int) -> None:
        """Hand the changed topics to the membership, and look for topics that do not exist yet."""
        view = self._cluster.view
        if self._subscription.kind is Kind.PATTERN:
            if now_ms >= self._look_again_ms:
                self._look_again_ms = FOREVER
                self._start(self._match_topics())
        else:
            watched = self.membership.watched
            missing = any(self._cluster.known_topic(name) is None for name in watched)
            if not missing:
                self._look_again_ms = FOREVER
            elif now_ms >= self._look_again_ms:
                self._look_again_ms = now_ms + _MISSING_AGAIN_MS
                self._cluster.metadata.want(watched)
                self._start(self._refresh())
        if view is not self._view and self.membership.state == "stable":
            self._view = view
            self.membership.topics_changed(topics_of(view, self.membership.watched), now_ms)

    async def _refresh(self) -> None:
        with contextlib.suppress(ConnectionLost, KafkaError):
            await self._cluster.refresh()
        self._wake.set()

    async def _match_topics(self) -> None:
        """Fetch the list of all topics, and apply the pattern to it."""
        pause_ms = self._cluster.config[METADATA_MAX_AGE_MS]
        try:
            response = await self._cluster.ask_metadata(None)
        except (ConnectionLost, KafkaError):
            pause_ms = int(self._cluster.backoff.max_ms)
        else:
            now_ms = self._cluster.now_ms()
            view = self._cluster.metadata.update(response, now_ms)
            listed = [view.topics[topic.name] for topic in response.topics if topic.name is not None]
            if self._subscription.match(listed):
                self._cluster.metadata.want(self._subscription.topics)
            self.membership.subscribe(self._subscription.subscribed(), now_ms)
        self._look_again_ms = self._cluster.now_ms() + pause_ms
        self._told()

    async def _look_up(self, wanted: LookUp) -> None:
        try:
            view = await self._cluster.refresh(wanted.topics)
            if any(topic not in view.topics for topic in wanted.topics):
                # The shared response belonged to an earlier request.
                view = await self._cluster.refresh(wanted.topics)
        except (ConnectionLost, KafkaError) as error:
            self.membership.failed(wanted.ticket, as_kafka_error(error), self._cluster.now_ms())
        else:
            self.membership.looked_up(wanted.ticket, topics_of(view, wanted.topics), self._cluster.now_ms())
        self._told()

    async def _look_up_names(self, wanted: LookUpNames) -> None:
        names = self._known_names(wanted.ids)
        if len(names) < len(wanted.ids):
            with contextlib.suppress(ConnectionLost, KafkaError):
                names |= await self._ask_names([each for each in wanted.ids if each not in names])
        self._cluster.metadata.want(names.values())
        self.membership.named(wanted.ticket, names, self._cluster.now_ms())
        self._told()

    def _known_names(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        chosen = set(ids)
        return {topic.topic_id: topic.name for topic in self._cluster.view.topics.values() if topic.topic_id in chosen}

    async def _ask_names(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        node = await self._cluster.any_node()
        topics = [MetadataRequest.MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        response = await self._cluster.call(node, MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse)
        return {topic.topic_id: topic.name for topic in response.topics if topic.name and not topic.error_code}


def topics_of(view: ClusterView, names: Iterable[str]) -> Topics:
    """Return existing topic -> the racks of the replicas of each partition."""
    racks = {node_id: broker.rack for node_id, broker in view.brokers.items()}
    found: dict[str, list[frozenset[str]]] = {}
    for name in sorted(names):
        topic = view.topics.get(name)
        if topic is None or topic.error is not ErrorCode.NONE:
            continue
        found[name] = [
            frozenset(rack for replica in topic.partitions[number].replicas if (rack := racks.get(replica)))
            if number in topic.partitions
            else frozenset()
            for number in range(max(topic.partitions, default=-1) + 1)
        ]
    return found
