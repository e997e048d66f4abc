"""How far a streaming query is behind: what the connector reports as metrics of its source.

Spark asks no source in Python for metrics (its `MicroBatchStream` of such a source is no `ReportsSourceMetrics`, up to 4.3), but the
progress of a query has the offsets that they are made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odradek.spark.ranges import TOPIC_IDS


def offsets_behind_latest(progress: Mapping[str, Any]) -> list[dict[str, float]]:
    """The connector's `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest`, of each source of a query.

    `progress` is an entry of `query.recentProgress`, `query.lastProgress`, or parsed from `progress.json`. Partitions that were read
    count; nothing is said of a source before its first micro-batch, or of one that is not ours.
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
    """The offset of each partition; none of an offset that has another form than ours."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    try:
        return {
            (topic, number): int(each) for topic, partitions in parsed.items() if topic != TOPIC_IDS for number, each in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}
