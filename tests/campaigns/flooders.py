"""Latency of one client beside flooders: clients that send hundreds of small requests at a time without end.

    python -m tests.campaigns.flooders [--connections 16] [--seconds 8] [--slower 2]

The neighbour produces a record, waits for its acknowledgement, and pauses for 5 ms. The campaign fails when its median or 99th percentile
exceeds `--slower` times the value without flooders, plus two milliseconds: on two cores the flooders also take some of the neighbour's
time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import struct
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from interop.peers import OdradekBroker
from tests.campaigns.hostile import DEADLINE, Neighbour
from tests.campaigns.hostile_flood import PAUSE_S, WARM
from tests.campaigns.hostile_tls import percentile

VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
AT_ONCE: Final = 200
QUIET_S: Final = 4.0
TOLERANCE_MS: Final = 2.0


def flood(port: int, connections: int, flooding: Barrier, stopping: Event) -> None:
    """Send requests on `connections` connections until `stopping`. Runs in a separate process.

    The process has a lower priority than the broker and the neighbour, as if it were on another machine. It ends with an error when a
    connection does.
    """
    os.nice(5)
    with ThreadPoolExecutor(connections) as pool:
        asking = [pool.submit(_ask, port, stopping) for _ in range(connections)]
        flooding.wait(DEADLINE)
        for one in asking:
            one.result()


def _ask(port: int, stopping: Event) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while not stopping.is_set():
            connection.sendall(VERSIONS * AT_ONCE)
            received = connection.recv(4)
            left = AT_ONCE * (4 + struct.unpack(">i", received)[0]) - 4
            while left:
                piece = connection.recv(1 << 18)
                if not piece:
                    raise ConnectionResetError("the broker closed a connection")
                left -= len(piece)


def measure(connections: int, seconds: float, folder: Path) -> tuple[list[float], list[float]]:
    """Return the neighbour's latencies in seconds: (without flooders, beside flooders)."""
    with OdradekBroker(folder / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(30)
        neighbour = Neighbour(broker.bootstrap, "neighbour", pause_s=PAUSE_S)
        neighbour.start()
        alone = neighbour.meanwhile(QUIET_S)[WARM:]
        spawn = multiprocessing.get_context("spawn")
        flooding, stopping = spawn.Barrier(2), spawn.Event()
        others = spawn.Process(target=flood, args=(broker.port, connections, flooding, stopping))
        others.start()
        try:
            flooding.wait(DEADLINE)
            beside = neighbour.meanwhile(seconds)[WARM:]
        finally:
            stopping.set()
            others.join(DEADLINE)
            neighbour.stopping.set()
            neighbour.join()
        if others.exitcode != 0 or neighbour.errors:
            raise RuntimeError(f"flooders ended with {others.exitcode}, the neighbour with {neighbour.errors[:5]}")
        return alone, beside


def main() -> None:
    parser = argparse.ArgumentParser(description="a client beside others that ask without end")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--slower", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-flooders-") as folder:
        alone, beside = measure(options.connections, options.seconds, Path(folder))
    failed = False
    for name, before, after in (
        ("median", median(alone) * 1000, median(beside) * 1000),
        ("99th percentile", percentile(alone), percentile(beside)),
    ):
        late = after > before * options.slower + TOLERANCE_MS
        failed |= late
        print(f"{name}: {before:.1f} ms alone, {after:.1f} beside {options.connections} flooders{': TOO LATE' if late else ''}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
