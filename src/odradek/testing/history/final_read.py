"""Final read: after all faults have ended, a new client reads everything from the beginning. Its polls are the end of the history.

with Recorder(directory / "final.jsonl", "final") as recorder:
    final_read(bootstrap_servers, ["in", "out"], recorder)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client import Consumer
from odradek.testing.history.events import Assigned, Poll, Value
from odradek.testing.history.recorder import Recorder


class FinalReadIncomplete(OdradekError):
    """Final read that did not end in time; the message names the partitions and their positions."""


def decode_value(data: bytes) -> Value:
    """Return the value of a record's bytes: an int for a decimal number without leading zeros, otherwise a str (UTF-8)."""
    text = data.decode()
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


def final_read(
    bootstrap_servers: str,
    topics: Iterable[str],
    recorder: Recorder,
    *,
    read_committed: bool = True,
    decode: Callable[[bytes], Value] = decode_value,
    keys: Callable[[bytes], Value] | None = None,
    timeout: float = 300.0,
) -> int:
    """Read all partitions of the topics up to the end offsets at the beginning of the read, and return the number of records.

    Records "assign" with the partitions and their watermarks, and "poll" with the records read, all with the extra key `final`. Wait until
    all transactions have ended before the call: records above the last stable offset are not read, and become "unseen". `decode` returns
    the value of a record's value bytes; `keys` (for compacted topics) returns the key of its key bytes. Raises FinalReadIncomplete after
    `timeout` seconds.
    """
    isolation = "read_committed" if read_committed else "read_uncommitted"
    settings = {"bootstrap_servers": bootstrap_servers, "auto_offset_reset": "earliest"}
    deadline = time.monotonic() + timeout
    with Consumer(**settings, isolation_level=isolation) as consumer, Consumer(**settings) as watcher:
        partitions = [TopicPartition(topic, number) for topic in topics for number in consumer.partitions_for(topic)]
        starts, stable = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        ends = watcher.end_offsets(partitions)
        marks = [[*each, starts[each], ends[each], stable[each] if read_committed else None] for each in partitions]
        recorder.ok("assign", [Assigned(None, *each, None) for each in partitions], final=True, isolation=isolation, watermarks=marks)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        count = 0
        while behind := [each for each in partitions if consumer.position(each) < stable[each]]:
            if time.monotonic() > deadline:
                places = ", ".join(f"{each} at {consumer.position(each)} of {stable[each]}" for each in behind)
                raise FinalReadIncomplete(f"the final read did not end within {timeout} s: {places}")
            recorder.invoke("poll", final=True, isolation=isolation)
            polls = [
                Poll(record.topic, record.partition, record.offset, decode(record.value or b""), keys(record.key or b"") if keys else None)
                for record in consumer.poll(1000)
            ]
            recorder.ok("poll", polls, final=True, isolation=isolation)
            count += len(polls)
    return count
