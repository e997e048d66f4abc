"""Copies from the leaders what this broker follows (kafka.server.ReplicaFetcherManager, ReplicaFetcherThread; ADR 9).

The partitions that are led by one broker are spread over num.replica.fetchers fetchers, by Kafka's rule. A fetcher has one connection and
one request at a time, round after round:

1. It asks for what is new since the last answer, in an incremental session (`replication.fetching.plan`).
2. The answer is sorted (`replication.fetching.answer`). What is to be appended is appended at once, one write a partition.
3. The next request goes out. It tells the leader, by the positions in it, what has arrived; nothing is fsynced for that, as in Kafka, but
   for what flush.messages wants to be durable: the request waits for those flushes, beside the loop.
4. What has to be cut is cut at once and made durable in one job for the whole answer; where the leader's log lies is asked for what has to
   be reset. These partitions are left out of requests until that is done.

A leader that cannot be reached is asked again after replica.fetch.backoff.ms; other leaders have other fetchers. A partition that its
leader does not know of yet is asked for again much sooner at first: a new topic, or a new leader, would wait that long for its followers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.replication.fetching.answer import BEHIND, FINAL, Append, Bounds, Cut, Problem, read_bounds, sort_answer
from odradek.replication.fetching.plan import FIRST_VERSION, LAST_VERSION, FetchLimits, FollowerSession, Verdict
from odradek.replication.fetching.states import TRANSITIONS, FetchState, FetchTable, Followed, Position
from odradek.replication.offsets import EARLIEST, LATEST
from odradek.replication.partition import NO_LEADER, Partition, Role

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.protocol.schema import Message
    from odradek.quotas.replication import ReplicationQuota
    from odradek.replication.flushing import RunJob
    from odradek.replication.hosted_partitions import HostedPartitions
    from odradek.storage.hardening import Hardening
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

_SHORT_WAIT_MS = 10
"""How long a fetch waits at most while partitions that it leaves out are about to come back, or when it begins a session."""
_SHORTEST_PAUSE_S = 0.01
"""Even with replica.fetch.backoff.ms=0 a leader that cannot be reached must not keep the loop busy."""
_THROTTLED_PAUSE_S = 0.1
"""After which it is seen again whether a throttled partition may be fetched."""
_FIRST_PAUSE_S = 0.02
"""Before a partition is asked for again that its leader does not know yet; each further pause is twice as long."""
_LIST_OFFSETS_VERSION = 4
"""The first in which ListOffsets tells the leader epoch."""
_NAMED = 3
"""Partitions that a line of the log names."""


class SendToBroker(Protocol):
    """Sends over the connection to a broker that is kept for `purpose`, in the highest version that both know within the bounds."""

    def __call__(
        self, broker_id: int, purpose: str, request: Message, *, at_least: int, at_most: int | None, timeout_s: float
    ) -> Deferred[Message]: ...


class _CutLog(NamedTuple):
    """A partition that waits until the cut of its log is durable."""

    fetcher: Fetcher
    followed: Followed
    log: Log


class ReplicaFetchers:
    """See the module's text; the `FollowerFetchers` of `replication.metadata_changes`. Everything runs on the loop."""

    def __init__(
        self,
        *,
        local_id: int,
        clock: Clock,
        config: DynamicBrokerConfig,
        send: SendToBroker,
        broker_epoch: Callable[[], int],
        hosted: HostedPartitions,
        log_manager: LogManager,
        run_job: RunJob,
        flush: Callable[[Partition], Deferred[None]],
        drain: Callable[[], object],
    ) -> None:
        """`flush` makes a partition's log durable (`Flusher.flush`); `drain` answers the requests that waited for what was appended."""
        self.local_id = local_id
        self.clock = clock
        self.config = config
        self.send = send
        self.broker_epoch = broker_epoch
        self.flush = flush
        self.drain = drain
        self._hosted = hosted
        self._log_manager = log_manager
        self._run_job = run_job
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        """(leader, number) -> fetcher."""
        self._fetcher_of: dict[TopicPartition, Fetcher] = {}
        self._closed = False
        self.quota: ReplicationQuota | None = None
        """follower.replication.throttled.rate; None while nobody is held back."""

    # -- what is followed ------------------------------------------------------------------------------------------------------------

    def start(self, partitions: Sequence[Partition]) -> None:
        """See `FollowerFetchers`."""
        cuts: list[_CutLog] = []
        for partition in partitions:
            if self._closed or partition.leader_id in (NO_LEADER, self.local_id):
                continue
            try:
                partition.truncate_to_high_watermark()
            except KafkaError as error:
                logger.error("%s is not fetched: %s", partition.topic_partition, error)
                continue
            log = partition.log
            if log is None:
                continue
            topic_partition = partition.topic_partition
            fetcher = self._fetcher_for(partition.leader_id, topic_partition)
            followed = fetcher.table.add(
                topic_partition, partition.topic_id, partition.leader_epoch, position_of(log), truncating=log.is_cut
            )
            if log.is_cut:
                cuts.append(_CutLog(fetcher, followed, log))
            fetcher.flush_if_due(partition, log)
            self._fetcher_of[topic_partition] = fetcher
            fetcher.start_soon()
        self.harden(cuts)

    def stop(self, topic_partitions: Collection[TopicPartition]) -> None:
        """See `FollowerFetchers`."""
        for topic_partition in topic_partitions:
            fetcher = self._fetcher_of.pop(topic_partition, None)
            if fetcher is not None:
                fetcher.table.remove(topic_partition)
                fetcher.wake()

    def resize(self) -> None:
        """num.replica.fetchers has changed: the partitions are spread anew."""
        partitions = [
            partition
            for topic_partition in self._fetcher_of
            if (partition := self._hosted.by_name.get(topic_partition)) is not None and partition.role is Role.FOLLOWER
        ]
        self.stop(list(self._fetcher_of))
        self.start(partitions)

    def close(self) -> None:
        """Nothing is fetched any more; what is on its way is dropped when it comes."""
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._fetcher_of.clear()

    def followed(self, topic_partition: TopicPartition) -> Followed | None:
        """How it stands with the copying of a partition; None when it is not followed."""
        fetcher = self._fetcher_of.get(topic_partition)
        return None if fetcher is None else fetcher.table.get(topic_partition)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Records that the leader has committed and this broker lacks, by the last answer; None while that is not known."""
        followed = self.followed(topic_partition)
        return None if followed is None else followed.lag

    def lags(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Each partition that is followed, with the name of what fetches it, as JVM Kafka's threads are called, and its lag (0 while that
        is not known).
        """
        for (leader_id, number), fetcher in list(self._fetchers.items()):
            for followed in list(fetcher.table):
                yield f"ReplicaFetcherThread-{number}-{leader_id}", followed.topic_partition, followed.lag or 0

    @property
    def failed(self) -> int:
        """Partitions that are not fetched any more in their leader epoch."""
        return sum(followed.state is FetchState.FAILED for fetcher in self._fetchers.values() for followed in fetcher.table)

    def _fetcher_for(self, leader_id: int, topic_partition: TopicPartition) -> Fetcher:
        number = fetcher_number(topic_partition, self.config.integer("num.replica.fetchers"))
        fetcher = self._fetchers.get((leader_id, number))
        if fetcher is None:
            fetcher = self._fetchers[leader_id, number] = Fetcher(self, leader_id, number)
        return fetcher

    def discard(self, fetcher: Fetcher) -> None:
        """It follows nothing any more."""
        if self._fetchers.get(fetcher.key) is fetcher:
            del self._fetchers[fetcher.key]
        fetcher.close()

    # -- for the fetchers --------------------------------------------------------------------------------------------------------------

    def partition_of(self, followed: Followed) -> Partition | None:
        """The replica that is followed, None when it is not that any more."""
        partition = self._hosted.by_name.get(followed.topic_partition)
        if partition is None or partition.role is not Role.FOLLOWER or partition.leader_epoch != followed.leader_epoch:
            return None
        return partition if partition.topic_id == followed.topic_id else None

    def limits(self) -> FetchLimits:
        """By the configuration as it is now."""
        config = self.config
        return FetchLimits(
            max_wait_ms=config.integer("replica.fetch.wait.max.ms"),
            min_bytes=config.integer("replica.fetch.min.bytes"),
            max_bytes=config.integer("replica.fetch.response.max.bytes"),
            partition_max_bytes=config.integer("replica.fetch.max.bytes"),
        )

    @property
    def backoff_s(self) -> float:
        return max(self.config.integer("replica.fetch.backoff.ms") / 1000, _SHORTEST_PAUSE_S)

    @property
    def timeout_s(self) -> float:
        return self.config.integer("replica.socket.timeout.ms") / 1000

    def harden(self, cuts: list[_CutLog]) -> None:
        """Makes the cuts durable in one job; after that the partitions are fetched again."""
        hardening = self._log_manager.begin_hardening([each.log for each in cuts])
        if hardening is not None:
            self._run_job(hardening.run).add_callback(lambda job: self._hardened(hardening, cuts, job.error))

    def _hardened(self, hardening: Hardening, cuts: list[_CutLog], error: BaseException | None) -> None:
        if error is not None:
            # The next write to each of these logs does it by itself, and fails by itself.
            logger.error("truncations could not be made durable", exc_info=error)
        else:
            self._log_manager.finish_hardening(hardening)
        for fetcher, followed, _ in cuts:
            fetcher.settled(followed)


