"""Commits and queries of committed offsets: requests to the coordinator, with retries, with one commit after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.listeners import Call
from odradek.client.core.offsets import (
    LAST_BY_NAME,
    LAST_OF_ONE_GROUP,
    AutoCommit,
    CommitFailed,
    CommitOutcome,
    CommittedAnswer,
    CommittedOutcome,
    Offsets,
    Verdict,
    commit_outcomes,
    commit_request,
    committed_answers,
    committed_outcome,
    committed_request,
    worst_outcome,
)
from odradek.client.network.cluster import Cluster, as_kafka_error
from odradek.client.network.coordinators import Coordinator
from odradek.client.settings.common_keys import DEFAULT_API_TIMEOUT_MS
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse

_LOG = logging.getLogger("odradek.client.groups")
_MOMENT_MS = 10
"""Milliseconds until a member whose epoch has just changed retries."""
_SPREADING_MS = 1_000
"""Milliseconds for which a broker may not know a new topic, before the topic counts as deleted."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

OffsetsGiven = Mapping[TopicPartition, OffsetAndMetadata | int]
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
T = TypeVar("T", CommitOutcome, CommittedOutcome)


class _Turn:
    """Place in the order of commits, taken when the commit is asked for."""

    def __init__(self, before: _Turn | None) -> None:
        self._before = None if before is None else before.over
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> None:
        if self._before is not None:
            try:
                await asyncio.shield(self._before)
            except BaseException:
                self.end()
                raise

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the next commit begin, once the commits before this one have ended."""
        if self._before is None or self._before.done():
            if not self.over.done():
                self.over.set_result(None)
        else:
            self._before.add_done_callback(lambda _: self.end())


class Committer:
    """Committed offsets of one group, for one consumer. Belongs to the loop."""

    def __init__(self, cluster: Cluster, coordinator: Coordinator, auto_commit_interval_ms: int | None, instance_id: str | None) -> None:
        """`auto_commit_interval_ms`: None to commit only when asked."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._alone = ConsumerGroupMetadata(coordinator.key, group_instance_id=instance_id)
        self.member: Callable[[], ConsumerGroupMetadata] = lambda: self._alone
        """Function that returns the identity that commits; a member of the group once there is one."""
        self.obstacle: Callable[[], KafkaError | None] = lambda: None
        """Function that returns the reason why nothing can be committed now, None for no reason."""
        self.refused: Callable[[ErrorCode, ConsumerGroupMetadata], None] = lambda _, __: None
        """Function that is called when the coordinator refuses a commit for good."""
        self.held: Callable[[TopicPartition], object | None] = lambda _: None
        """Function that returns an object that stays the same until a partition is given up; None for an unassigned partition."""
        self.news: Callable[[], None] = lambda: None
        """Function that is called after something was put into `callbacks`."""
        self.auto = AutoCommit(auto_commit_interval_ms, cluster.now_ms()) if auto_commit_interval_ms is not None else None
        self.told: Callable[[Offsets], None] | None = None
        """Function of the application that is called with committed offsets."""
        self.callbacks: deque[Call] = deque()
        """Callbacks of commit_async, which are called within the application's next calls."""
        self._last_turn: _Turn | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def leave_group(self) -> None:
        """Commit without membership from now on."""
        self.member = lambda: self._alone
        self.obstacle = lambda: None
        self.refused = lambda _, __: None

    async def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit the offsets after all earlier commits. Errors that may pass are retried for default.api.timeout.ms.

        Raises CommitFailed when the group goes on without this consumer, KafkaError for other refusals.
        """
        if not offsets:
            return
        limit = self._cluster.config[DEFAULT_API_TIMEOUT_MS] if timeout_ms is None else timeout_ms
        await self._committing(offsets, limit, self._take_turn(), again=True)

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Commit once, without waiting. An error that may pass is reported as well, because the next commit has newer offsets."""
        taken, turn = dict(offsets), self._take_turn()

        async def commit() -> None:
            error = await self._attempted(taken, turn)
            if callback is not None:
                self.callbacks.append(Call(callback, (taken, error)))
                self.news()
            elif error is not None:
                _LOG.warning("group %s: asynchronous commit failed: %s", self._coordinator.key, error)

        self._start(commit())

    def commit_when_due(self, consumed: Callable[[], Offsets]) -> None:
        """Start the automatic commit of the records handed out, if it is due."""
        auto = self.auto
        now_ms = self._cluster.now_ms()
        if auto is None or not auto.due(now_ms) or self.obstacle() is not None:
            return
        offsets = auto.changed(consumed())
        if not offsets:
            auto.ended(now_ms)
            return
        auto.began()
        turn = self._take_turn()

        async def commit() -> None:
            pause_ms = None
            try:
                error = await self._attempted(offsets, turn)
                if error is not None:
                    _LOG.warning("group %s: automatic commit failed: %s", self._coordinator.key, error)
                    if error.code.retriable and error.code is not _UNKNOWN:
                        pause_ms = self._cluster.backoff.delay_ms(1)
            finally:
                auto.ended(self._cluster.now_ms(), pause_ms)

        self._start(commit())

    async def commit_before_loss(self, offsets: Offsets, timeout_s: float | None = None) -> None:
        """Commit automatically before partitions are given up, even during a rebalance. A failure is logged."""
        if not offsets:
            return
        try:
            limit = self._cluster.config[DEFAULT_API_TIMEOUT_MS] if timeout_s is None else int(timeout_s * 1000)
            await self._committing(offsets, limit, self._take_turn(), again=True, in_rebalance=True)
        except OdradekError as error:
            _LOG.warning("group %s: the commit before partitions are revoked failed: %s", self._coordinator.key, error)

    def _take_turn(self) -> _Turn:
        self._last_turn = _Turn(self._last_turn)
        return self._last_turn

    async def _attempted(self, offsets: Offsets, turn: _Turn) -> KafkaError | None:
        try:
            await self._committing(offsets, int(self._cluster.request_timeout_s * 1000), turn, again=False)
        except OdradekError as error:
            return as_kafka_error(error)
        return None

    async def _committing(self, offsets: Offsets, timeout_ms: int, turn: _Turn, *, again: bool, in_rebalance: bool = False) -> None:
        """Commit `offsets`. Each offset counts as soon as it is committed: a refused offset delays no other.

        Raises KafkaError for the first offset that cannot be committed, when all others have been answered.
        """
        left = dict(offsets)
        gone: list[KafkaError] = []
        begin_ms = self._cluster.now_ms()
        held = {partition: self.held(partition) for partition in offsets}
        began_as = self.member()

        async def attempt() -> CommitOutcome:
            obstacle = self.obstacle()
            if obstacle is not None and not (in_rebalance and obstacle.code is ErrorCode.REBALANCE_IN_PROGRESS):
                return CommitOutcome(Verdict.FAILED, obstacle)
            member = self.member()
            if member != began_as and any(token is None or self.held(each) is not token for each, token in held.items()):
                # The member is in another generation, and another member may have had the partitions in between.
                return CommitOutcome(Verdict.FAILED, CommitFailed(ErrorCode.ILLEGAL_GENERATION, member.group_id))
            if self.auto is not None:
                # Nothing is known until the answer comes: a commit whose answer is lost may have taken effect.
                self.auto.forget(left)
            response = await self._coordinator.call(commit_request(left, member), OffsetCommitResponse, at_most=LAST_BY_NAME)
            outcomes = commit_outcomes(left, response, member.group_id)
            self._committed({each: left.pop(each) for each, outcome in outcomes.items() if outcome.verdict is Verdict.DONE})
            if self._cluster.now_ms() - begin_ms >= _SPREADING_MS:
                for each in await self._deleted(outcomes):
                    del left[each]
                    error = outcomes[each].error
                    assert error is not None
                    gone.append(error)
            outcome = worst_outcome(outcomes[each] for each in left)
            if in_rebalance and outcome.error is not None and self._in_next_generation(outcome.error.code, member):
                return CommitOutcome(Verdict.AGAIN, outcome.error)
            if outcome.verdict is Verdict.FAILED and outcome.error is not None:
                self.refused(outcome.error.code, member)
            elif outcome.verdict is Verdict.OUTDATED and self.member() == member:
                return CommitOutcome(Verdict.AGAIN if again else Verdict.FAILED, outcome.error)
            return outcome

        await self._insist("commit", attempt, timeout_ms, again=again, turn=turn)
        if gone:
            raise gone[0]

    def _in_next_generation(self, error: ErrorCode, member: ConsumerGroupMetadata) -> bool:
        """Return whether a commit refused to `member` can be made after the rebalance that the member takes part in.

        The coordinator answers ILLEGAL_GENERATION as soon as all members have joined, even to a member whose JoinGroup is not answered yet.
        """
        if error is not ErrorCode.ILLEGAL_GENERATION:
            return error is ErrorCode.REBALANCE_IN_PROGRESS
        now, obstacle = self.member(), self.obstacle()
        rebalancing = obstacle is not None and obstacle.code is ErrorCode.REBALANCE_IN_PROGRESS
        return now.generation_id >= 0 and (rebalancing or now != member)

    def _committed(self, offsets: Offsets) -> None:
        if not offsets:
            return
        if self.auto is not None:
            self.auto.note(offsets)
        if self.told is not None:
            self.callbacks.append(Call(self.told, (dict(offsets),)))
            self.news()

    async def _deleted(self, outcomes: Mapping[TopicPartition, CommitOutcome]) -> list[TopicPartition]:
        """Return the partitions whose offsets were refused for an unknown topic that the metadata does not have either."""
        refused = [each for each, outcome in outcomes.items() if outcome.error and outcome.error.code is _UNKNOWN]
        if not refused:
            return []
        answer = await self._cluster.ask_metadata(sorted({each.topic for each in refused}))
        there = {
            TopicPartition(topic.name, part.partition_index)
            for topic in answer.topics
            if topic.name and not topic.error_code
            for part in topic.partitions
        }
        unsure = {topic.name for topic in answer.topics if topic.error_code not in (ErrorCode.NONE, _UNKNOWN)}
        return [each for each in refused if each not in there and each.topic not in unsure]

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without. Waits for transactions that are about to decide them."""
        if not partitions:
            return {}
        limit = self._cluster.config[DEFAULT_API_TIMEOUT_MS] if timeout_ms is None else timeout_ms

        async def attempt() -> CommittedOutcome:
            return committed_outcome(await self._ask_committed(partitions))

        return dict((await self._insist("committed offsets", attempt, limit, again=True)).offsets)

    async def try_committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedAnswer]:
        """Ask once for the group's committed offsets; return an answer for each partition, even if the request failed."""
        try:
            answers = await self._ask_committed(partitions)
        except (ConnectionLost, KafkaError) as lost:
            error = as_kafka_error(lost)
            return dict.fromkeys(partitions, CommittedAnswer(Verdict.AGAIN if _heals(error) else Verdict.FAILED, error=error))
        if any(answer.verdict is Verdict.MOVED for answer in answers.values()):
            self._coordinator.forget()
        return answers

    async def _ask_committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedAnswer]:
        node = await self._coordinator.node()
        of_one_group = node.versions.choose(ApiKey.OFFSET_FETCH, at_most=LAST_BY_NAME) <= LAST_OF_ONE_GROUP
        request = committed_request(partitions, self.member(), of_one_group=of_one_group)
        response = await self._coordinator.call(request, OffsetFetchResponse, at_most=LAST_BY_NAME)
        return committed_answers(partitions, response, self._coordinator.key)

    async def _insist(
        self, what: str, attempt: Callable[[], Awaitable[T]], timeout_ms: int, *, again: bool, turn: _Turn | None = None
    ) -> T:
        """Retry errors that may pass for `timeout_ms` milliseconds; raise any other error."""
        last: list[KafkaError] = []

        async def repeat() -> T:
            failures = 0
            while True:
                try:
                    outcome = await attempt()
                except (ConnectionLost, KafkaError) as lost:
                    error = as_kafka_error(lost)
                    heals = _heals(error)
                    pause_ms = None
                else:
                    if outcome.verdict is Verdict.DONE:
                        return outcome
                    assert outcome.error is not None
                    error, heals = outcome.error, outcome.verdict is not Verdict.FAILED
                    pause_ms = _MOMENT_MS if outcome.verdict is Verdict.OUTDATED else None
                    if outcome.verdict is Verdict.MOVED:
                        self._coordinator.forget()
                if not heals or not again:
                    raise error
                last[:] = [error]
                failures += 1
                await asyncio.sleep((self._cluster.backoff.delay_ms(failures) if pause_ms is None else pause_ms) / 1000)

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if turn is None:
                    return await repeat()
                async with turn:
                    return await repeat()
        except TimeoutError:
            why = last[0] if last else None
            code = why.code if why is not None else ErrorCode.REQUEST_TIMED_OUT
            text = f" ({why})" if why is not None else ""
            raise KafkaError(code, f"{what} of group {self._coordinator.key}: no success within {timeout_ms} ms{text}") from None

    def _start(self, action: Awaitable[None]) -> None:
        task = asyncio.ensure_future(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the commits that are under way, at most `timeout_s` seconds."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=max(timeout_s, 0.0))

    async def close(self) -> None:
        """Cancel the commits that are under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _heals(error: KafkaError) -> bool:
    """Return whether a request that failed with the error is sent again."""
    return error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
