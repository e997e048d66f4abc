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
    _gauge(_GROUP, "NumGroups", "Groups of all kinds that are coordinated here."),
    _gauge(_GROUP, "NumOffsets", "Offsets that groups coordinated here have committed."),
    *(_gauge(_GROUP, f"NumGroups{state}", f"Classic groups in state {state}.") for state in _CLASSIC_STATES),
    _attribute("group-count", "Groups by protocol.", ("protocol",)),
    _attribute("consumer-group-count", "Consumer groups by state.", ("state",)),
    _attribute("offset-commit-rate", "A second, over the last minute: offsets that are committed."),
    _attribute("offset-commit-count", "Offsets that were committed."),
    _attribute("offset-deletion-rate", "A second, over the last minute: offsets that are deleted."),
    _attribute("offset-deletion-count", "Offsets that were deleted by request."),
    _attribute("offset-expiration-rate", "A second, over the last minute: offsets that expire."),
    _attribute("offset-expiration-count", "Offsets that expired."),
    _attribute("group-completed-rebalance-rate", "A second, over the last minute: generations of classic groups that begin."),
    _attribute("group-completed-rebalance-count", "Generations of classic groups that began with members."),
    _attribute("consumer-group-rebalance-rate", "A second, over the last minute: epochs of consumer groups that begin."),
    _attribute("consumer-group-rebalance-count", "Epochs of consumer groups that began."),
    _attribute("partition-load-time-max", "The longest load of a partition of __consumer_offsets in the last minutes, ms."),
    _attribute("partition-load-time-avg", "The mean of these times, ms."),
    _attribute("num-partitions", "Partitions of __consumer_offsets by state.", ("state",)),
    Metric(
        "kafka.coordinator.transaction",
        "TransactionMarkerChannelManager",
        "UnknownDestinationQueueSize",
        Kind.GAUGE,
        "Markers of transactions that wait for a leader of their partition.",
    ),
    Metric(
        "kafka.coordinator.transaction",
        "TransactionMarkerChannelManager",
        "LogAppendRetryQueueSize",
        Kind.GAUGE,
        "Zero: what could not be appended is decided anew.",
    ),
    *(
        Metric(_SERVER, "transaction-coordinator-metrics", f"partition-load-time-{which}", Kind.GAUGE, text, attribute=True)
        for which, text in (
            ("max", "The longest load of a partition of __transaction_state in the last minutes, ms."),
            ("avg", "The mean of these times, ms."),
        )
    ),
    Metric(
        "kafka.server",
        "transaction-coordinator-metrics",
        "transactional-id-count",
        Kind.GAUGE,
        "Transactional ids coordinated here.",
        attribute=True,
    ),
)
"""Metrics of the coordinators in the order of the text output."""
