"""A load generator: transactions by raw requests, every producer over a connection of its own, one transaction after the other.

A transaction is one batch into one partition. The younger form (transaction.version 2) is Produce and EndTxn, which gives the producer its
next epoch; the older one is AddPartitionsToTxn, Produce and EndTxn. After CONCURRENT_TRANSACTIONS (the transaction before is still being
ended) the request is sent again after `RETRY_S`.

`main` with `rate` instead of as many as possible: one producer begins that many transactions a second, and a reader of committed records
tells when each can be seen.
"""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from bench.comparison import Figures
from bench.wire import TRANSACTION, Wire, await_coordinator, connect, connect_many, percentile, run_generator
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.records.batch import decode_batch, encode_batch, iter_headers

RETRY_S = 0.002
_VALUE = b"x" * 100
_READ_COMMITTED = 1
_NOT_YET = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


def _check(what: str, code: int, message: str | None = "") -> None:
    if code != ErrorCode.NONE:
        raise RuntimeError(f"{what} is answered {ErrorCode(code).name} {message}")


class Transactor:
    """One producer with a transactional id."""

    def __init__(self, wire: Wire, name: str, topic: str, partition: int, records: int, version: int) -> None:
        self.wire, self.name, self.topic, self.partition, self.records, self.version = wire, name, topic, partition, records, version
        self.producer_id, self.epoch, self.sequence = -1, -1, 0
        self.retries = 0

    async def begin(self) -> None:
        while True:
            answer = await self.wire.ask(
                InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000), 4, InitProducerIdResponse
            )
            if answer.error_code not in _NOT_YET:
                break
            await asyncio.sleep(RETRY_S)
        _check("InitProducerId", answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def transact(self, value: bytes = _VALUE) -> None:
        if self.version < 2:
            await self.add_partition()
        await self.produce(value)
        await self.end()

    async def add_partition(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[Topic(name=self.topic, partitions=[self.partition])],
        )
        while True:
            answer = await self.wire.ask(request, 3, AddPartitionsToTxnResponse)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                _check("AddPartitionsToTxn", code)
                return
            self.retries += 1
            await asyncio.sleep(RETRY_S)

    async def produce(self, value: bytes) -> None:
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [(now_ms, None, value, ())] * self.records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        data = [ProduceRequest.PartitionProduceData(index=self.partition, records=memoryview(batch))]
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.TopicProduceData(name=self.topic, partition_data=data)],
        )
        while True:
            answer = await self.wire.ask(request, 12 if self.version >= 2 else 11, ProduceResponse)
            outcome = answer.responses[0].partition_responses[0]
            if outcome.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                _check("Produce", outcome.error_code, outcome.error_message)
                break
            self.retries += 1
            await asyncio.sleep(RETRY_S)
        self.sequence += self.records

    async def end(self) -> None:
        request = EndTxnRequest(transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=True)
        answer = await self.wire.ask(request, 5 if self.version >= 2 else 4, EndTxnResponse)
        _check("EndTxn", answer.error_code)
        if self.version >= 2:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0


async def throughput(port: int, topic: str, partitions: int, producers: int, records: int, version: int, seconds: float) -> Figures:
    names = [f"{topic}-{version}-{records}-{number}" for number in range(producers)]
    wires = await connect_many(port, producers)
    await await_coordinator(wires[0], names, TRANSACTION)
    transactors = [
        Transactor(wire, name, topic, number % partitions, records, version)
        for number, (wire, name) in enumerate(zip(wires, names, strict=True))
    ]
    await asyncio.gather(*[each.begin() for each in transactors])
    latencies: list[float] = []

    async def keep_on(transactor: Transactor, until: float) -> None:
        while (begin := time.perf_counter()) < until:
            await transactor.transact()
            latencies.append(time.perf_counter() - begin)

    async def run(duration: float) -> float:
        start = time.perf_counter()
        await asyncio.gather(*[keep_on(transactor, start + duration) for transactor in transactors])
        return time.perf_counter() - start

    await run(seconds / 4)
    latencies.clear()
    cpu = time.process_time()
    elapsed = await run(seconds)
    return {
        "transactions/s": len(latencies) / elapsed,
        "p99 ms": percentile(latencies, 0.99) * 1000,
        "elapsed": elapsed,
        "client CPU us": (time.process_time() - cpu) / len(latencies) * 1e6,
    }


class Reader:
    """Reads committed records of one partition, and notes when each came."""

    def __init__(self, wire: Wire, topic_id: UUID) -> None:
        self.wire = wire
        self.topic_id = topic_id
        self.seen: dict[bytes, float] = {}

    async def run(self) -> None:
        offset = 0
        while True:
            partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                isolation_level=_READ_COMMITTED,
                topics=[FetchRequest.FetchTopic(topic_id=self.topic_id, partitions=[partition])],
            )
            answer = await self.wire.ask(request, 13, FetchResponse)
            now = time.perf_counter()
            (read,) = answer.responses[0].partitions
            _check("Fetch", read.error_code)
            data = memoryview(bytes(read.records or b""))  # type: ignore[arg-type]
            for position, header in iter_headers(data):
                offset = header.next_offset
                if not header.is_control:
                    for record in decode_batch(data, position, header):
                        self.seen.setdefault(bytes(record.value or b""), now)


async def latency(port: int, topic: str, rate: float, version: int, seconds: float) -> Figures:
    """Milliseconds from a transaction's beginning until its commit is answered, and until a reader has its record."""
    wire = await connect(port)
    name = f"{topic}-{version}-latency"
    await await_coordinator(wire, [name], TRANSACTION)
    transactor = Transactor(wire, name, topic, 0, 1, version)
    await transactor.begin()
    metadata = await wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 12, MetadataResponse)
    reader = Reader(await connect(port), metadata.topics[0].topic_id)
    reading = asyncio.ensure_future(reader.run())
    begun: dict[bytes, float] = {}
    committed: list[float] = []
    total, warm_up = int(rate * seconds), int(rate * seconds / 4)
    start = time.perf_counter()
    for number in range(total + warm_up):
        # A transaction that is late begins late, and counts from when it was due.
        due = start + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        value = b"%s %d" % (name.encode(), number)
        begun[value] = due
        await transactor.transact(value)
        committed.append(time.perf_counter() - due)
    while len(reader.seen) < total + warm_up:
        if reading.done():
            reading.result()
        await asyncio.sleep(0.01)
    reading.cancel()
    read = [reader.seen[value] - at for value, at in begun.items()][warm_up:]
    committed = committed[warm_up:]
    return {
        "committed p50 ms": percentile(committed, 0.5) * 1000,
        "committed p99 ms": percentile(committed, 0.99) * 1000,
        "read p50 ms": percentile(read, 0.5) * 1000,
        "read p99 ms": percentile(read, 0.99) * 1000,
    }


async def main(
    port: int,
    *,
    topic: str,
    version: int,
    seconds: float,
    rate: float = 0,
    partitions: int = 1,
    producers: int = 1,
    records: int = 1,
) -> Figures:
    if rate:
        return await latency(port, topic, rate, version, seconds)
    return await throughput(port, topic, partitions, producers, records, version, seconds)


if __name__ == "__main__":
    run_generator(main)
