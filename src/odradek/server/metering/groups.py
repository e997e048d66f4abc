"""Metrics of the group and transaction coordinators; zeros before these exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from odradek.coordinator.group.group import GroupType
from odradek.metrics.registry import by, one, read_one
from odradek.server.metering.network import LastMinute

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.coordinator.group.group import Group
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.group.settings import GroupCounts
    from odradek.coordinator.group.shard import GroupShard
    from odradek.coordinator.transaction.service import TransactionCoordinator
    from odradek.metrics.histogram import Distribution
    from odradek.metrics.registry import Registry, Series
    from odradek.server.cluster.coordinators import Coordinators

_CLASSIC: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
"""States of classic groups, as in the names of their metrics."""
_CONSUMER: Final = {"Empty": "empty", "Assigning": "assigning", "Reconciling": "reconciling", "Stable": "stable", "Dead": "dead"}
"""State of a consumer group -> its tag."""
_COUNTS: Final[Mapping[str, Callable[[GroupCounts], int]]] = {
    "offset-commit": lambda counts: counts.commits,
    "offset-deletion": lambda counts: counts.deletions,
    "offset-expiration": lambda counts: counts.expirations,
    "group-completed-rebalance": lambda counts: counts.classic_rebalances,
    "consumer-group-rebalance": lambda counts: counts.consumer_rebalances,
}
_GROUPS: Final = "kafka.server:type=group-coordinator-metrics."
_TRANSACTIONS: Final = "kafka.server:type=transaction-coordinator-metrics."
_AT_ONCE: Final = 1000


def add_groups(registry: Registry, coordinators: Callable[[], Coordinators | None], clock: Clock) -> None:
    """Register the metrics of groups, by protocol and state, and of transactions. They include uncommitted changes of operations."""

    def groups() -> GroupCoordinator | None:
        made = coordinators()
        return None if made is None else made.made_groups

    def transactions() -> TransactionCoordinator | None:
        made = coordinators()
        return None if made is None else made.made_transactions

    _add_states(registry, groups)
    for name, of in _COUNTS.items():
        _add_count(registry, name, groups, of, clock)
    _add_load_times(registry, _GROUPS, groups, clock)
    registry.add(_GROUPS + "num-partitions", lambda: by("state", _partition_states(groups())))
    _add_load_times(registry, _TRANSACTIONS, transactions, clock)
    registry.add(
        _TRANSACTIONS + "transactional-id-count",
        read_one(transactions, lambda made: sum(made.runtime.each_active(lambda shard: len(shard.transactions))), 0),
    )
    channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    registry.add(channel + "UnknownDestinationQueueSize", read_one(transactions, lambda made: made.unknown_destinations, 0))
    registry.add(channel + "LogAppendRetryQueueSize", lambda: one(0))


def _add_states(registry: Registry, coordinator: Callable[[], GroupCoordinator | None]) -> None:
    """Register the numbers of groups by protocol and state, and the number of offsets."""

    def shards() -> list[GroupShard]:
        made = coordinator()
        return [] if made is None else made.runtime.each_active(lambda shard: shard)

    def count(key: str, of: Callable[[Group], str | None], values: tuple[str, ...] = ("",), tag: str = "") -> None:
        """Register the number of groups for each value that `of` returns, except None; without `tag` there is one value, ""."""

        def read() -> Iterator[Series | None]:
            found = dict.fromkeys(values, 0)
            for number, group in enumerate((each for shard in shards() for each in list(shard.groups)), 1):
                if number % _AT_ONCE == 0:
                    yield None
                if (value := of(group)) is not None:
                    found[value] = found.get(value, 0) + 1
            yield from by(tag, found) if tag else one(found[""])

        registry.add(key, read)

    manager = "kafka.coordinator.group:type=GroupMetadataManager,name="
    registry.add(manager + "NumOffsets", lambda: one(sum(len(shard.offsets.offsets) for shard in shards())))
    count(manager + "NumGroups", lambda group: "")
    for state in _CLASSIC:

        def is_in(group: Group, state: str = state) -> str | None:
            return "" if group.type is GroupType.CLASSIC and group.state_name == state else None

        count(f"{manager}NumGroups{state}", is_in)
    count(_GROUPS + "group-count", lambda group: group.type.value, ("classic", "consumer"), "protocol")

    def consumer_state(group: Group) -> str | None:
        return _CONSUMER.get(group.state_name) if group.type is GroupType.CONSUMER else None

    count(_GROUPS + "consumer-group-count", consumer_state, tuple(_CONSUMER.values()), "state")


def _add_count(
    registry: Registry, name: str, groups: Callable[[], GroupCoordinator | None], of: Callable[[GroupCounts], int], clock: Clock
) -> None:
    """Register a count of the group coordinator and its rate over the last minute."""

    def value() -> int:
        made = groups()
        return 0 if made is None else of(made.counts)

    rate = LastMinute(value, clock)
    registry.add(f"{_GROUPS}{name}-count", lambda: one(value()))
    registry.add(f"{_GROUPS}{name}-rate", lambda: one(rate.read()))


def _add_load_times(
    registry: Registry, prefix: str, service: Callable[[], GroupCoordinator | TransactionCoordinator | None], clock: Clock
) -> None:
    def times() -> Distribution | None:
        made = service()
        return None if made is None else made.runtime.load_times_ms.read(clock.monotonic())

    registry.add(prefix + "partition-load-time-max", read_one(times, lambda read: read.largest, 0))
    registry.add(prefix + "partition-load-time-avg", read_one(times, lambda read: read.mean, 0))


def _partition_states(groups: GroupCoordinator | None) -> dict[str, int]:
    states = {"loading": 0, "active": 0, "failed": 0}
    for state in () if groups is None else groups.runtime.states():
        states[state] = states.get(state, 0) + 1
    return states
