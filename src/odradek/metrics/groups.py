"""Metrics of the group coordinator and the transaction coordinator."""

from __future__ import annotations

from typing import Final

from odradek.metrics.names import Kind, Metric

_SERVER: Final = "kafka.server"
_GROUP: Final = "GroupMetadataManager"
_CLASSIC_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


def _gauge(type_: str, name: str, text: str) -> Metric:
    return Metric("kafka.coordinator.group", type_, name, Kind.GAUGE, text)


def _attribute(name: str, text: str, tags: tuple[str, ...] = ()) -> Metric:
    return Metric("kafka.server", "group-coordinator-metrics", name, Kind.GAUGE, text, tags, attribute=True)


GROUPS: Final = (
    _gauge(_GROUP, "NumGroups", "Groups of all types that this broker coordinates."),
    _gauge(_GROUP, "NumOffsets", "Committed offsets of the groups that this broker coordinates."),
    *(_gauge(_GROUP, f"NumGroups{state}", f"Classic groups in state {state}.") for state in _CLASSIC_STATES),
    _attribute("group-count", "Groups by protocol.", ("protocol",)),
    _attribute("consumer-group-count", "Consumer groups by state.", ("state",)),
    _attribute("offset-commit-rate", "Committed offsets a second, over the last minute."),
    _attribute("offset-commit-count", "Committed offsets."),
    _attribute("offset-deletion-rate", "Offsets a second that are deleted, over the last minute."),
    _attribute("offset-deletion-count", "Offsets deleted by request."),
    _attribute("offset-expiration-rate", "Offsets a second that expire, over the last minute."),
    _attribute("offset-expiration-count", "Expired offsets."),
    _attribute("group-completed-rebalance-rate", "Generations a second that classic groups begin, over the last minute."),
    _attribute("group-completed-rebalance-count", "Generations with members that classic groups have begun."),
    _attribute("consumer-group-rebalance-rate", "Epochs a second that consumer groups begin, over the last minute."),
    _attribute("consumer-group-rebalance-count", "Epochs that consumer groups have begun."),
    _attribute("partition-load-time-max", "Longest time to load a partition of __consumer_offsets in the last minutes, ms."),
    _attribute("partition-load-time-avg", "Mean time to load a partition, ms."),
    _attribute("num-partitions", "Partitions of __consumer_offsets by state.", ("state",)),
    Metric(
        "kafka.coordinator.transaction",
        "TransactionMarkerChannelManager",
        "UnknownDestinationQueueSize",
        Kind.GAUGE,
        "Transaction markers that wait for a leader of their partition.",
    ),
    Metric(
        "kafka.coordinator.transaction",
        "TransactionMarkerChannelManager",
        "LogAppendRetryQueueSize",
        Kind.GAUGE,
        "Zero: a write that failed is not retried, its operation runs again.",
    ),
    *(
        Metric(_SERVER, "transaction-coordinator-metrics", f"partition-load-time-{which}", Kind.GAUGE, text, attribute=True)
        for which, text in (
            ("max", "Longest time to load a partition of __transaction_state in the last minutes, ms."),
            ("avg", "Mean time to load a partition, ms."),
        )
    ),
    Metric(
        "kafka.server",
        "transaction-coordinator-metrics",
        "transactional-id-count",
        Kind.GAUGE,
        "Transactional ids that this broker coordinates.",
        attribute=True,
    ),
)
"""Metrics of the coordinators in the order of the text output."""
