"""What the metrics of a node say, beside plain data: which number stands under which name, and that it falls when something goes."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.base.ids import TopicPartition
from odradek.config.keys.transactions import TRANSACTION_MAX_TIMEOUT_MS
from odradek.consensus.states import Role as RaftRole
from odradek.coordinator.group.group import GroupType
from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.registry import Registry
from odradek.metrics.requests import Requests
from odradek.metrics.traffic import Traffic
from odradek.replication.roles import Role
from odradek.server.metering.groups import add_groups
from odradek.server.metering.network import Idleness, LastMinute, add_network
from odradek.server.metering.quorum import ClusterSource, add_metadata, add_raft
from odradek.server.metering.replicas import ReplicaSource, add_fetchers, add_logs, add_waits
from odradek.server.metering.traffic import RequestSource, add_forwarding, add_traffic
from tests.clock import ManualClock

REPLICAS = "kafka.server:type=ReplicaManager,name="
PARTITION = "kafka.cluster:type=Partition,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="


def told(registry: Registry, key: str) -> dict[tuple[str, ...], Any]:
    """The series of a metric: tag values -> value."""
    [metric] = [each for each in CATALOGUE if each.key == key]
    found = [each for each in registry.read(metric) if each is not None]
    assert len({values for _, values, _ in found}) == len(found), "each series once"
    return {values: value for _, values, value in found}


def only(registry: Registry, key: str) -> Any:
    [(values, value)] = told(registry, key).items()
    assert values == ()
    return value


def registry() -> Registry:
    return Registry(CATALOGUE)


# -- replicas --------------------------------------------------------------------------------------------------------------------------


def log(
    *,
    start: int = 0,
    end: int = 0,
    stable: int | None = None,
    size: int = 0,
    segments: int = 1,
    producers: int = 0,
    in_transaction_ms: float = float("inf"),
) -> Any:
    """`in_transaction_ms`: when something was last written to the transaction that is open."""
    state = SimpleNamespace(producers=dict.fromkeys(range(producers)), has_late_transaction=lambda before_ms: in_transaction_ms < before_ms)
    return SimpleNamespace(
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        size=size,
        segments=[None] * segments,
        producer_state=state,
    )


def partition(role: Role, *, its_log: Any = None, isr: Iterable[int] = (), replicas: Iterable[int] = (1, 2, 3), min_isr: int = 2) -> Any:
    return SimpleNamespace(
        role=role,
        is_leader=role is Role.LEADER,
        log=its_log,
        isr=SimpleNamespace(isr=frozenset(isr)),
        replica_ids=tuple(replicas),
        min_isr=min_isr,
    )


class Replicas:
    """A replica manager of which only the metrics are asked."""

    def __init__(self) -> None:
        self.clock = ManualClock(now_s=100.0)
        self.partitions: dict[TopicPartition, Any] = {}
        self.moving: set[TopicPartition] = set()
        self.settings = {TRANSACTION_MAX_TIMEOUT_MS: 900_000}
        self.manager: Any = SimpleNamespace(
            partitions=SimpleNamespace(by_name=self.partitions),
            cluster=SimpleNamespace(is_reassigning=self.moving.__contains__),
            dynamic_config=self.settings,
            traffic=Traffic(),
        )
        self.registry = registry()
        ReplicaSource(lambda: self.manager, self.clock).add_to(self.registry)

    def total(self, name: str) -> int:
        return int(only(self.registry, REPLICAS + name))

    def each(self, key: str) -> dict[str, Any]:
        return {f"{topic}-{number}": value for (topic, number), value in told(self.registry, key).items()}


def test_which_partition_is_short_of_replicas_and_which_has_just_enough() -> None:
    world = Replicas()
    world.partitions |= {
        TopicPartition("whole", 0): partition(Role.LEADER, its_log=log(end=5), isr=(1, 2, 3)),
        TopicPartition("short", 0): partition(
            Role.LEADER, its_log=log(start=2, end=9, stable=4, size=70, segments=3, producers=2), isr=(1, 2)
        ),
        TopicPartition("short", 1): partition(Role.LEADER, its_log=log(producers=1, in_transaction_ms=0), isr=(1,)),
        TopicPartition("followed", 0): partition(Role.FOLLOWER, its_log=log(end=7, size=11), isr=(2,)),
        TopicPartition("gone", 0): partition(Role.OFFLINE),
    }
    world.moving |= {TopicPartition("short", 0), TopicPartition("followed", 0)}
    names = ("LeaderCount", "PartitionCount", "OfflineReplicaCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount")
    assert [world.total(name) for name in names] == [3, 5, 1, 2, 1]
    names = ("AtMinIsrPartitionCount", "ReassigningPartitions", "PartitionsWithLateTransactionsCount", "ProducerIdCount")
    assert [world.total(name) for name in names] == [1, 1, 1, 3]
    led = {"whole-0": 0, "short-0": 0, "short-1": 0, "followed-0": 0, "gone-0": 0}
    assert world.each(PARTITION + "UnderReplicated") == {**led, "short-0": 1, "short-1": 1}
    assert world.each(PARTITION + "UnderMinIsr") == {**led, "short-1": 1}
    assert world.each(PARTITION + "AtMinIsr") == {**led, "short-0": 1}
    assert world.each(PARTITION + "InSyncReplicasCount") == {**led, "whole-0": 3, "short-0": 2, "short-1": 1}
    assert world.each(PARTITION + "ReplicasCount") == {**led, "whole-0": 3, "short-0": 3, "short-1": 3}
    assert world.each(PARTITION + "LastStableOffsetLag") == {**led, "short-0": 5}
    logs = "kafka.log:type=Log,name="
    assert world.each(logs + "Size") == {"whole-0": 0, "short-0": 70, "short-1": 0, "followed-0": 11}, "what is offline has no log"
    assert world.each(logs + "NumLogSegments") == {"whole-0": 1, "short-0": 3, "short-1": 1, "followed-0": 1}
    assert world.each(logs + "LogStartOffset") == {"whole-0": 0, "short-0": 2, "short-1": 0, "followed-0": 0}
    assert world.each(logs + "LogEndOffset") == {"whole-0": 5, "short-0": 9, "short-1": 0, "followed-0": 7}


class Hosted(RuleBasedStateMachine):
    """Partitions come, change and go; a second after that the metrics say so."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Replicas()
        self.isr: dict[int, set[int]] = {}

    @rule(number=st.integers(0, 3), isr=st.sets(st.integers(1, 3), min_size=1))
    def has(self, number: int, isr: set[int]) -> None:
        self.isr[number] = isr
        self.world.partitions[TopicPartition("t", number)] = partition(Role.LEADER, its_log=log(), isr=isr)

    @rule(number=st.integers(0, 3))
    def goes(self, number: int) -> None:
        self.isr.pop(number, None)
        self.world.partitions.pop(TopicPartition("t", number), None)

    @invariant()
    def is_told(self) -> None:
        self.world.clock.advance_s(1)
        sizes = [len(each) for each in self.isr.values()]
        assert self.world.total("PartitionCount") == self.world.total("LeaderCount") == len(sizes)
        assert self.world.total("UnderReplicatedPartitions") == sum(size < 3 for size in sizes)
        assert self.world.total("UnderMinIsrPartitionCount") == sum(size < 2 for size in sizes)
        assert self.world.total("AtMinIsrPartitionCount") == sum(size == 2 for size in sizes)
        assert set(self.world.each(PARTITION + "UnderMinIsr")) == {f"t-{number}" for number in self.isr}