class Fetcher:
    """Follows what one leader leads, or one of num.replica.fetchers parts of it."""

    def __init__(self, owner: ReplicaFetchers, leader_id: int, number: int) -> None:
        self._owner = owner
        self._clock = owner.clock
        self.key = (leader_id, number)
        self.table = FetchTable()
        self._session = FollowerSession()
        self._purpose = f"fetch-{number}"
        self._asking = False
        """A fetch is under way."""
        self._flushes = 0
        """Under way: what the next fetch would tell the leader is not durable yet."""
        self._refused = False
        """The last fetch was refused as a whole."""
        self._unreachable = False
        self._pause_until = 0.0
        self._timer: TimerHandle | None = None
        self._closed = False

    # -- one round after the other -----------------------------------------------------------------------------------------------------

    def start_soon(self) -> None:
        """There is something new to fetch, which is reason enough to try a leader again that could not be reached."""
        self._pause_until = 0.0
        self.wake()

    def wake(self) -> None:
        """Asks in the next turn of the loop, unless a fetch is under way."""
        if not self._asking:
            self._later(0.0)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._closed else self._clock.call_later(delay_s, self._ask)

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asking or self._flushes or self._closed:
            return
        now = self._clock.monotonic()
        if now < self._pause_until:
            self._later(self._pause_until - now)
            return
        self.table.resume_due(now)
        if self._owner.quota is not None:
            self._throttle(self._owner.quota, now)
        limits = self._owner.limits()
        limits = limits._replace(max_wait_ms=self._wait_ms(limits.max_wait_ms, now))
        request = self._session.next_request(self.table, self._owner.local_id, self._owner.broker_epoch(), limits)
        if request is not None:
            self._asking = True
            self._send(request, FIRST_VERSION, LAST_VERSION).add_callback(self._answered)
        elif not len(self.table):
            self._owner.discard(self)
        elif (due := self.table.next_due) is not None:
            self._later(due - now)

    def _throttle(self, quota: ReplicationQuota, now: float) -> None:
        """Leaves out for a while what is throttled and not in sync, when too much of it was fetched."""
        if quota.exceeded(int(now * 1000)):
            for followed in list(self.table):
                fetched = followed.state is FetchState.FETCHING and followed.lag != 0
                if fetched and quota.holds_for(*followed.topic_partition):
                    self.table.delay(followed, now + _THROTTLED_PAUSE_S)
                    followed.delays -= 1  # nothing is wrong with it

    def _wait_ms(self, most: int, now: float) -> int:
        """A fetch that the leader parks must not keep partitions waiting that will be back before it."""
        if self.table.unsettled or self._session.begins:
            most = min(most, _SHORT_WAIT_MS)
        due = self.table.next_due
        return most if due is None else min(most, max(int((due - now) * 1000), _SHORT_WAIT_MS))

    def _send(self, request: Message, at_least: int, at_most: int | None) -> Deferred[Message]:
        owner = self._owner
        return owner.send(self.key[0], self._purpose, request, at_least=at_least, at_most=at_most, timeout_s=owner.timeout_s)

    def _answered(self, done: Deferred[Message]) -> None:
        self._asking = False
        if self._closed:
            return
        if done.error is not None:
            self._session.lost()
            self._not_reached(done.error)
        else:
            self._reached()
            try:
                self._judge(cast(FetchResponse, done.result()))
            except Exception:
                logger.exception("the answer of broker %d could not be processed", self.key[0])
                self._session.lost()
                self._pause()
        self._ask()

    def _judge(self, response: FetchResponse) -> None:
        verdict = self._session.answered(response)
        if verdict is Verdict.SERVED:
            self._refused = False
            self._take(response)
            return
        # Twice in a row means that asking anew at once does not help.
        if verdict is Verdict.REFUSED or self._refused:
            self._pause()
        self._refused = True

    def _pause(self) -> None:
        self._pause_until = self._clock.monotonic() + self._owner.backoff_s

    def _not_reached(self, error: BaseException) -> None:
        self._pause()
        if not isinstance(error, OdradekError):
            logger.error("fetching from broker %d failed", self.key[0], exc_info=error)
        elif not self._unreachable:
            logger.warning("nothing can be fetched from broker %d: %s", self.key[0], error)
        self._unreachable = True

    def _reached(self) -> None:
        if self._unreachable:
            self._unreachable = False
            logger.info("broker %d is fetched from again", self.key[0])

    # -- what an answer asks for -------------------------------------------------------------------------------------------------------

    def _take(self, response: FetchResponse) -> None:
        answer = sort_answer(response, self.table)
        for append in answer.appends:
            if self.table.holds(append.followed) and append.followed.awaits_answer:
                self._append(append)
        self._owner.drain()
        self._delay(answer.delays)
        for problem in answer.failures:
            self._give_up(problem)
        cuts: list[_CutLog] = []
        for cut in answer.cuts:
            if self.table.holds(cut.followed) and cut.followed.awaits_answer:
                self._cut(cut, cuts)
        self._owner.harden(cuts)
        self._reset([each for each in answer.resets if self.table.holds(each)])

    def _append(self, append: Append) -> None:
        followed = append.followed
        partition, log = self._replica(followed)
        if partition is None or log is None:
            return
        try:
            partition.append_as_follower(
                append.records, followed.leader_epoch, high_watermark=append.high_watermark, log_start_offset=append.log_start_offset
            )
        except KafkaError as error:
            if error.code is ErrorCode.CORRUPT_MESSAGE:
                # Nothing of it was appended. Damaged on the way it will be right the next time.
                logger.error("%s: %s", followed.topic_partition, error)
                self._delay([Problem(followed, error.code)])
            else:
                self._fail(followed, str(error))
        except Exception as error:
            logger.exception("%s could not be appended to", followed.topic_partition)
            self._fail(followed, str(error))
        else:
            quota = self._owner.quota
            if quota is not None and quota.holds_for(*followed.topic_partition):
                quota.record(len(append.records), int(self._clock.monotonic() * 1000))
            self.flush_if_due(partition, log)
            self.table.moved(followed, position_of(log))
            followed.lag = max(append.high_watermark - log.log_end_offset, 0)
            followed.delays = followed.resets = 0

    def flush_if_due(self, partition: Partition, log: Log) -> None:
        """Where flush.messages asks for it the log becomes durable before the leader is told of its end, which counts from then on."""
        if log.flush_due:
            self._flushes += 1
            self._owner.flush(partition).add_callback(self._flushed)

    def _flushed(self, _: Deferred[None]) -> None:
        # A disk that has failed has taken its partitions with it, and the others go on.
        self._flushes -= 1
        self.wake()

    def _replica(self, followed: Followed) -> tuple[Partition, Log] | tuple[None, None]:
        """What is followed and its log, as long as that is where it was when the leader was asked."""
        partition = self._owner.partition_of(followed)
        log = None if partition is None else partition.log
        if partition is None or log is None:
            self._fail(followed, "its metadata has changed")
            return None, None
        if log.log_end_offset != followed.position.log_end_offset:
            self.table.moved(followed, position_of(log))
            return None, None
        return partition, log

    def _cut(self, cut: Cut, cuts: list[_CutLog]) -> None:
        followed = cut.followed
        partition, log = self._replica(followed)
        if partition is None or log is None:
            return
        logger.info(
            "%s: the leader's epoch %d ends at %d, our log at %d", followed.topic_partition, cut.epoch, cut.end_offset, log.log_end_offset
        )
        self._change(followed, log, lambda: partition.truncate_to_divergence(cut.epoch, cut.end_offset), cuts)

    def _change(self, followed: Followed, log: Log, change: Callable[[], object], cuts: list[_CutLog]) -> None:
        """Cuts the log, which may turn out to change nothing."""
        high_watermark = log.high_watermark
        try:
            change()
        except KafkaError as error:
            self._fail(followed, str(error))
            return
        if log.log_end_offset < high_watermark:
            logger.warning(
                "%s was truncated to %d, below its high watermark %d", followed.topic_partition, log.log_end_offset, high_watermark
            )
        position = position_of(log)
        if log.is_cut:
            followed.resets = 0
            self.table.moved(followed, position)
            self.table.become(followed, FetchState.TRUNCATING)
            cuts.append(_CutLog(self, followed, log))
        elif position != followed.position or followed.resets == 0:
            # Only epochs went, or the leader has gone on meanwhile: worth one more fetch at once.
            followed.resets = 0 if position != followed.position else 1
            self.table.moved(followed, position)
            self._fetch(followed)
        else:
            self._delay([Problem(followed, ErrorCode.OFFSET_OUT_OF_RANGE)])

    def settled(self, followed: Followed) -> None:
        """Its cut is durable: it is fetched again from where its log ends."""
        if self._closed or not self.table.holds(followed) or followed.state is not FetchState.TRUNCATING:
            return
        partition = self._owner.partition_of(followed)
        if partition is None or partition.log is None:
            self._fail(followed, "its metadata has changed")
            return
        self.table.moved(followed, position_of(partition.log))
        self._fetch(followed)
        self.wake()

    def _fetch(self, followed: Followed) -> None:
        if followed.state is not FetchState.FETCHING:
            self.table.become(followed, FetchState.FETCHING)
        else:
            self.table.news[followed.key] = None

    # -- out of range --------------------------------------------------------------------------------------------------------------------

    def _reset(self, out_of_range: list[Followed]) -> None:
        """Asks where the leader's logs begin and end: on the same connection, ahead of the next fetch."""
        resetting: list[Followed] = []
        for followed in out_of_range:
            if followed.awaits_answer:
                logger.info("%s: the leader has nothing at offset %d", followed.topic_partition, followed.position.log_end_offset)
                self.table.become(followed, FetchState.RESETTING)
                resetting.append(followed)
        if not resetting:
            return
        latest = self._send(self._list_offsets(resetting, LATEST), _LIST_OFFSETS_VERSION, None)
        earliest = self._send(self._list_offsets(resetting, EARLIEST), _LIST_OFFSETS_VERSION, None)
        # On one connection the answers come in the order of the requests; a connection that breaks fails both.
        earliest.add_callback(lambda _: latest.add_callback(lambda _: self._bounds_known(resetting, earliest, latest)))

    def _list_offsets(self, resetting: Iterable[Followed], timestamp: int) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for followed in resetting:
            name, partition = followed.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ListOffsetsRequest.ListOffsetsTopic(name=name)
            topic.partitions.append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=partition, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
                )
            )
        return ListOffsetsRequest(replica_id=self._owner.local_id, topics=list(topics.values()))

    def _bounds_known(self, resetting: list[Followed], earliest: Deferred[Message], latest: Deferred[Message]) -> None:
        if self._closed:
            return
        waiting = [each for each in resetting if self.table.holds(each) and each.state is FetchState.RESETTING]
        known: dict[TopicPartition, Bounds] = {}
        if earliest.error is None and latest.error is None:
            known = read_bounds(cast(ListOffsetsResponse, earliest.result()), cast(ListOffsetsResponse, latest.result()))
        cuts: list[_CutLog] = []
        for followed in waiting:
            bounds = known.get(followed.topic_partition, Bounds(ErrorCode.NETWORK_EXCEPTION))
            if bounds.error in FINAL:
                self._give_up(Problem(followed, bounds.error))
            elif bounds.error is not ErrorCode.NONE:
                self._delay([Problem(followed, bounds.error)])
            else:
                self._reset_to(followed, bounds, cuts)
        self._owner.harden(cuts)
        self.wake()

    def _reset_to(self, followed: Followed, bounds: Bounds, cuts: list[_CutLog]) -> None:
        partition = self._owner.partition_of(followed)
        log = None if partition is None else partition.log
        if partition is None or log is None:
            self._fail(followed, "its metadata has changed")
            return
        logger.warning(
            "%s: the leader's log is %d to %d, ours ends at %d",
            followed.topic_partition,
            bounds.start_offset,
            bounds.end_offset,
            log.log_end_offset,
        )
        self._change(followed, log, lambda: partition.reset(bounds.start_offset, bounds.end_offset), cuts)

    # -- not now, or not any more --------------------------------------------------------------------------------------------------------

    def _delay(self, problems: Sequence[Problem]) -> None:
        now, longest = self._clock.monotonic(), self._owner.backoff_s
        delayed: list[Problem] = []
        for problem in problems:
            followed, error = problem
            if self.table.holds(followed) and FetchState.DELAYED in TRANSITIONS[followed.state]:
                pause = min(_FIRST_PAUSE_S * 2.0 ** min(followed.delays, 30), longest) if error in BEHIND else longest
                self.table.delay(followed, now + pause)
                if pause == longest:
                    delayed.append(problem)
        if delayed:
            names = ", ".join([f"{followed.topic_partition} ({error.name})" for followed, error in delayed[:_NAMED]])
            more = f" and {len(delayed) - _NAMED} more" if len(delayed) > _NAMED else ""
            logger.info("broker %d cannot be fetched from for a while: %s%s", self.key[0], names, more)

    def _give_up(self, problem: Problem) -> None:
        """The leader will not serve the partition in this leader epoch. A leader that knows a later one has only heard of it first."""
        followed, error = problem
        level = logging.INFO if error is ErrorCode.FENCED_LEADER_EPOCH else logging.ERROR
        self._fail(followed, f"the leader answers {error.name}", level)

    def _fail(self, followed: Followed, reason: str, level: int = logging.ERROR) -> None:
        if self.table.holds(followed) and FetchState.FAILED in TRANSITIONS[followed.state]:
            epoch = followed.leader_epoch
            logger.log(level, "%s is not fetched any more in leader epoch %d: %s", followed.topic_partition, epoch, reason)
            self.table.become(followed, FetchState.FAILED)


def position_of(log: Log) -> Position:
    """Where a fetch of it goes on."""
    return Position(log.log_end_offset, log.latest_epoch, log.log_start_offset)


def fetcher_number(topic_partition: TopicPartition, fetchers: int) -> int:
    """Which of a leader's fetchers a partition belongs to: as in Kafka (AbstractFetcherManager.getFetcherId)."""
    number = (31 * _java_hash(topic_partition.topic) + topic_partition.partition) & 0xFFFF_FFFF
    if number >= 0x8000_0000:
        number = 0x1_0000_0000 - number
    return 0 if number == 0x8000_0000 else number % fetchers


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """String.hashCode, without its sign; names of topics are ASCII."""
    number = 0
    for unit in text.encode():
        number = (31 * number + unit) & 0xFFFF_FFFF
    return number
