"""Lag of a streaming query, which the connector reports as metrics of its source.

Spark (up to 4.3) asks no Python source for metrics: the `MicroBatchStream` of such a source does not implement `ReportsSourceMetrics`. The
progress of a query contains the offsets from which the metrics are calculated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odradek.spark.ranges import TOPIC_IDS


def offsets_behind_latest(progress: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the connector's `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` for each source of a query.

    `progress` is an entry of `query.recentProgress`, `query.lastProgress`, or parsed from `progress.json`. Only partitions that were read
    count. The dict is empty before the first micro-batch, and for other sources than this one.
    """
    return [_behind(source) for source in progress["sources"]]


def _behind(source: Mapping[str, Any]) -> dict[str, float]:
    read, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
    behind = [latest[partition] - offset for partition, offset in read.items() if partition in latest]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": float(min(behind)),
        "maxOffsetsBehindLatest": float(max(behind)),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(offset: Any) -> dict[tuple[str, str], int]:
    """Return the offset of each partition; empty for an offset of another form."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    try:
        return {
            (topic, number): int(each) for topic, partitions in parsed.items() if topic != TOPIC_IDS for number, each in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}
