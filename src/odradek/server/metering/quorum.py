"""Metrics of the metadata quorum, and of the cluster in the metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.consensus.states import Role
from odradek.metadata.features import supported_features
from odradek.metrics.histogram import Distribution
from odradek.metrics.registry import by
from odradek.server.metering.network import Idleness, LastMinute

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.controller.kraft.node import KRaftNode
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage, TopicsImage
    from odradek.metrics.registry import Registry, Series, Value

_STATES = {
    Role.UNATTACHED: "unattached",
    Role.VOTED: "voted",
    Role.PROSPECTIVE: "prospective",
    Role.CANDIDATE: "candidate",
    Role.LEADER: "leader",
    Role.FOLLOWER: "follower",
    Role.RESIGNED: "resigned",
}
_TOPICS_AT_ONCE = 200


def add_raft(registry: Registry, kraft: KRaftNode, clock: Clock, idleness: Idleness) -> None:
    """Register raft-metrics."""

    def add(name: str, of: Callable[[], Value]) -> None:
        registry.add(f"kafka.server:type=raft-metrics.{name}", lambda: [((), (), of())])

    def state() -> str:
        word = _STATES[raft.role]
        return "observer" if not raft.is_voter and word in ("follower", "unattached") else word

    def vote() -> int:
        voted = raft.state.voted
        return -1 if voted is None else voted.id

    def observers() -> int:
        leading = raft.leader_state() if raft.is_leader else None
        return 0 if leading is None else len(leading.progress.observers)

    def grown(*, leading: bool) -> Callable[[], int]:
        """Return a counter of the log's records while this node leads, or while it does not."""
        seen, counted = raft.log_end.offset, 0

        def count() -> int:
            nonlocal seen, counted
            end = raft.log_end.offset
            if raft.is_leader is leading:
                counted += max(end - seen, 0)
            seen = end
            return counted

        return count

    def changing() -> int:
        offset = raft.voters.current_offset
        return int(offset is not None and offset >= 0 and offset >= raft.high_watermark)

    raft = kraft.raft
    add("append-records-rate", LastMinute(grown(leading=True), clock).read)
    add("fetch-records-rate", LastMinute(grown(leading=False), clock).read)
    add("poll-idle-ratio-avg", idleness.share)
    add("number-unknown-voter-connections", lambda: 0)
    add("uncommitted-voter-change", changing)
    add("current-state", state)
    add("current-leader", lambda: raft.leader_id)
    add("current-vote", vote)
    add("current-epoch", lambda: raft.epoch)
    add("high-watermark", lambda: raft.high_watermark)
    add("log-end-offset", lambda: raft.log_end.offset)
    add("log-end-epoch", lambda: raft.log_end.epoch)
    add("number-of-voters", lambda: len(raft.voters.current.ids))
    add("number-of-observers", observers)

    def commits() -> Distribution:
        return Distribution() if kraft.controller is None else kraft.controller.commit_times_ms.read(clock.monotonic())

    add("commit-latency-avg", lambda: commits().mean)
    add("commit-latency-max", lambda: commits().largest)
    # Raft's own clock counts monotonic milliseconds.
    add("election-latency-avg", lambda: raft.election_times_ms.read(raft.now_ms / 1000).mean)
    add("election-latency-max", lambda: raft.election_times_ms.read(raft.now_ms / 1000).largest)


def add_metadata(registry: Registry, kraft: KRaftNode, clock: Clock, *, broker: bool, controller: bool) -> None:
    """Register the position of this node in the metadata log, and related metrics."""

    def offset() -> int:
        return kraft.image.provenance.last_contained_offset

    def timestamp() -> int:
        return kraft.image.provenance.last_contained_log_time_ms

    def lag() -> int:
        return max(clock.time_ms() - timestamp(), 0) if timestamp() >= 0 else 0

    def committed() -> int:
        return max(kraft.high_watermark - 1, -1)

    def add(key: str, of: Callable[[], int]) -> None:
        registry.add(key, lambda: [((), (), of())])

    if broker:
        own = "kafka.server:type=broker-metadata-metrics."
        add(own + "last-applied-record-offset", offset)
        add(own + "last-applied-record-timestamp", timestamp)
        add(own + "last-applied-record-lag-ms", lag)
        add(own + "ignored-static-voters", lambda: ignores_static_voters(kraft))
        add(own + "metadata-load-error-count", lambda: kraft.loader.load_errors)
        add(own + "metadata-apply-error-count", lambda: kraft.loader.apply_errors)
    if controller:
        its = "kafka.controller:type=KafkaController,name="
        add(its + "MetadataErrorCount", lambda: kraft.loader.load_errors + kraft.loader.apply_errors)
        add(its + "LastAppliedRecordOffset", offset)
        add(its + "LastCommittedRecordOffset", committed)
        add(its + "LastAppliedRecordTimestamp", timestamp)
        add(its + "LastAppliedRecordLagMs", lag)
    emitter = "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGenerated"
    add(emitter + "Bytes", lambda: kraft.snapshots.written_bytes)
    add(emitter + "AgeMs", lambda: int(kraft.snapshots.written_s_ago * 1000))
    add("kafka.server:type=MetadataLoader,name=CurrentControllerId", lambda: kraft.leader_and_epoch.leader_id)
    registry.add(
        "kafka.server:type=MetadataLoader,name=FinalizedLevel",
        lambda: by("featureName", {_camel(name): level for name, level in kraft.image.features.finalized.items()}),
    )
    add("kafka.server:type=MetadataLoader,name=CurrentMetadataVersion", lambda: kraft.image.features.metadata_version or 0)
    add("kafka.server:type=MetadataLoader,name=HandleLoadSnapshotCount", lambda: kraft.loader.snapshots_loaded)


