"""A load generator: Produce requests of one batch of 16 KB over one connection, several under way, acks=all."""

from __future__ import annotations

import asyncio
import time

from bench.comparison import Figures
from bench.wire import Wire, connect, request_frame, run_generator
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.records.batch import encode_batch

_VERSION = 12
_RECORDS = [(1_700_000_000_000, None, b"x" * 1024, ())] * 15


async def main(port: int, *, topic: str, in_flight: int, seconds: float) -> Figures:
    wire = await connect(port)
    partition = ProduceRequest.PartitionProduceData(index=0, records=encode_batch(_RECORDS))
    produce = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
    )
    request = request_frame(produce, _VERSION)
    sent = 0

    async def one(wire: Wire) -> None:
        nonlocal sent
        answer = ProduceResponse.decode((await wire.send(request))[5:], _VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if code != ErrorCode.NONE:
            raise RuntimeError(f"a batch is answered {ErrorCode(code).name}")
        sent += 1

    async def keep_on(until: float) -> None:
        while time.perf_counter() < until:
            await one(wire)

    async def run(duration: float) -> float:
        start = time.perf_counter()
        await asyncio.gather(*[keep_on(start + duration) for _ in range(in_flight)])
        return time.perf_counter() - start

    await one(wire)
    await run(seconds / 4)
    sent = 0
    cpu = time.process_time()
    elapsed = await run(seconds)
    cpu = time.process_time() - cpu
    wire.close()
    return {"batches/s": sent / elapsed, "batches": float(sent), "client CPU s": cpu}


if __name__ == "__main__":
    run_generator(main)
