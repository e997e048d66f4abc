"""What lies idle: connections, partitions, and a broker inside a test. Odradek and JVM Kafka 4.3.1 side by side on this machine.

    python -m bench.footprint [--rounds N] [--only ROW ...] [--scale FACTOR]

How it is measured: bench/comparison.py; each round has processes of its own.
- 10,000 idle connections: each has asked for ApiVersions and waits. "KB each" is what the broker's resident memory grew by, over their
  number.
- 10,000 partitions: ten topics of a thousand, created by a client, without records. "KB each" as above, from the broker before to the
  broker three seconds after its metadata names a leader for each.
- a broker for a test: what a test waits for before its first request is served. Ours runs inside the test's process (`EmbeddedBroker`),
  the first time with all imports, with its directory on a disk or in memory, or in a process of its own (`process=True`); a JVM broker is
  a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.comparison import AnyRow, ColdRow, Figures, at_most, below, run
from bench.recovery import create_partitions
from bench.wire import connect, request_frame, until
from interop.peers import BrokerProcess
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

KB = 1_000
_TOPICS = 10
_STARTS = 5
_PROCESS_STARTS = 3
_CREATION_S = 300.0
_EMBEDDED = f"""
import json, time
from statistics import median
begin = time.perf_counter()
from odradek.testing.kit.embedded import EmbeddedBroker
def start(**named):
    before = time.perf_counter()
    broker = EmbeddedBroker(**named).start()
    took = time.perf_counter() - before
    broker.stop()
    return took
first = time.perf_counter() - begin + start()
further = median([start() for _ in range({_STARTS})])
memory = median([start(memory=True) for _ in range({_STARTS})])
process = median([start(process=True) for _ in range({_PROCESS_STARTS})])
print(json.dumps([first, further, memory, process]))
"""


async def _hold(broker: BrokerProcess, count: int) -> float:
    """Bytes that the broker's resident memory grows by with so many connections, each of which has been served once."""
    request = request_frame(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
    before = broker.rss_bytes()
    wires = []
    for _ in range(count):
        wire = await connect(broker.port)
        await wire.send(request)
        wires.append(wire)
    await asyncio.sleep(2)
    grown = broker.rss_bytes() - before
    for wire in wires:
        wire.close()
    return grown


async def _await_leaders(port: int, topics: Sequence[str]) -> None:
    wire = await connect(port)
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]

    async def led() -> bool:
        found = await wire.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12, MetadataResponse)
        return all(topic.error_code == 0 and all(each.leader_id >= 0 for each in topic.partitions) for topic in found.topics)

    await until(led, _CREATION_S)
    wire.close()


def rows(scale: float) -> Sequence[AnyRow]:
    connections, partitions = int(10_000 * scale), int(1_000 * scale)

    def connected(broker: BrokerProcess, _: Path) -> Figures:
        broker.start(180)
        # The first connections bring what all share.
        asyncio.run(_hold(broker, 100))
        return {"KB each": asyncio.run(_hold(broker, connections)) / connections / KB}

    def created(broker: BrokerProcess, _: Path) -> Figures:
        broker.start(180)
        create_partitions(broker, ["first"], 1)
        time.sleep(1)
        before = broker.rss_bytes()
        topics = [f"many-{number}" for number in range(_TOPICS)]
        begin = time.perf_counter()
        for topic in topics:
            create_partitions(broker, [topic], partitions)
        asyncio.run(_await_leaders(broker.port, topics))
        elapsed = time.perf_counter() - begin
        time.sleep(3)
        return {"KB each": (broker.rss_bytes() - before) / (_TOPICS * partitions) / KB, "created s": elapsed}

    def for_a_test(broker: BrokerProcess, _: Path) -> Figures:
        if broker.name == "odradek":
            done = subprocess.run([sys.executable, "-c", _EMBEDDED], capture_output=True, text=True, check=True, timeout=120)
            first, further, memory, process = json.loads(done.stdout)
        else:
            begin = time.perf_counter()
            broker.start(180)
            first = further = memory = process = time.perf_counter() - begin
        return {
            "first start ms": first * 1000,
            "further start ms": further * 1000,
            "in memory ms": memory * 1000,
            "in a process ms": process * 1000,
        }

    return (
        ColdRow("10,000 idle connections", connected, {"KB each": below(20, "KB")}),
        ColdRow("10,000 partitions", created, {"KB each": at_most(0.5), "created s": at_most(1)}),
        ColdRow("a broker for a test", for_a_test, {"further start ms": below(50, "ms")}),
    )


if __name__ == "__main__":
    run(__doc__, "footprint", rows)
