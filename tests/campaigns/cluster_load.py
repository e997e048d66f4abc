"""Load on a cluster during a campaign: producers, a reader and a sampler of watermarks, which all record histories.

The producers write to all partitions of one topic; each producer writes its own numbers in order. Half of them use librdkafka, half
Odradek's client. The value of a record is "producer:number|", padded.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaError as RdKafkaError
from confluent_kafka import Message
from confluent_kafka import Producer as RdProducer

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import Consumer, Producer, RecordFuture
from odradek.testing.history import Recorder
from odradek.testing.history.events import Assigned, Poll, Value
from tests.campaigns.kills import CLIENT

TOPIC = "load"
BATCH = 30
MOST_OPEN = 300
"""Maximum number of a producer's open batches."""
DELIVERY_MS = 300_000
REQUEST_MS = 10_000
"""Milliseconds that a producer waits for a node before it asks another node."""
MANY = 2_147_483_647


def decode(data: bytes) -> Value:
    """Return the value of a record without its padding."""
    return data.partition(b"|")[0].decode()


class _Batch:
    """Records that are sent together and are one line of the history."""

    def __init__(self, number: int, values: list[tuple[int, str]]) -> None:
        self.number = number
        self.values = values
        self.offsets: dict[str, int | None] = {}
        self.failed = False

    def sends(self) -> list[list[object]]:
        return [["send", TOPIC, partition, self.offsets.get(value), value] for partition, value in self.values]


class Load(threading.Thread, ABC):
    """Producer thread. `acked`, `sent` and `refused` (its errors) may be read by other threads."""

    def __init__(self, name: str, rate: int, history: Path, partitions: int) -> None:
        super().__init__(name=name, daemon=True)
        self.rate = rate
        self.partitions = partitions
        self.acked = self.sent = 0
        self.refused: list[str] = []
        self.stopping = threading.Event()
        self._recorder = Recorder(history / f"{name}.jsonl", name)
        self._lock = threading.Lock()
        self._open = 0
        self._batches = 0

    def run(self) -> None:
        due = time.monotonic()
        while not self.stopping.is_set():
            if self._open >= MOST_OPEN:
                self._breathe(0.02)
                continue
            self._next()
            due = max(due + BATCH / self.rate, time.monotonic() - 1)
            while (left := due - time.monotonic()) > 0:
                self._breathe(left)
        self._flush()
        self._recorder.close()

    def _next(self) -> None:
        first = self.sent
        batch = _Batch(self._batches, [(number % self.partitions, f"{self.name}:{number}") for number in range(first, first + BATCH)])
        self._batches += 1
        self.sent += BATCH
        self._open += 1
        self._recorder.invoke("send", batch.sends(), id=batch.number)
        for partition, value in batch.values:
            self._send(batch, partition, value, value.encode() + b"|" + b"x" * (batch.number * 37 % 400))

    def _completed(self, batch: _Batch, value: str, offset: int | None, error: str) -> None:
        with self._lock:
            batch.offsets[value] = offset if offset is not None and offset >= 0 else None
            if error:
                batch.failed = True
                self.refused.append(f"{self.name}: {value}: {error}")
            else:
                self.acked += 1
            if len(batch.offsets) < len(batch.values):
                return
            self._open -= 1
        (self._recorder.info if batch.failed else self._recorder.ok)("send", batch.sends(), id=batch.number)

    @abstractmethod
    def _send(self, batch: _Batch, partition: int, value: str, data: bytes) -> None: ...

    @abstractmethod
    def _breathe(self, seconds: float) -> None:
        """Wait for at most `seconds`."""

    @abstractmethod
    def _flush(self) -> None:
        """Wait until all records are acknowledged or have failed."""


