"""Records that librdkafka's idempotent producer writes twice, and that a broker cannot prevent.

While leadership moves, the next leader refuses requests until it has replayed the change (NOT_LEADER_OR_FOLLOWER). It accepts a request
that comes a moment later, and finds that the requests before it are missing: OUT_OF_ORDER_SEQUENCE_NUMBER. A Java producer waits for those
requests and sends the request again unchanged. librdkafka 2.16 takes a new producer epoch for all records without an acknowledgement. It
writes again the records that the former leader had appended and could no longer acknowledge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek.records.batch import BatchHeader, iter_headers

_REFUSED = re.compile(
    r"for producer (?P<producer>\d+) at offset (?P<offset>\d+) in partition (?P<partition>\S+): \d+ \(incoming seq\. number\), "
    r"(?P<end>\d+) \(current end sequence number\)"
)


class Refusal(NamedTuple):
    """Batch of an idempotent producer that a JVM broker refused. Its offset would have been `offset`, and it does not follow the sequence
    `end`.
    """

    producer_id: int
    offset: int
    end: int
    """Last sequence of the producer that the broker had."""


def refusals(jvm_log: str, partition: str) -> list[Refusal]:
    """Return the refusals of one partition ("topic-0") in a JVM broker's log."""
    found = _REFUSED.finditer(jvm_log)
    return [Refusal(int(each["producer"]), int(each["offset"]), int(each["end"])) for each in found if each["partition"] == partition]


def headers(folder: Path) -> list[BatchHeader]:
    """Return the headers of all batches in a partition's folder, in order."""
    return [header for path in sorted(folder.glob("*.log")) for _, header in iter_headers(path.read_bytes())]


def is_the_clients(first: int, second: int, batches: Iterable[BatchHeader], refused: Sequence[Refusal]) -> bool:
    """Return whether the client has written the record at `first` again at `second`.

    Then the second record is in the producer's next epoch, after a refusal by a leader that had the first record.
    """
    holding = [
        header
        for header in batches
        if header.base_offset <= first <= header.last_offset or header.base_offset <= second <= header.last_offset
    ]
    if len(holding) != 2:
        return False
    one, other = holding
    if one.producer_id != other.producer_id or one.producer_epoch + 1 != other.producer_epoch:
        return False
    sequence = one.base_sequence + first - one.base_offset
    return any(each.producer_id == one.producer_id and first < each.offset <= second and each.end >= sequence for each in refused)