TestHosted = Hosted.TestCase
TestHosted.settings = settings(max_examples=15, stateful_step_count=10)


def test_one_scrape_is_told_of_one_look() -> None:
    world = Replicas()
    world.partitions[TopicPartition("t", 0)] = partition(Role.LEADER, its_log=log(), isr=(1,))
    assert world.total("LeaderCount") == 1
    world.partitions.clear()
    world.clock.advance_s(0.9)
    assert world.total("LeaderCount") == 1
    world.clock.advance_s(0.2)
    assert world.total("LeaderCount") == 0


def test_a_transaction_is_late_five_minutes_after_the_longest_time_that_it_may_take() -> None:
    world = Replicas()
    begun_ms = world.clock.time_ms()
    world.partitions[TopicPartition("t", 0)] = partition(Role.LEADER, its_log=log(in_transaction_ms=begun_ms), isr=(1,))

    def is_late(after_s: int) -> bool:
        world.clock.advance_s(begun_ms / 1000 + after_s - world.clock.time_ms() / 1000)
        return world.total("PartitionsWithLateTransactionsCount") == 1

    assert [is_late(seconds) for seconds in (0, 301, 901, 1200, 1201)] == [False, False, False, False, True]
    world.settings[TRANSACTION_MAX_TIMEOUT_MS] = 1_000_000
    assert [is_late(seconds) for seconds in (1203, 1300, 1301)] == [False, False, True]


