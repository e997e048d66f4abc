"""What librdkafka's idempotent producer writes twice, and a broker cannot help.

While leadership moves, the next leader refuses requests until it has read of it (NOT_LEADER_OR_FOLLOWER), takes one that comes a moment
later, and finds that those before it are missing: OUT_OF_ORDER_SEQUENCE_NUMBER. A Java producer waits for those and sends the request again
as it is. librdkafka 2.16 takes a new producer epoch for all that it has no answer for, and so writes again what the former leader had taken
and could not acknowledge any more.
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
    """A JVM broker refused a batch of an idempotent producer: it would have been appended at `offset`, and does not follow on `end`."""

    producer_id: int
    offset: int
    end: int
    """The last sequence that the broker had of the producer."""


def refusals(jvm_log: str, partition: str) -> list[Refusal]:
    """What a JVM broker's log says of it, of one partition ("topic-0")."""
    found = _REFUSED.finditer(jvm_log)
    return [Refusal(int(each["producer"]), int(each["offset"]), int(each["end"])) for each in found if each["partition"] == partition]


def headers(folder: Path) -> list[BatchHeader]:
    """Of all batches in a partition's folder, in order."""
    return [header for path in sorted(folder.glob("*.log")) for _, header in iter_headers(path.read_bytes())]


def is_the_clients(first: int, second: int, batches: Iterable[BatchHeader], refused: Sequence[Refusal]) -> bool:
    """Whether the record at offset `second` is one that the client has written again, after that at `first`: in the producer's next epoch,
    behind a refusal by a leader that had the first.
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
