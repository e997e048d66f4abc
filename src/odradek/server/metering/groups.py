"""Metrics of the group and transaction coordinators; zeros before these exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from odradek.coordinator.group.group import GroupType
from odradek.server.metering.network import LastMinute

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.group.settings import GroupCounts
    from odradek.coordinator.group.shard import GroupShard
    from odradek.coordinator.transaction.service import TransactionCoordinator
    from odradek.metrics.histogram import Distribution
    from odradek.metrics.registry import Registry, Series
    from odradek.server.cluster.coordinators import Coordinators

_CLASSIC: Final = {
    "PreparingRebalance": "PreparingRebalance",
    "CompletingRebalance": "CompletingRebalance",
    "Stable": "Stable",
    "Dead": "Dead",
    "Empty": "Empty",
}
"""State of a classic group -> suffix of its metric's name."""
_CONSUMER: Final = {"Empty": "empty", "Assigning": "assigning", "Reconciling": "reconciling", "Stable": "stable", "Dead": "dead"}
"""State of a consumer group -> its tag."""
_AT_ONCE: Final = 1000


def _add_load_times(
    registry: Registry, prefix: str, service: Callable[[], GroupCoordinator | TransactionCoordinator | None], clock: Clock
) -> None:
    def read(of: Callable[[Distribution], float]) -> Iterator[Series]:
        made = service()
        yield (), (), 0 if made is None else of(made.runtime.load_times_ms.read(clock.monotonic()))

    registry.add(prefix + "partition-load-time-max", lambda: read(lambda times: times.largest))
    registry.add(prefix + "partition-load-time-avg", lambda: read(lambda times: times.mean))


def add_groups(registry: Registry, coordinators: Callable[[], Coordinators | None], clock: Clock) -> None:
    """Register the metrics of groups, by protocol and state, and of transactions. They include uncommitted changes of operations."""

    def shards() -> list[GroupShard]:
        made = coordinators()
        groups = None if made is None else made.made_groups
        return [] if groups is None else groups.runtime.each_active(lambda shard: shard)

    def counts() -> Iterator[tuple[GroupType, str] | None]:
        seen = 0
        for shard in shards():
            for group in list(shard.groups):
                seen += 1
                if seen % _AT_ONCE == 0:
                    yield None
                yield group.type, group.state_name

    def total(wanted: Callable[[GroupType, str], bool]) -> Callable[[], Iterator[Series | None]]:
        def read() -> Iterator[Series | None]:
            found = 0
            for each in counts():
                if each is None:
                    yield None
                else:
                    found += wanted(*each)
            yield (), (), found

        return read

    def by(tag: str, of: Callable[[GroupType, str], str | None], values: tuple[str, ...]) -> Callable[[], Iterator[Series | None]]:
        def read() -> Iterator[Series | None]:
            found = dict.fromkeys(values, 0)
            for each in counts():
                if each is None:
                    yield None
                elif (value := of(*each)) is not None:
                    found[value] = found.get(value, 0) + 1
            for value, count in found.items():
                yield (tag,), (value,), count

        return read

    manager = "kafka.coordinator.group:type=GroupMetadataManager,name="
    registry.add(manager + "NumGroups", total(lambda type_, state: True))
    registry.add(manager + "NumOffsets", lambda: [((), (), sum(len(shard.offsets.offsets) for shard in shards()))])
    for state, name in _CLASSIC.items():

        def is_in(type_: GroupType, found: str, state: str = state) -> bool:
            return type_ is GroupType.CLASSIC and found == state

        registry.add(f"{manager}NumGroups{name}", total(is_in))
    own = "kafka.server:type=group-coordinator-metrics."
    registry.add(own + "group-count", by("protocol", lambda type_, state: type_.value, ("classic", "consumer")))
    registry.add(
        own + "consumer-group-count",
        by("state", lambda type_, state: _CONSUMER.get(state) if type_ is GroupType.CONSUMER else None, tuple(_CONSUMER.values())),
    )

    def counted(name: str, of: Callable[[GroupCounts], int]) -> None:
        def read() -> Iterator[Series]:
            made = coordinators()
            groups = None if made is None else made.made_groups
            yield (), (), 0 if groups is None else of(groups.counts)

        registry.add(own + name + "-count", read)
        rate = LastMinute(lambda: sum(int(value) for _, _, value in read() if isinstance(value, int)), clock)
        registry.add(own + name + "-rate", lambda: [((), (), rate.read())])

    counted("offset-commit", lambda counts: counts.commits)
    counted("offset-deletion", lambda counts: counts.deletions)
    counted("offset-expiration", lambda counts: counts.expirations)
    counted("group-completed-rebalance", lambda counts: counts.classic_rebalances)
    counted("consumer-group-rebalance", lambda counts: counts.consumer_rebalances)
    _add_load_times(registry, own, lambda: None if (made := coordinators()) is None else made.made_groups, clock)
    theirs = "kafka.server:type=transaction-coordinator-metrics."
    _add_load_times(registry, theirs, lambda: None if (made := coordinators()) is None else made.made_transactions, clock)

    def partitions() -> Iterator[Series]:
        made = coordinators()
        groups = None if made is None else made.made_groups
        states = {"loading": 0, "active": 0, "failed": 0}
        if groups is not None:
            for state in groups.runtime.states():
                states[state] = states.get(state, 0) + 1
        for state, count in states.items():
            yield ("state",), (state,), count

    registry.add(own + "num-partitions", partitions)

    def transactional_ids() -> Iterator[Series]:
        made = coordinators()
        service = None if made is None else made.made_transactions
        found = [] if service is None else service.runtime.each_active(lambda shard: len(shard.transactions))
        yield (), (), sum(found)

    def markers() -> Iterator[Series]:
        made = coordinators()
        service = None if made is None else made.made_transactions
        yield (), (), 0 if service is None else service.unknown_destinations

    channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    registry.add(channel + "UnknownDestinationQueueSize", markers)
    registry.add(channel + "LogAppendRetryQueueSize", lambda: [((), (), 0)])
    registry.add("kafka.server:type=transaction-coordinator-metrics.transactional-id-count", transactional_ids)