def test_isr_changes_are_told_apart() -> None:
    world = Replicas()
    counts = world.manager.traffic.add_partition("t")
    counts.isr_shrinks, counts.isr_expands, counts.isr_failures = 1, 2, 3
    names = ("IsrShrinksPerSec", "IsrExpandsPerSec", "FailedIsrUpdatesPerSec")
    assert [world.total(name) for name in names] == [1, 2, 3]
    world.manager.traffic.remove_partition("t")
    assert [world.total(name) for name in names] == [1, 2, 3], "what has happened has happened"


def test_what_waits_and_what_has_waited_in_vain() -> None:
    world = Replicas()

    class Parked(list[int]):
        expired: Any = None

    class Sessions(list[int]):
        cached_partitions, evictions = 30, 4

    delayed = SimpleNamespace(acks=Parked([1]), produce=Parked([1, 2]), fetch=Parked([1] * 5), delete_records=Parked([1] * 7))
    delayed.acks.expired, delayed.produce.expired = 2, {"a": 3, "b": 4}
    delayed.fetch.expired, delayed.delete_records.expired = {"consumer": 5, "follower": 6}, {"x": 8}
    world.manager.delayed = delayed
    world.manager.fetch_sessions = Sessions([1] * 9)
    expected = {("Produce",): 3, ("Fetch",): 5, ("DeleteRecords",): 7}
    for name in ("PurgatorySize", "NumDelayedOperations"):
        assert told(world.registry, f"kafka.server:type=DelayedOperationPurgatory,name={name}") == expected
    cache = "kafka.server:type=FetchSessionCache,name="
    assert only(world.registry, cache + "NumIncrementalFetchSessions") == 9
    assert only(world.registry, cache + "NumIncrementalFetchPartitionsCached") == 30
    assert only(world.registry, cache + "IncrementalFetchSessionEvictionsPerSec") == 4
    add_waits(world.registry, lambda: world.manager, lambda: None, world.clock)
    assert told(world.registry, "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec") == {("consumer",): 5, ("follower",): 6}
    assert only(world.registry, "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec") == 2 + 3 + 4
    assert only(world.registry, "kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec") == 8


def test_how_far_followers_are_behind() -> None:
    made = registry()
    fetchers: list[Any] = []
    add_fetchers(made, lambda: fetchers[0] if fetchers else None)
    manager = "kafka.server:type=ReplicaFetcherManager,name="
    assert told(made, manager + "MaxLag") == {("Replica",): 0}
    lags = [("fetcher-1", TopicPartition("t", 0), 3), ("fetcher-2", TopicPartition("t", 1), 8), ("fetcher-2", TopicPartition("u", 0), 5)]
    fetchers.append(SimpleNamespace(lags=lambda: list(lags), failed=2))
    assert told(made, manager + "MaxLag") == {("Replica",): 8}
    assert told(made, manager + "FailedPartitionsCount") == {("Replica",): 2}
    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag"
    assert told(made, lag) == {("fetcher-1", "t", "0"): 3, ("fetcher-2", "t", "1"): 8, ("fetcher-2", "u", "0"): 5}
    del lags[1]
    assert told(made, manager + "MaxLag") == {("Replica",): 5}
    assert ("fetcher-2", "t", "1") not in told(made, lag)


