"""Sending of the records of `odradek produce`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from odradek.base.errors import OdradekError
from odradek.cli.records.console_reader import Line, LineParser
from odradek.cli.records.record_lines import Shape
from odradek.cli.shared.progress import Meter
from odradek.cli.shared.send_rate import Pace
from odradek.client.producer.blocking import Producer
from odradek.client.producer.futures import RecordFuture

_CHUNK: Final = 10_000
_CHECKED: Final = 1_000
"""Smallest number of pending records that are looked through for acknowledgements."""
_CATCH_UP_S: Final = 0.05
"""Seconds of delay that are caught up, because a sleep may last too long."""


class Sending(NamedTuple):
    """Options of sending.

    `sync`: wait for the acknowledgement of each record. `rate`: largest number of records per second. `transaction_size`: records per
    transaction; None for all records in one transaction, if the producer has transactions.
    """

    sync: bool = False
    rate: float | None = None
    transaction_size: int | None = None


class Sink:
    """Sender that hands records to the producer and checks their outcomes."""

    def __init__(self, producer: Producer, topic: str, partition: int | None, shape: Shape, sending: Sending, meter: Meter) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._shape = shape
        self._sync = sending.sync
        self._pace = Pace(sending.rate, catch_up_s=_CATCH_UP_S) if sending.rate is not None else None
        self._paced = 0
        """Number of records that were sent at the pace."""
        self._transaction_size = sending.transaction_size
        self._in_transaction = 0
        self._meter = meter
        self._pending: list[RecordFuture] = []
        self._check_at = _CHECKED
        self.transactions = 0
        """Number of committed transactions, without the open transaction."""

    def write(self, chunks: Iterator[list[bytes]]) -> None:
        """Send records. Raises the KafkaError of the first failed record, when it is known and a part of the later ones has been sent."""
        if self._shape.is_plain and not self._sync and self._pace is None:
            for chunk in chunks:
                self._write_chunk(chunk)
            return
        for record in chain.from_iterable(chunks):
            key, value = self._shape.key_and_value(record)
            self._send(Line(key, value, self._shape.headers))

    def write_parsed(self, chunks: Iterator[list[bytes]], parse: LineParser) -> None:
        """Send the records that `parse` makes of lines.

        Raises the OdradekError of the first line that `parse` refuses, after the earlier records are acknowledged.
        """
        for number, record in enumerate(chain.from_iterable(chunks), 1):
            try:
                line = parse(record, number)
            except OdradekError:
                self.finish()
                raise
            self._send(line)

    def finish(self) -> None:
        """Wait for all acknowledgements. Raises the KafkaError of a failed record."""
        self._producer.flush()
        for future in self._pending:
            future.result()
        self._pending = []
        self._check_at = _CHECKED

    def _send(self, line: Line) -> None:
        if self._pace is not None:
            if pause := self._pace.wait_s(self._paced, time.monotonic()):
                time.sleep(pause)
            self._paced += 1
        future = self._producer.send(
            self._topic,
            line.value,
            key=line.key,
            partition=line.partition if self._partition is None else self._partition,
            headers=line.headers,
            timestamp=line.timestamp,
        )
        if self._sync:
            future.result()
        else:
            self._add_pending([future])
        self._sent(1)

    def _write_chunk(self, chunk: list[bytes]) -> None:
        values: list[bytes | None] = [record or None for record in chunk] if self._shape.empty_is_null else [*chunk]
        while values:
            size = _CHUNK if self._transaction_size is None else min(_CHUNK, self._transaction_size - self._in_transaction)
            part, values = values[:size], values[size:]
            self._add_pending(self._producer.send_many(self._topic, part, partition=self._partition))
            self._sent(len(part))

    def _sent(self, count: int) -> None:
        self._meter.count(count)
        if self._transaction_size is not None:
            self._in_transaction += count
            if self._in_transaction == self._transaction_size:
                self.finish()
                self._producer.commit_transaction()
                self.transactions += 1
                self._in_transaction = 0
                self._producer.begin_transaction()

    def _add_pending(self, futures: list[RecordFuture]) -> None:
        self._pending += futures
        if len(self._pending) >= self._check_at:
            self._check()
            # The cost of a check is proportional to the pending records: check again when their number has doubled.
            self._check_at = max(_CHECKED, 2 * len(self._pending))

    def _check(self) -> None:
        # Test each future only once: with a second test, a record that fails in between would be lost from both lists.
        waiting: list[RecordFuture] = []
        for future in self._pending:
            if future.done():
                future.result()
            else:
                waiting.append(future)
        self._pending = waiting
