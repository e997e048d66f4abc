"""A load generator: offset commits over many connections, each with a group of its own and one request under way."""

from __future__ import annotations

import asyncio
import time

from bench.comparison import Figures
from bench.wire import Wire, await_coordinator, connect_many, percentile, request_frame, run_generator
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_VERSION = 9


def commit(group: str, topic: str, partitions: int) -> bytes:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=1234567, committed_leader_epoch=0, committed_metadata=""
                    )
                    for number in range(partitions)
                ],
            )
        ],
    )
    return request_frame(request, _VERSION)


async def check(wire: Wire, request: bytes) -> None:
    answer = OffsetCommitResponse.decode((await wire.send(request))[5:], _VERSION)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code != ErrorCode.NONE:
                raise RuntimeError(f"a commit is answered {ErrorCode(partition.error_code).name}")


async def main(port: int, *, topic: str, connections: int, partitions: int, seconds: float) -> Figures:
    wires = await connect_many(port, connections)
    groups = [f"commits-{number}" for number in range(connections)]
    await await_coordinator(wires[0], groups)
    requests = [commit(group, topic, partitions) for group in groups]
    await asyncio.gather(*[check(wire, request) for wire, request in zip(wires, requests, strict=True)])
    latencies: list[float] = []

    async def keep_on(wire: Wire, request: bytes, until: float) -> None:
        while (begin := time.perf_counter()) < until:
            await wire.send(request)
            latencies.append(time.perf_counter() - begin)

    async def run(duration: float) -> float:
        start = time.perf_counter()
        await asyncio.gather(*[keep_on(wire, request, start + duration) for wire, request in zip(wires, requests, strict=True)])
        return time.perf_counter() - start

    await run(seconds / 4)
    latencies.clear()
    cpu = time.process_time()
    elapsed = await run(seconds)
    cpu = time.process_time() - cpu
    await asyncio.gather(*[check(wire, request) for wire, request in zip(wires, requests, strict=True)])
    return {
        "commits/s": len(latencies) / elapsed,
        "p99 ms": percentile(latencies, 0.99) * 1000,
        "elapsed": elapsed,
        "client CPU us": cpu / len(latencies) * 1e6,
    }


if __name__ == "__main__":
    run_generator(main)