def test_which_directory_has_failed_and_which_takes_no_more() -> None:
    made, clock = registry(), ManualClock()
    found = {path: SimpleNamespace(path=path, online=True, cordoned=False) for path in ("/a", "/b")}
    manager: Any = SimpleNamespace(directories=list(found.values()), directory=found.get, cleaner=None)
    progress: dict[str, Any] = {}
    add_logs(made, lambda: manager, lambda: None, lambda: progress, clock)
    its = "kafka.log:type=LogManager,name="

    def said() -> list[object]:
        flags = (told(made, its + "LogDirectoryOffline"), told(made, its + "LogDirectoryCordoned"))
        assert [only(made, its + "OfflineLogDirectoryCount"), only(made, its + "CordonedLogDirectoryCount")] == [
            sum(each.values()) for each in flags
        ]
        return [{path for (path,), on in each.items() if on} for each in flags]

    assert said() == [set(), set()]
    found["/b"].online = False
    found["/a"].cordoned = True
    assert said() == [{"/b"}, {"/a"}]
    found["/a"].cordoned = False
    assert said() == [{"/b"}, set()]
    progress["/a"] = SimpleNamespace(total=5, done=1, segments_total=9, segments_done=2)
    assert told(made, its + "remainingLogsToRecover") == {("/a",): 3}, "one is being recovered"
    assert told(made, its + "remainingSegmentsToRecover") == {("/a", "0"): 7}
    progress["/a"].done = progress["/a"].total
    assert told(made, its + "remainingLogsToRecover") == {("/a",): 0}


# -- the network -----------------------------------------------------------------------------------------------------------------------


def test_connections_are_counted_for_their_listener_and_go_with_it() -> None:
    made, clock = registry(), ManualClock()
    bound = [SimpleNamespace(name=name, listener=SimpleNamespace(admitted=count)) for name, count in (("IN", 7), ("OUT", 3))]
    connections = [
        SimpleNamespace(listener=SimpleNamespace(name=name), busy=busy) for name, busy in (("IN", True), ("IN", False), ("OUT", False))
    ]
    pool = SimpleNamespace(budget=100, in_use=30)
    acceptor: Any = SimpleNamespace(listeners=bound, connections=connections, pool=pool, idle_closed=4)
    add_network(made, acceptor, Idleness(clock, lambda: 0.0))
    sockets = "kafka.server:type=socket-server-metrics.connection-"
    server = "kafka.network:type=SocketServer,name="
    assert told(made, sockets + "count") == {("IN", "0"): 2, ("OUT", "0"): 1}
    assert told(made, sockets + "creation-total") == {("IN", "0"): 7, ("OUT", "0"): 3}
    assert told(made, "kafka.network:type=RequestChannel,name=ResponseQueueSize") == {(): 1, ("0",): 1}
    assert (only(made, server + "MemoryPoolAvailable"), only(made, server + "MemoryPoolUsed")) == (70, 30)
    assert only(made, server + "ExpiredConnectionsKilledCount") == 4
    connections.pop()
    assert told(made, sockets + "count") == {("IN", "0"): 2, ("OUT", "0"): 0}
    bound.pop()
    assert told(made, sockets + "count") == {("IN", "0"): 2}
    pool.in_use = 130
    assert only(made, server + "MemoryPoolAvailable") == 0


def test_the_rate_of_the_last_minute_falls_when_nothing_comes() -> None:
    clock, count = ManualClock(), [0]
    rate = LastMinute(lambda: count[0], clock)
    for _ in range(2):
        for _ in range(60):
            count[0] += 50
            clock.advance_s(5)
            seen = rate.read()
        assert seen == pytest.approx(10, rel=0.02)
        for _ in range(60):
            clock.advance_s(5)
            seen = rate.read()
        assert seen < 0.1


# -- groups ----------------------------------------------------------------------------------------------------------------------------


