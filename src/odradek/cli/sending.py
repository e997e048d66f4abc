"""Hands the records of `odradek produce` to a producer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from odradek.base.errors import OdradekError
from odradek.cli.console_reader import Line, LineParser
from odradek.cli.record_lines import Shape
from odradek.client.producer.blocking import Producer
from odradek.client.producer.futures import RecordFuture

_RUN: Final = 10_000


class Sink:
    """Hands records to the producer and keeps an eye on what became of them."""

    def __init__(self, producer: Producer, topic: str, partition: int | None, shape: Shape, sync: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._shape = shape
        self._sync = sync
        self._pending: list[RecordFuture] = []

    def write(self, records: Iterator[bytes]) -> None:
        """Sends records; the KafkaError of the first that failed, as soon as that is known."""
        if self._shape.is_plain and not self._sync:
            self._write_runs(records)
            return
        for record in records:
            key, value = self._shape.key_and_value(record)
            self._send(Line(key, value, self._shape.headers))

    def write_parsed(self, records: Iterator[bytes], parse: LineParser) -> None:
        """Sends lines as `parse` reads them; OdradekError of the first that it refuses, when those before it are acknowledged."""
        for number, record in enumerate(records, 1):
            try:
                line = parse(record, number)
            except OdradekError:
                self.finish()
                raise
            self._send(line)

    def _send(self, line: Line) -> None:
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
            self._keep([future])

    def _write_runs(self, records: Iterator[bytes]) -> None:
        # Typed lines go out one by one; from a file or a pipe whole runs are handed over.
        interactive = sys.stdin.isatty()
        run_: list[bytes | None] = []
        for record in records:
            run_.append(None if self._shape.empty_is_null and not record else record)
            if interactive or len(run_) >= _RUN:
                self._keep(self._producer.send_many(self._topic, run_, partition=self._partition))
                run_ = []
        if run_:
            self._keep(self._producer.send_many(self._topic, run_, partition=self._partition))

    def _keep(self, futures: list[RecordFuture]) -> None:
        self._pending += futures
        if len(self._pending) >= 1000:
            self._check()

    def _check(self) -> None:
        # Each future is looked at once: a record that failed between two looks would be forgotten.
        waiting: list[RecordFuture] = []
        for future in self._pending:
            if future.done():
                future.result()
            else:
                waiting.append(future)
        self._pending = waiting

    def finish(self) -> None:
        """Waits for every acknowledgement."""
        self._producer.flush()
        for future in self._pending:
            future.result()