def _camel(name: str) -> str:
    """Return eligibleLeaderReplicasVersion for eligible.leader.replicas.version, as in this metric."""
    first, *others = name.split(".")
    return first + "".join(word.capitalize() for word in others)


def ignores_static_voters(kraft: KRaftNode) -> int:
    """Return 1 when the configuration names voters but the quorum uses the voters in its log, else 0."""
    return int(kraft.names_static_voters and kraft.kraft_version >= 1)


def add_rules(registry: Registry, kraft: KRaftNode) -> None:
    """Register the number of ACLs, and the feature levels that this node supports."""
    registry.add("kafka.server:type=authorizer-metrics.acls-total-count", lambda: [((), (), len(kraft.image.acls.entries))])
    levels = supported_features()
    node = "kafka.server:type=node-metrics."
    registry.add(
        node + "maximum-supported-level",
        lambda: by("feature-name", {name.replace(".", "-"): each.maximum for name, each in levels.items()}),
    )
    registry.add(
        node + "minimum-supported-level",
        lambda: by("feature-name", {name.replace(".", "-"): each.minimum for name, each in levels.items()}),
    )


class Counts(NamedTuple):
    """Counts over all partitions of the cluster."""

    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0


class ClusterSource:
    """Metrics KafkaController of a controller, and a `MetadataPublisher` that counts elections on active and standby controllers."""

    def __init__(self, kraft: KRaftNode, clock: Clock) -> None:
        self._kraft = kraft
        self._clock = clock
        self._counts = Counts()
        self._counted: TopicsImage | None = None
        self.unclean = 0
        self.eligible = 0
        self._leaders = 0
        kraft.on_leader.append(self._led)

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        for topic in delta.topics.changed_topics.values():
            before = topic.image.partitions
            for number, after in topic.partition_changes.items():
                was = before.get(number)
                if was is not None and after.leader >= 0 and after.leader != was.leader:
                    self.unclean += after.leader not in was.isr and after.leader not in was.elr
                    self.eligible += after.leader not in was.isr and after.leader in was.elr

    def _led(self, leader: object) -> None:
        self._leaders += 1

    def _states(self) -> Iterator[Series]:
        for broker_id, broker in self._kraft.image.cluster.brokers.items():
            yield ("broker",), (str(broker_id),), 10 if broker.fenced else 20 if broker.in_controlled_shutdown else 30

    def _silent(self) -> Iterator[Series]:
        controller = self._kraft.controller
        if controller is not None and controller.is_active:
            for broker_id, seconds in controller.core.context.heartbeats.silent_for(self._clock.monotonic()).items():
                yield ("broker",), (str(broker_id),), max(int(seconds * 1000), 0)

    def add_to(self, registry: Registry) -> None:
        kraft = self._kraft
        its = "kafka.controller:type=KafkaController,name="

        def add(name: str, of: Callable[[], int]) -> None:
            registry.add(its + name, lambda: [((), (), of())])

        def count(name: str, of: Callable[[Counts], int]) -> None:
            registry.add(its + name, lambda: self._count(of))

        add("ActiveControllerCount", lambda: int(kraft.is_active_controller))
        add("ActiveBrokerCount", lambda: sum(not broker.fenced for broker in kraft.image.cluster.brokers.values()))
        add("FencedBrokerCount", lambda: sum(broker.fenced for broker in kraft.image.cluster.brokers.values()))
        add("ControlledShutdownBrokerCount", lambda: sum(each.in_controlled_shutdown for each in kraft.image.cluster.brokers.values()))
        add("IgnoredStaticVoters", lambda: ignores_static_voters(kraft))
        registry.add(its + "BrokerRegistrationState", self._states)
        registry.add(its + "TimeSinceLastHeartbeatReceivedMs", self._silent)
        add("NewActiveControllersCount", lambda: self._leaders)
        add("EventQueueOperationsStartedCount", lambda: kraft.processing_times_ms.read(self._clock.monotonic()).count)
        add("EventQueueOperationsTimedOutCount", lambda: 0)
        add("TimedOutBrokerHeartbeatCount", lambda: 0)
        stats = "kafka.controller:type=ControllerStats,name="
        registry.add(stats + "ElectionFromEligibleLeaderReplicasPerSec", lambda: [((), (), self.eligible)])
        add("GlobalTopicCount", lambda: len(kraft.image.topics.by_name))
        count("GlobalPartitionCount", lambda counts: counts.partitions)
        count("OfflinePartitionsCount", lambda counts: counts.offline)
        count("PreferredReplicaImbalanceCount", lambda counts: counts.imbalanced)
        events = "kafka.controller:type=ControllerEventManager,name=EventQueue"
        registry.add(events + "TimeMs", lambda: [((), (), kraft.queue_times_ms.read(self._clock.monotonic()))])
        registry.add(events + "ProcessingTimeMs", lambda: [((), (), kraft.processing_times_ms.read(self._clock.monotonic()))])
        registry.add("kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec", lambda: [((), (), self.unclean)])

    def _count(self, of: Callable[[Counts], int]) -> Iterator[Series | None]:
        topics = self._kraft.image.topics
        if topics is not self._counted:
            partitions = offline = imbalanced = 0
            for number, topic in enumerate(list(topics.by_name.values())):
                if number % _TOPICS_AT_ONCE == _TOPICS_AT_ONCE - 1:
                    yield None
                for partition in topic.partitions.values():
                    partitions += 1
                    if partition.leader < 0:
                        offline += 1
                    if partition.leader != partition.replicas[0]:
                        imbalanced += 1
            self._counts, self._counted = Counts(partitions, offline, imbalanced), topics
        yield (), (), of(self._counts)