class Groups(RuleBasedStateMachine):
    """Groups of both kinds come, change their state and go."""

    CLASSIC = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
    CONSUMER = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, tuple[GroupType, str]] = {}
        self.states = ["active"]
        shard = SimpleNamespace(
            groups=_Values(lambda: [SimpleNamespace(type=kind, state_name=state) for kind, state in self.groups.values()]),
            offsets=SimpleNamespace(offsets=self.groups),
        )
        runtime = SimpleNamespace(each_active=lambda ask: [ask(shard)], states=lambda: list(self.states))
        self.counts = SimpleNamespace(commits=1, deletions=2, expirations=3, classic_rebalances=4, consumer_rebalances=5)
        made = SimpleNamespace(made_groups=SimpleNamespace(runtime=runtime, counts=self.counts), made_transactions=None)
        self.registry = registry()
        add_groups(self.registry, lambda: cast(Any, made), ManualClock())

    @rule(name=st.sampled_from("abc"), state=st.sampled_from(CLASSIC))
    def classic(self, name: str, state: str) -> None:
        self.groups[name] = (GroupType.CLASSIC, state)

    @rule(name=st.sampled_from("abc"), state=st.sampled_from(CONSUMER))
    def consumer(self, name: str, state: str) -> None:
        self.groups[name] = (GroupType.CONSUMER, state)

    @rule(name=st.sampled_from("abc"))
    def goes(self, name: str) -> None:
        self.groups.pop(name, None)

    @rule(states=st.lists(st.sampled_from(("loading", "active", "failed")), max_size=4))
    def partitions(self, states: list[str]) -> None:
        self.states = states

    @invariant()
    def is_told(self) -> None:
        manager = "kafka.coordinator.group:type=GroupMetadataManager,name="
        own = "kafka.server:type=group-coordinator-metrics."
        kinds = list(self.groups.values())
        assert only(self.registry, manager + "NumGroups") == only(self.registry, manager + "NumOffsets") == len(kinds)
        for state in self.CLASSIC:
            assert only(self.registry, f"{manager}NumGroups{state}") == kinds.count((GroupType.CLASSIC, state))
        assert told(self.registry, own + "consumer-group-count") == {
            (state.lower(),): kinds.count((GroupType.CONSUMER, state)) for state in self.CONSUMER
        }
        assert told(self.registry, own + "group-count") == {
            (name,): sum(kind is of for kind, _ in kinds) for name, of in (("classic", GroupType.CLASSIC), ("consumer", GroupType.CONSUMER))
        }
        assert told(self.registry, own + "num-partitions") == {(each,): self.states.count(each) for each in ("loading", "active", "failed")}
        names = ("offset-commit", "offset-deletion", "offset-expiration", "group-completed-rebalance", "consumer-group-rebalance")
        assert [only(self.registry, f"{own}{name}-count") for name in names] == [1, 2, 3, 4, 5]


class _Values:
    def __init__(self, values: Any) -> None:
        self._values = values

    def __iter__(self) -> Any:
        return iter(self._values())


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=10, stateful_step_count=10)


# -- requests and topics ---------------------------------------------------------------------------------------------------------------


def test_a_topic_has_its_own_numbers_and_none_when_it_goes() -> None:
    made, traffic = registry(), Traffic()
    add_traffic(made, lambda: traffic)
    meters = "kafka.server:type=BrokerTopicMetrics,name="
    for topic, factor in (("a", 1), ("b", 100)):
        counts = traffic.add_partition(topic)
        counts.messages_in, counts.bytes_in, counts.bytes_out, counts.bytes_rejected = factor, 2 * factor, 3 * factor, 4 * factor
        counts.replication_bytes_in, counts.produces, counts.failed_fetches = 5 * factor, 6 * factor, 7 * factor
    expected = {"MessagesInPerSec": 1, "BytesInPerSec": 2, "BytesOutPerSec": 3, "BytesRejectedPerSec": 4}
    expected |= {"TotalProduceRequestsPerSec": 6, "FailedFetchRequestsPerSec": 7}
    for name, value in expected.items():
        assert told(made, meters + name) == {(): 101 * value, ("a",): value, ("b",): 100 * value}
    assert told(made, meters + "ReplicationBytesInPerSec") == {(): 505}, "not by topic in Kafka"
    traffic.remove_partition("b")
    for name, value in expected.items():
        assert told(made, meters + name) == {(): 101 * value, ("a",): value}


