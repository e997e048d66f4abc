"""Fetchers that copy the followed partitions from their leaders (kafka.server.ReplicaFetcherManager, ReplicaFetcherThread; ADR 9).

The partitions of one leader are spread over num.replica.fetchers fetchers, by Kafka's rule. A fetcher has one connection and one request at
a time. Each round has these steps:

1. The fetcher requests the records after the last response, in an incremental session (`replication.fetching.plan`).
2. The response is sorted (`replication.fetching.answer`). New records are appended at once, one write per partition.
3. The next request is sent. Its positions tell the leader which records have arrived. As in Kafka, nothing is fsynced for that, except
   where flush.messages requires it: the request waits for these flushes, off the loop.
4. Diverging logs are truncated at once, and the truncations of a whole response are fsynced in one executor call. For partitions to be
   reset, the leader is asked for the bounds of its logs. Requests leave out these partitions until that is done.

A leader that cannot be reached is asked again after replica.fetch.backoff.ms; other leaders have other fetchers. The first pauses are much
shorter for a partition that its leader does not know yet: followers of a new topic or a new leader would otherwise wait that long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Alarm, Backoff
from odradek.config.keys.replication import (
    NUM_REPLICA_FETCHERS,
    REPLICA_FETCH_BACKOFF_MS,
    REPLICA_FETCH_MAX_BYTES,
    REPLICA_FETCH_MIN_BYTES,
    REPLICA_FETCH_RESPONSE_MAX_BYTES,
    REPLICA_FETCH_WAIT_MAX_MS,
    REPLICA_SOCKET_TIMEOUT_MS,
)
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.replication.fetching.answer import BEHIND, FINAL, Append, Bounds, Cut, Problem, read_bounds, sort_answer
from odradek.replication.fetching.plan import FIRST_VERSION, LAST_VERSION, FetchLimits, FollowerSession, Verdict, list_offsets
from odradek.replication.fetching.shares import fetcher_number
from odradek.replication.fetching.states import TRANSITIONS, FetchState, FetchTable, Followed, Position
from odradek.replication.following import reset, truncate_to_divergence, truncate_to_high_watermark
from odradek.replication.offsets import EARLIEST, LATEST
from odradek.replication.partition import Partition
from odradek.replication.roles import NO_LEADER, Role

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.protocol.schema import Message
    from odradek.quotas.replication import ReplicationQuota
    from odradek.replication.flushing import RunJob
    from odradek.replication.hosted_partitions import HostedPartitions
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager
    from odradek.storage.truncation_flush import Hardening

logger = logging.getLogger(__name__)

_SHORT_WAIT_MS = 10
"""Most milliseconds that a fetch may wait at the leader while it leaves out partitions that will be back soon, or when it begins a session.
"""
_SHORTEST_PAUSE_S = 0.01
"""Seconds; least pause, so that an unreachable leader does not keep the loop busy with replica.fetch.backoff.ms=0."""
_THROTTLED_PAUSE_S = 0.1
"""Seconds before a throttled partition is considered again."""
_FIRST_PAUSE_MS = 20
"""Seconds before the second request for a partition that its leader does not know yet; each further pause is twice as long."""
_LIST_OFFSETS_VERSION = 4
"""First version of ListOffsets with the leader epoch."""
_NAMED = 3
"""Most partitions that one log line names."""


class SendToBroker(Protocol):
    """Sender of requests over the connection to a broker for `purpose`, in the highest version within the bounds that both sides know."""

    def __call__(
        self, broker_id: int, purpose: str, request: Message, *, at_least: int, at_most: int | None, timeout_s: float
    ) -> Deferred[Message]: ...


class _CutLog(NamedTuple):
    """Partition that waits until the truncation of its log is fsynced."""

    fetcher: Fetcher
    followed: Followed
    log: Log


class ReplicaFetchers:
    """Fetchers of a broker (see the module); the `FollowerFetchers` of `replication.metadata_changes`. Everything runs on the loop."""

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
        """`flush` fsyncs a partition's log (`Flusher.flush`); `drain` answers the requests that waited for appended records."""
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
        """Quota of follower.replication.throttled.rate; None while no partition is throttled."""

    # -- followed partitions -------------------------------------------------------------------------------------------------------------

    def start(self, partitions: Sequence[Partition]) -> None:
        """See `FollowerFetchers`."""
        cuts: list[_CutLog] = []
        for partition in partitions:
            if self._closed or partition.leader_id in (NO_LEADER, self.local_id):
                continue
            try:
                log = partition.followed_log()
                truncate_to_high_watermark(log)
            except KafkaError as error:
                logger.error("%s cannot be fetched: %s", partition.topic_partition, error)
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
        """Redistribute the partitions after a change of num.replica.fetchers."""
        partitions = [
            partition
            for topic_partition in self._fetcher_of
            if (partition := self._hosted.by_name.get(topic_partition)) is not None and partition.role is Role.FOLLOWER
        ]
        self.stop(list(self._fetcher_of))
        self.start(partitions)

    def close(self) -> None:
        """Stop all fetching; responses under way are dropped when they arrive."""
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._fetcher_of.clear()

    def followed(self, topic_partition: TopicPartition) -> Followed | None:
        """Return the fetch state of a partition; None when the partition is not followed."""
        fetcher = self._fetcher_of.get(topic_partition)
        return None if fetcher is None else fetcher.table.get(topic_partition)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of records that the leader has committed and this broker lacks, by the last response; None while that is
        unknown.
        """
        followed = self.followed(topic_partition)
        return None if followed is None else followed.lag

    def lags(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Yield each followed partition with the name of its fetcher, as that of JVM Kafka's threads, and its lag in records (0 while
        unknown).
        """
        for (leader_id, number), fetcher in list(self._fetchers.items()):
            for followed in list(fetcher.table):
                yield f"ReplicaFetcherThread-{number}-{leader_id}", followed.topic_partition, followed.lag or 0

    @property
    def failed(self) -> int:
        """Number of partitions that are no longer fetched in their leader epoch."""
        return sum(followed.state is FetchState.FAILED for fetcher in self._fetchers.values() for followed in fetcher.table)

    def _fetcher_for(self, leader_id: int, topic_partition: TopicPartition) -> Fetcher:
        number = fetcher_number(topic_partition, self.config[NUM_REPLICA_FETCHERS])
        fetcher = self._fetchers.get((leader_id, number))
        if fetcher is None:
            fetcher = self._fetchers[leader_id, number] = Fetcher(self, leader_id, number)
        return fetcher

    def discard(self, fetcher: Fetcher) -> None:
        """Close and remove a fetcher without partitions."""
        if self._fetchers.get(fetcher.key) is fetcher:
            del self._fetchers[fetcher.key]
        fetcher.close()

    # -- for the fetchers --------------------------------------------------------------------------------------------------------------

    def partition_of(self, followed: Followed) -> Partition | None:
        """Return the followed replica; None when this broker no longer follows it in that leader epoch."""
        partition = self._hosted.by_name.get(followed.topic_partition)
        if partition is None or partition.role is not Role.FOLLOWER or partition.leader_epoch != followed.leader_epoch:
            return None
        return partition if partition.topic_id == followed.topic_id else None

    def limits(self) -> FetchLimits:
        """Return the limits of a fetch by the current configuration."""
        config = self.config
        return FetchLimits(
            max_wait_ms=config[REPLICA_FETCH_WAIT_MAX_MS],
            min_bytes=config[REPLICA_FETCH_MIN_BYTES],
            max_bytes=config[REPLICA_FETCH_RESPONSE_MAX_BYTES],
            partition_max_bytes=config[REPLICA_FETCH_MAX_BYTES],
        )

    @property
    def backoff_s(self) -> float:
        return max(self.config[REPLICA_FETCH_BACKOFF_MS] / 1000, _SHORTEST_PAUSE_S)

    @property
    def timeout_s(self) -> float:
        return self.config[REPLICA_SOCKET_TIMEOUT_MS] / 1000

    def harden(self, cuts: list[_CutLog]) -> None:
        """Fsync the truncations in one executor call; afterwards the partitions are fetched again."""
        hardening = self._log_manager.begin_hardening([each.log for each in cuts])
        if hardening is not None:
            self._run_job(hardening.run).add_callback(lambda job: self._hardened(hardening, cuts, job.error))

    def _hardened(self, hardening: Hardening, cuts: list[_CutLog], error: BaseException | None) -> None:
        if error is not None:
            # The next write to each of these logs fsyncs the truncation itself, and reports a failure.
            logger.error("truncations could not be made durable", exc_info=error)
        else:
            self._log_manager.finish_hardening(hardening)
        for fetcher, followed, _ in cuts:
            fetcher.settled(followed)


