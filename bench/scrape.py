"""What a scrape of a broker's metrics takes, and for how long it keeps the broker's loop from others.

    python -m bench.scrape [--partitions 5000] [--scrapes 20]

A broker leads so many partitions. Its metrics are read again and again, while another connection asks for ApiVersions, one request after
the other: what the slowest of these takes beyond those without a scrape is the loop's longest stall.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from bench.wire import Wire, connect, percentile, request_frame
from interop.peers import OdradekBroker
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.testing.kit.temporary import free_ports

_TOPIC_PARTITIONS = 50


async def scrape(port: int) -> tuple[float, int]:
    """Seconds and bytes of one scrape."""
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n")
    size = 0
    while piece := await reader.read(1 << 20):
        size += len(piece)
    writer.close()
    return time.perf_counter() - begin, size


async def probe(wire: Wire, ended: asyncio.Event) -> list[float]:
    """How long each of the small requests took, until the event."""
    request = request_frame(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
    times: list[float] = []
    while not ended.is_set():
        begin = time.perf_counter()
        await wire.send(request)
        times.append(time.perf_counter() - begin)
    return times


async def fill(wire: Wire, partitions: int) -> None:
    for number in range(partitions // _TOPIC_PARTITIONS):
        topic = CreateTopicsRequest.CreatableTopic(name=f"topic-{number}", num_partitions=_TOPIC_PARTITIONS, replication_factor=1)
        answer = await wire.send(request_frame(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7))
        for made in CreateTopicsResponse.decode(answer[5:], 7).topics:
            if made.error_code:
                raise RuntimeError(f"a topic is answered {made.error_code}: {made.error_message}")


async def measure(port: int, metrics_port: int, partitions: int, scrapes: int) -> dict[str, float]:
    wire = await connect(port)
    await fill(wire, partitions)
    await scrape(metrics_port)

    async def probed(seconds: float | None) -> tuple[list[float], list[tuple[float, int]]]:
        ended = asyncio.Event()
        probing = asyncio.ensure_future(probe(wire, ended))
        scraped: list[tuple[float, int]] = []
        if seconds is not None:
            await asyncio.sleep(seconds)
        else:
            for _ in range(scrapes):
                scraped.append(await scrape(metrics_port))
                await asyncio.sleep(0.05)
        ended.set()
        return await probing, scraped

    calm, _ = await probed(2.0)
    busy, scraped = await probed(None)
    times = sorted(seconds for seconds, _ in scraped)
    return {
        "partitions": partitions,
        "bytes": scraped[-1][1],
        "scrape_ms_p50": round(percentile(times, 0.5) * 1000, 1),
        "scrape_ms_max": round(times[-1] * 1000, 1),
        "request_ms_max_calm": round(max(calm) * 1000, 2),
        "request_ms_p99_scraped": round(percentile(busy, 0.99) * 1000, 2),
        "request_ms_max_scraped": round(max(busy) * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--scrapes", type=int, default=20)
    arguments = parser.parse_args()
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        broker = OdradekBroker(Path(folder), {"odradek.metrics.listener": str(port)})
        broker.start()
        try:
            print(json.dumps(asyncio.run(measure(broker.port, port, arguments.partitions, arguments.scrapes)), indent=2))
        finally:
            broker.stop(600)  # five thousand logs are flushed


if __name__ == "__main__":
    main()