def test_requests_are_told_by_name_version_and_error() -> None:
    made, clock, requests = registry(), ManualClock(now_s=50), Requests()
    RequestSource(requests, clock).add_to(made)
    requests.of("Produce").waited(11, 100, 10.0, 10.002, 10.030)
    requests.of("Produce").waited(11, 100, 10.0, 10.002, 10.030)
    requests.of("Produce").waited(3, 100, 10.0, 10.002, 10.030)
    requests.of("Fetch").answered(4, 70, 10.0, 10.007)
    requests.of("Fetch").other.answered(4, 70, 10.0, 10.009)
    requests.of("Heartbeat")
    requests.of("Produce").errors |= {0: 6, 3: 1, 12345: 4}
    network = "kafka.network:type=RequestMetrics,name="
    once = {("Fetch", "4"): 2, ("FetchConsumer", "4"): 1, ("FetchFollower", "4"): 1}
    assert told(made, network + "RequestsPerSec") == {("Produce", "3"): 1, ("Produce", "11"): 2, **once}, "nobody has asked for a heartbeat"
    errors = {("Produce", "NONE"): 6, ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1, ("Produce", "12345"): 4}
    assert told(made, network + "ErrorsPerSec") == errors

    def largest(name: str) -> dict[str, float]:
        return {api: round(found.largest) for (api,), found in told(made, network + name).items()}

    zero = {"Fetch": 0, "FetchConsumer": 0, "FetchFollower": 0, "Produce": 0}
    fetches = {"Fetch": 9, "FetchConsumer": 7, "FetchFollower": 9}
    assert largest("TotalTimeMs") == {**fetches, "Produce": 30}
    assert largest("LocalTimeMs") == {**fetches, "Produce": 2}
    assert largest("RemoteTimeMs") == {**zero, "Produce": 28}
    assert largest("RequestBytes") == {"Fetch": 70, "FetchConsumer": 70, "FetchFollower": 70, "Produce": 100}
    assert largest("ThrottleTimeMs") == largest("RequestQueueTimeMs") == largest("ResponseSendTimeMs") == zero
    clock.advance_s(2)
    requests.of("Produce").throttle(40, clock.now_s)
    requests.of("Produce").waited(11, 100, 10.0, 10.002, 10.050)
    assert largest("ThrottleTimeMs") == {**zero, "Produce": 40}
    assert largest("TotalTimeMs") == {**fetches, "Produce": 50}, "a scrape is told of what there is by now"


def test_what_is_forwarded_is_told_while_it_is_under_way() -> None:
    made = registry()
    forwarder: Any = None
    add_forwarding(made, lambda: forwarder, ManualClock())
    length = "kafka.server:type=ForwardingManager.QueueLength"
    assert only(made, length) == 0
    forwarder = SimpleNamespace(under_way=3)
    assert only(made, length) == 3
    forwarder.under_way = 0
    assert only(made, length) == 0


# -- the cluster -----------------------------------------------------------------------------------------------------------------------


class Cluster:
    """A controller's view of topics and brokers."""

    def __init__(self) -> None:
        self.image: Any = None
        self.shows({}, {})
        self.kraft: Any = SimpleNamespace(on_leader=[], is_active_controller=False, controller=None)
        self.registry = registry()
        self.source = ClusterSource(self.kraft, ManualClock())
        self.source.add_to(self.registry)
        self.kraft.image = self.image

    def shows(self, leaders: dict[str, list[int]], brokers: dict[int, tuple[bool, bool]]) -> None:
        """`leaders`: of the partitions of each topic, whose replicas are 1 and 2. `brokers`: whether fenced, whether shutting down."""
        topics = {
            name: SimpleNamespace(partitions={number: SimpleNamespace(leader=each, replicas=(1, 2)) for number, each in enumerate(of)})
            for name, of in leaders.items()
        }
        known = {number: SimpleNamespace(fenced=fenced, in_controlled_shutdown=leaves) for number, (fenced, leaves) in brokers.items()}
        self.image = SimpleNamespace(topics=SimpleNamespace(by_name=topics), cluster=SimpleNamespace(brokers=known))
        if hasattr(self, "kraft"):
            self.kraft.image = self.image

    def said(self, *names: str) -> list[int]:
        return [only(self.registry, CONTROLLER + name) for name in names]

    def elect(self, leader: int, *, isr: Iterable[int], elr: Iterable[int] = (), before: int = 1) -> None:
        was = SimpleNamespace(leader=before, isr=tuple(isr), elr=tuple(elr))
        topic = SimpleNamespace(image=SimpleNamespace(partitions={0: was}), partition_changes={0: SimpleNamespace(leader=leader)})
        delta = SimpleNamespace(topics=SimpleNamespace(changed_topics={UUID(int=1): topic}))
        self.source.publish(cast(Any, delta), cast(Any, None), cast(Any, None))