class Fetcher:
    """Fetcher of the partitions of one leader, or of one of num.replica.fetchers shares of them."""

    def __init__(self, owner: ReplicaFetchers, leader_id: int, number: int) -> None:
        self._owner = owner
        self._clock = owner.clock
        self.key = (leader_id, number)
        self.table = FetchTable()
        self._session = FollowerSession()
        self._purpose = f"fetch-{number}"
        self._asking = False
        """Whether a fetch is under way."""
        self._flushes = 0
        """Flushes under way: records whose receipt the next fetch would confirm are not durable yet."""
        self._refused = False
        """Whether the last fetch was refused as a whole."""
        self._unreachable = False
        self._pause_until = 0.0
        self._alarm = Alarm(owner.clock, self._ask)
        self._closed = False

    # -- rounds --------------------------------------------------------------------------------------------------------------------------

    def start_soon(self) -> None:
        """Fetch soon, even from a leader that could not be reached: there is a new partition to fetch."""
        self._pause_until = 0.0
        self.wake()

    def wake(self) -> None:
        """Fetch in the next loop iteration, unless a fetch is under way."""
        if not self._asking:
            self._alarm.set(0)

    def close(self) -> None:
        self._closed = True
        self._alarm.close()

    def _ask(self) -> None:
        if self._alarm.is_set:
            self._alarm.cancel()
        if self._asking or self._flushes or self._closed:
            return
        now = self._clock.monotonic()
        if now < self._pause_until:
            self._alarm.set(self._pause_until - now)
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
            self._alarm.set(due - now)

    def _throttle(self, quota: ReplicationQuota, now: float) -> None:
        """While the quota is exceeded, delay the throttled partitions that are not in sync by `_THROTTLED_PAUSE_S` seconds."""
        if quota.exceeded(int(now * 1000)):
            for followed in list(self.table):
                fetched = followed.state is FetchState.FETCHING and followed.lag != 0
                if fetched and quota.holds_for(*followed.topic_partition):
                    self.table.delay(followed, now + _THROTTLED_PAUSE_S)
                    followed.delays -= 1  # a throttled partition has no error

    def _wait_ms(self, most: int, now: float) -> int:
        """Return the milliseconds that a fetch may wait at the leader: it must not delay partitions that are left out now and due before
        its end.
        """
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
                logger.exception("the response of broker %d could not be processed", self.key[0])
                self._session.lost()
                self._pause()
        self._ask()

    def _judge(self, response: FetchResponse) -> None:
        verdict = self._session.answered(response)
        if verdict is Verdict.SERVED:
            self._refused = False
            self._take(response)
            return
        # A second refusal in a row means that another request at once does not help.
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
            logger.warning("fetching from broker %d failed: %s", self.key[0], error)
        self._unreachable = True

    def _reached(self) -> None:
        if self._unreachable:
            self._unreachable = False
            logger.info("fetching from broker %d works again", self.key[0])

    # -- responses -----------------------------------------------------------------------------------------------------------------------

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
                # Nothing was appended. If the damage happened in transit, the next response will be intact.
                logger.error("%s: %s", followed.topic_partition, error)
                self._delay([Problem(followed, error.code)])
            else:
                self._fail(followed, str(error))
        except Exception as error:
            logger.exception("the fetched records of %s could not be appended", followed.topic_partition)
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
        """Fsync the log, where flush.messages requires it, before the leader is told of the log's end."""
        if log.flush_due:
            self._flushes += 1
            self._owner.flush(partition).add_callback(self._flushed)

    def _flushed(self, _: Deferred[None]) -> None:
        # A failed disk has taken its partitions offline; the other partitions continue.
        self._flushes -= 1
        self.wake()

    def _replica(self, followed: Followed) -> tuple[Partition, Log] | tuple[None, None]:
        """Return the followed replica and its log; (None, None) when the metadata or the log's end has changed since the request."""
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
            "%s: the leader's epoch %d ends at %d, this log at %d", followed.topic_partition, cut.epoch, cut.end_offset, log.log_end_offset
        )
        self._change(followed, log, lambda: truncate_to_divergence(log, cut.epoch, cut.end_offset), cuts)

    def _change(self, followed: Followed, log: Log, change: Callable[[], object], cuts: list[_CutLog]) -> None:
        """Truncate the log by `change`, which may turn out to change nothing."""
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
            # Only epochs were removed, or the leader has advanced since: one more fetch at once is worthwhile.
            followed.resets = 0 if position != followed.position else 1
            self.table.moved(followed, position)
            self._fetch(followed)
        else:
            self._delay([Problem(followed, ErrorCode.OFFSET_OUT_OF_RANGE)])

    def settled(self, followed: Followed) -> None:
        """Fetch a partition from the end of its log again, now that its truncation is fsynced."""
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

    # -- offsets out of range ------------------------------------------------------------------------------------------------------------

    def _reset(self, out_of_range: list[Followed]) -> None:
        """Ask for the start and end offsets of the leader's logs, on the same connection, ahead of the next fetch."""
        resetting: list[Followed] = []
        for followed in out_of_range:
            if followed.awaits_answer:
                logger.info("%s: the leader has no records at offset %d", followed.topic_partition, followed.position.log_end_offset)
                self.table.become(followed, FetchState.RESETTING)
                resetting.append(followed)
        if not resetting:
            return
        latest = self._send(list_offsets(self._owner.local_id, resetting, LATEST), _LIST_OFFSETS_VERSION, None)
        earliest = self._send(list_offsets(self._owner.local_id, resetting, EARLIEST), _LIST_OFFSETS_VERSION, None)
        # Responses on one connection come in the order of the requests; a broken connection fails both.
        earliest.add_callback(lambda _: latest.add_callback(lambda _: self._bounds_known(resetting, earliest, latest)))

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
            "%s: the leader's log has offsets %d to %d, this log ends at %d",
            followed.topic_partition,
            bounds.start_offset,
            bounds.end_offset,
            log.log_end_offset,
        )
        self._change(followed, log, lambda: reset(log, bounds.start_offset, bounds.end_offset), cuts)

    # -- delays and failures --------------------------------------------------------------------------------------------------------------

    def _delay(self, problems: Sequence[Problem]) -> None:
        now = self._clock.monotonic()
        growing = Backoff(_FIRST_PAUSE_MS, self._owner.backoff_s * 1000)
        longest = growing.max_ms / 1000
        delayed: list[Problem] = []
        for problem in problems:
            followed, error = problem
            if self.table.holds(followed) and FetchState.DELAYED in TRANSITIONS[followed.state]:
                pause = growing.delay_s(followed.delays + 1) if error in BEHIND else longest
                self.table.delay(followed, now + pause)
                if pause == longest:
                    delayed.append(problem)
        if delayed:
            names = ", ".join([f"{followed.topic_partition} ({error.name})" for followed, error in delayed[:_NAMED]])
            more = f" and {len(delayed) - _NAMED} more" if len(delayed) > _NAMED else ""
            logger.info("fetching from broker %d is delayed: %s%s", self.key[0], names, more)

    def _give_up(self, problem: Problem) -> None:
        """Give up a partition that the leader will not serve in this leader epoch. With FENCED_LEADER_EPOCH the leader only knows a later
        epoch earlier than this broker.
        """
        followed, error = problem
        level = logging.INFO if error is ErrorCode.FENCED_LEADER_EPOCH else logging.ERROR
        self._fail(followed, f"the leader responds with {error.name}", level)

    def _fail(self, followed: Followed, reason: str, level: int = logging.ERROR) -> None:
        if self.table.holds(followed) and FetchState.FAILED in TRANSITIONS[followed.state]:
            epoch = followed.leader_epoch
            logger.log(level, "%s is not fetched any more in leader epoch %d: %s", followed.topic_partition, epoch, reason)
            self.table.become(followed, FetchState.FAILED)


def position_of(log: Log) -> Position:
    """Return the position from which a fetch of the log continues."""
    return Position(log.log_end_offset, log.latest_epoch, log.log_start_offset)