class RdLoad(Load):
    """Producer with librdkafka."""

    def __init__(self, name: str, bootstrap: str, rate: int, history: Path, partitions: int, *, acks: str = "all") -> None:
        super().__init__(name, rate, history, partitions)
        self._producer = RdProducer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": acks == "all",
                "acks": acks,
                # Without idempotence, a retry would write a record twice.
                "retries": MANY if acks == "all" else 0,
                "linger.ms": 2,
                "delivery.timeout.ms": DELIVERY_MS,
                "request.timeout.ms": REQUEST_MS // 2,
                "socket.timeout.ms": REQUEST_MS,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )

    def _send(self, batch: _Batch, partition: int, value: str, data: bytes) -> None:
        def delivered(error: RdKafkaError | None, message: Message) -> None:
            self._completed(batch, value, message.offset() if error is None else None, "" if error is None else str(error))

        while True:
            try:
                self._producer.produce(TOPIC, data, partition=partition, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(0.01)

    def _breathe(self, seconds: float) -> None:
        self._producer.poll(max(0.0, seconds))

    def _flush(self) -> None:
        self._producer.flush(DELIVERY_MS / 1000)


class OwnLoad(Load):
    """Producer with Odradek's client."""

    def __init__(self, name: str, bootstrap: str, rate: int, history: Path, partitions: int, *, acks: str = "all") -> None:
        super().__init__(name, rate, history, partitions)
        self._producer = Producer(
            bootstrap_servers=bootstrap,
            acks=acks,
            retries=MANY if acks == "all" else 0,
            enable_idempotence=acks == "all",
            delivery_timeout_ms=DELIVERY_MS,
            request_timeout_ms=REQUEST_MS,
            max_block_ms=DELIVERY_MS,
            linger_ms=2,
            retry_backoff_ms=20,
        )

    def _send(self, batch: _Batch, partition: int, value: str, data: bytes) -> None:
        def done(future: RecordFuture) -> None:
            error = future.exception()
            self._completed(batch, value, future.result().offset if error is None else None, "" if error is None else repr(error))

        try:
            self._producer.send(TOPIC, data, partition=partition).add_done_callback(done)
        except KafkaError as error:
            self._completed(batch, value, None, repr(error))

    def _breathe(self, seconds: float) -> None:
        self.stopping.wait(max(0.0, seconds))

    def _flush(self) -> None:
        self._producer.close()


class Reader(threading.Thread):
    """Consumer thread that reads the topic from its beginning during the writes, with a second client that samples the watermarks."""

    def __init__(self, bootstrap: str, history: Path, partitions: int) -> None:
        super().__init__(name="reader", daemon=True)
        self.stopping = threading.Event()
        self.failures: list[str] = []
        self._servers = bootstrap
        self._recorder = Recorder(history / "reader.jsonl", "reader")
        self._watcher = threading.Thread(target=self._guarded, args=(self._watch,), name="watcher", daemon=True)
        self._watching = Recorder(history / "watcher.jsonl", "watcher")
        self._partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]

    def start(self) -> None:
        super().start()
        self._watcher.start()

    def end(self) -> None:
        self.stopping.set()
        self.join()
        self._watcher.join()
        self._recorder.close()
        self._watching.close()

    def run(self) -> None:
        self._guarded(self._read)

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.failures.append(f"reader: {type(error).__name__}: {error}")

    def _read(self) -> None:
        with Consumer(bootstrap_servers=self._servers, auto_offset_reset="none") as consumer:
            consumer.assign(self._partitions)
            for partition in self._partitions:
                consumer.seek(partition, 0)
            self._recorder.ok("assign", [Assigned(None, *each, None) for each in self._partitions])
            while not self.stopping.is_set():
                self._recorder.invoke("poll")
                polls = [Poll(record.topic, record.partition, record.offset, decode(record.value or b"")) for record in consumer.poll(500)]
                self._recorder.ok("poll", polls)

    def _watch(self) -> None:
        with Consumer(bootstrap_servers=self._servers, default_api_timeout_ms=2000, request_timeout_ms=1000) as consumer:
            while not self.stopping.wait(0.1):
                self._watching.invoke("poll")
                marks: list[list[object]] = []
                with contextlib.suppress(KafkaError):
                    ends = consumer.end_offsets(self._partitions)
                    marks = [[*each, None, ends[each], None] for each in self._partitions]
                self._watching.ok("poll", watermarks=marks)