def test_partitions_and_brokers_of_the_cluster_come_and_go() -> None:
    world = Cluster()
    partitions = ("GlobalTopicCount", "GlobalPartitionCount", "OfflinePartitionsCount", "PreferredReplicaImbalanceCount")
    brokers = ("ActiveBrokerCount", "FencedBrokerCount", "ControlledShutdownBrokerCount")
    for _ in range(2):
        world.shows({"a": [1, 2, -1], "b": [1, -1]}, {1: (False, False), 2: (True, False), 3: (False, True), 4: (True, True)})
        assert world.said(*partitions) == [2, 5, 2, 3]
        assert world.said(*brokers) == [2, 2, 2]
        assert told(world.registry, CONTROLLER + "BrokerRegistrationState") == {("1",): 30, ("2",): 10, ("3",): 20, ("4",): 10}
        world.shows({"b": [1, 1]}, {1: (False, False)})
        assert world.said(*partitions) == [1, 2, 0, 0]
        assert world.said(*brokers) == [1, 0, 0]
        assert told(world.registry, CONTROLLER + "BrokerRegistrationState") == {("1",): 30}


def test_an_election_is_clean_of_an_eligible_replica_or_unclean() -> None:
    world = Cluster()
    unclean = "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec"
    eligible = "kafka.controller:type=ControllerStats,name=ElectionFromEligibleLeaderReplicasPerSec"

    def counts() -> tuple[int, int]:
        return only(world.registry, unclean), only(world.registry, eligible)

    world.elect(2, isr=(1, 2))
    world.elect(1, isr=(2,), elr=(1,), before=1)
    world.elect(-1, isr=(1,))
    assert counts() == (0, 0)
    world.elect(2, isr=(1,), elr=(2,))
    assert counts() == (0, 1)
    world.elect(2, isr=(1,), elr=(3,))
    assert counts() == (1, 1)
    world.elect(2, isr=(1,), before=-1)
    assert counts() == (2, 1)


def test_each_new_controller_is_counted() -> None:
    world = Cluster()
    assert world.said("NewActiveControllersCount", "ActiveControllerCount") == [0, 0]
    for _ in range(2):
        for told_of in world.kraft.on_leader:
            told_of(None)
    world.kraft.is_active_controller = True
    assert world.said("NewActiveControllersCount", "ActiveControllerCount") == [2, 1]
    world.kraft.is_active_controller = False
    assert world.said("ActiveControllerCount") == [0]


# -- the quorum ------------------------------------------------------------------------------------------------------------------------


