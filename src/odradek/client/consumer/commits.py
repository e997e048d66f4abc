"""Committing offsets and asking for committed ones: requests to the coordinator, with retries, one commit after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster, as_kafka_error
from odradek.client.consumer.listeners import Call
from odradek.client.coordinators import Coordinator
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
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse

_LOG = logging.getLogger("odradek.client.groups")
_MOMENT_MS = 10
"""How soon a member whose epoch has just moved on tries again."""
_SPREADING_MS = 1_000
"""For how long a broker may not know a topic that was created, before the topic counts as deleted."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

OffsetsGiven = Mapping[TopicPartition, OffsetAndMetadata | int]
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
T = TypeVar("T", CommitOutcome, CommittedOutcome)


class _Turn:
    """A place in the order of commits, from the moment at which somebody asked for one."""

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
        """Lets the next one go, once those before have."""
        if self._before is None or self._before.done():
            if not self.over.done():
                self.over.set_result(None)
        else:
            self._before.add_done_callback(lambda _: self.end())


class Committer:
    """The offsets of one group, as one consumer commits them. Belongs to the loop."""

    def __init__(self, cluster: Cluster, coordinator: Coordinator, auto_commit_interval_ms: int | None, instance_id: str | None) -> None:
        """`auto_commit_interval_ms`: None to commit only when asked."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._alone = ConsumerGroupMetadata(coordinator.key, group_instance_id=instance_id)
        self.member: Callable[[], ConsumerGroupMetadata] = lambda: self._alone
        """Who commits; a member of the group once there is one."""
        self.obstacle: Callable[[], KafkaError | None] = lambda: None
        """Why nothing can be committed now."""
        self.refused: Callable[[ErrorCode, ConsumerGroupMetadata], None] = lambda _, __: None
        """Told of every refusal."""
        self.held: Callable[[TopicPartition], object | None] = lambda _: None
        """Something that stays the same as long as a partition has not been given up; None for one that is not assigned."""
        self.news: Callable[[], None] = lambda: None
        """Called when there is something in `callbacks`."""
        self.auto = AutoCommit(auto_commit_interval_ms, cluster.now_ms()) if auto_commit_interval_ms is not None else None
        self.told: Callable[[Offsets], None] | None = None
        """A function of the application that hears of what is committed."""
        self.callbacks: deque[Call] = deque()
        """Calls of what was given to commit_async: they are made within the application's next calls."""
        self._last_turn: _Turn | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def leave_group(self) -> None:
        """From now on nobody commits as a member."""
        self.member = lambda: self._alone
        self.obstacle = lambda: None
        self.refused = lambda _, __: None

    async def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commits after all that was to be committed before, and tries again what may heal, for default.api.timeout.ms.

        CommitFailed when the group goes on without this consumer; KafkaError for other refusals.
        """
        if not offsets:
            return
        limit = self._cluster.config.integer("default.api.timeout.ms") if timeout_ms is None else timeout_ms
        await self._committing(offsets, limit, self._take_turn(), again=True)

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Commits once, without waiting; a failure that may heal is told, too: the next commit has newer offsets."""
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
        """The automatic commit of what was handed out, if it is time for one."""
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
            error = await self._attempted(offsets, turn)
            if error is not None:
                _LOG.warning("group %s: automatic commit failed: %s", self._coordinator.key, error)
            soon = error is not None and error.code.retriable and error.code is not _UNKNOWN
            auto.ended(self._cluster.now_ms(), self._cluster.backoff.delay_ms(1) if soon else None)

        self._start(commit())

    async def commit_before_loss(self, offsets: Offsets, timeout_s: float | None = None) -> None:
        """The automatic commit of what is about to be given up: tried also during a rebalance; a failure is logged."""
        if not offsets:
            return
        try:
            limit = self._cluster.config.integer("default.api.timeout.ms") if timeout_s is None else int(timeout_s * 1000)
            await self._committing(offsets, limit, self._take_turn(), again=True, in_rebalance=True)
        except OdradekError as error:
            _LOG.warning("group %s: the commit before partitions are given up failed: %s", self._coordinator.key, error)

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
        """Commit `offsets`, each of which counts as soon as it is committed: one that is refused holds up no other.

        KafkaError for the first that is not committed, once no other is left.
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
                # Another generation, in which the partitions may have been with somebody else.
                return CommitOutcome(Verdict.FAILED, CommitFailed(ErrorCode.ILLEGAL_GENERATION, member.group_id))
            if self.auto is not None:
                # Until it is answered: a commit whose answer is lost may have taken effect.
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
        """Return whether a commit that was refused to `member` can be made once the rebalance that it takes part in is over.

        The coordinator answers ILLEGAL_GENERATION as soon as all have joined, to a member whose JoinGroup is not answered yet, too.
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
        """Return the partitions whose offsets were refused because their topic does not exist, as the metadata says as well."""
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
        """The group's committed offsets, None for a partition without; waits for transactions that are about to decide them."""
        if not partitions:
            return {}
        limit = self._cluster.config.integer("default.api.timeout.ms") if timeout_ms is None else timeout_ms

        async def attempt() -> CommittedOutcome:
            return committed_outcome(await self._ask_committed(partitions))

        return dict((await self._insist("committed offsets", attempt, limit, again=True)).offsets)

    async def try_committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedAnswer]:
        """Ask once for the group's committed offsets: an answer for each partition, also where the request failed."""
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
        """Repeats what may heal until `timeout_ms` are over; raises the error of what does not."""
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
        """Waits for the commits that are under way."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=max(timeout_s, 0.0))

    async def close(self) -> None:
        """Ends what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _heals(error: KafkaError) -> bool:
    """Whether a request that failed so is sent again."""
    return error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