def test_where_a_node_stands_in_the_quorum() -> None:
    made, clock = registry(), ManualClock()
    distribution = SimpleNamespace(mean=1.5, largest=4.0)
    progress = SimpleNamespace(observers={7: None, 8: None})
    raft: Any = SimpleNamespace(
        role=RaftRole.FOLLOWER,
        is_voter=True,
        is_leader=False,
        state=SimpleNamespace(voted=None),
        leader_state=lambda: SimpleNamespace(progress=progress),
        log_end=SimpleNamespace(offset=20, epoch=3),
        high_watermark=18,
        voters=SimpleNamespace(current_offset=None, current=SimpleNamespace(ids=(1, 2, 3))),
        leader_id=2,
        epoch=4,
        now_ms=1000,
        election_times_ms=SimpleNamespace(read=lambda now: distribution),
    )
    add_raft(made, cast(Any, SimpleNamespace(raft=raft, controller=None)), clock, Idleness(clock, lambda: 0.0))

    def said(*names: str) -> list[Any]:
        return [only(made, f"kafka.server:type=raft-metrics.{name}") for name in names]

    numbers = ("current-leader", "current-vote", "current-epoch", "high-watermark", "log-end-offset", "log-end-epoch")
    assert said(*numbers) == [2, -1, 4, 18, 20, 3]
    assert said("current-state", "number-of-voters", "number-of-observers", "uncommitted-voter-change") == ["follower", 3, 0, 0]
    raft.voters.current_offset = 18
    assert said("uncommitted-voter-change") == [1]
    raft.high_watermark = 19
    assert said("uncommitted-voter-change") == [0]
    raft.is_voter = False
    assert said("current-state") == ["observer"]
    raft.role, raft.is_voter, raft.is_leader, raft.state.voted = RaftRole.LEADER, True, True, SimpleNamespace(id=1)
    assert said("current-state", "current-vote", "number-of-observers") == ["leader", 1, 2]
    del progress.observers[7]
    assert said("number-of-observers") == [1]
    assert said("election-latency-avg", "election-latency-max") == [1.5, 4.0]


def test_records_are_those_of_a_leader_or_of_a_follower() -> None:
    made, clock = registry(), ManualClock()
    raft: Any = SimpleNamespace(is_leader=False, log_end=SimpleNamespace(offset=0))
    add_raft(made, cast(Any, SimpleNamespace(raft=raft, controller=None)), clock, Idleness(clock, lambda: 0.0))
    for leads in (False, True, False):
        raft.is_leader = leads
        for _ in range(200):
            clock.advance_s(5)
            raft.log_end.offset += 50
            rates = [only(made, f"kafka.server:type=raft-metrics.{name}-records-rate") for name in ("append", "fetch")]
        assert rates == [pytest.approx(10 * leads, abs=0.1), pytest.approx(10 * (not leads), abs=0.1)]


def test_how_far_a_node_has_read_the_metadata() -> None:
    made, clock = registry(), ManualClock()
    provenance = SimpleNamespace(last_contained_offset=40, last_contained_log_time_ms=clock.time_ms() - 250)
    features = SimpleNamespace(finalized={"group.version": 1, "eligible.leader.replicas.version": 0}, metadata_version=25)
    kraft: Any = SimpleNamespace(
        image=SimpleNamespace(provenance=provenance, features=features),
        high_watermark=43,
        names_static_voters=True,
        kraft_version=0,
        snapshots=SimpleNamespace(written_bytes=77, written_s_ago=1.5),
        leader_and_epoch=SimpleNamespace(leader_id=3),
        loader=SimpleNamespace(snapshots_loaded=6),
    )
    add_metadata(made, kraft, clock, broker=True, controller=True)
    broker = "kafka.server:type=broker-metadata-metrics.last-applied-record-"
    assert [only(made, broker + name) for name in ("offset", "lag-ms")] == [40, 250]
    names = ("LastAppliedRecordOffset", "LastCommittedRecordOffset", "LastAppliedRecordLagMs")
    assert [only(made, CONTROLLER + name) for name in names] == [40, 42, 250]
    emitter = "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGenerated"
    assert [only(made, emitter + name) for name in ("Bytes", "AgeMs")] == [77, 1500]
    loader = "kafka.server:type=MetadataLoader,name="
    assert [only(made, loader + name) for name in ("CurrentControllerId", "CurrentMetadataVersion", "HandleLoadSnapshotCount")] == [
        3,
        25,
        6,
    ]
    assert told(made, loader + "FinalizedLevel") == {("groupVersion",): 1, ("eligibleLeaderReplicasVersion",): 0}
    ignored = "kafka.server:type=broker-metadata-metrics.ignored-static-voters"
    assert only(made, ignored) == 0
    kraft.kraft_version = 1
    assert only(made, ignored) == 1
    kraft.names_static_voters = False
    assert only(made, ignored) == 0
    provenance.last_contained_log_time_ms = -1
    assert only(made, broker + "lag-ms") == 0, "nothing was read yet"
    kraft.high_watermark = 0
    assert only(made, CONTROLLER + "LastCommittedRecordOffset") == -1
