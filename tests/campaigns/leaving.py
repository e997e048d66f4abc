"""A node that leaves a cluster of three while clients flood the active controller, on a busy host.

    python -m tests.campaigns.leaving [--clients 600] [--busy 2] [--groups 200] [--rounds 3] [--jvm]

Each client sends a new request as soon as it gets a response. A round stops a node that does not lead the quorum with SIGTERM, and starts
it again. Printed for each round: seconds until the process has ended, whether the node left without the controller's permission, elections,
and the longest load of a coordinator's partition in ms (Odradek only).

The campaign fails when a node leaves without the controller's permission, or when the quorum elects a leader (`--jvm` only prints).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import selectors
import socket
import struct
import sys
import tempfile
import time
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from interop.cluster import Member, MixedCluster
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.metadata import MetadataRequest

NODES: Final = 3
TOPICS: Final = 20
PARTITIONS: Final = 50
WARM_S: Final = 5.0
LOADED: Final = re.compile(r"loaded (\d+) records of (\S+) in (\d+) ms")
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "12",
}


class Round(NamedTuple):
    """Figures of one node that has left."""

    left_s: float
    alone: bool
    epochs: int
    loads: int
    longest_load_ms: int
    back_s: float


def frame() -> bytes:
    """Return a request for the metadata of all topics, as clients send it."""
    body = encode_request_header(MetadataRequest.API_KEY, 12, 1, "flooder") + MetadataRequest(topics=None).encode(12)
    return struct.pack(">i", len(body)) + body


def ask_without_end(port: int, clients: int, stopping: Event, answered: Synchronized[int]) -> None:
    """Hold `clients` connections to the port, each with one request under way, until `stopping` is set."""
    asked = frame()
    selector = selectors.DefaultSelector()
    left: dict[int, int] = {}
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(asked)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        left[connection.fileno()] = 0
    count = 0
    while not stopping.is_set():
        for key, _ in selector.select(0.5):
            connection: Any = key.fileobj
            data = connection.recv(1 << 20)
            if not data:
                raise ConnectionResetError("a client was closed")
            number = connection.fileno()
            wanted = left[number] or 4 + struct.unpack(">i", data[:4])[0]
            left[number] = wanted - len(data)
            if not left[number]:
                count += 1
                connection.sendall(asked)
        answered.value = count


def burn(stopping: Event) -> None:
    """Use one core until `stopping` is set."""
    while not stopping.is_set():
        for _ in range(100_000):
            pass


def fill(bootstrap: str, groups: int) -> None:
    """Create topics, and commit offsets of all their partitions for each group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"t{number}" for number in range(TOPICS)]
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names]).values():
        future.result(60)
    offsets = [TopicPartition(name, partition, 7) for name in names for partition in range(PARTITIONS)]
    for group in range(groups):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g{group}"})
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def epoch_of(cluster: MixedCluster) -> int:
    """Return the epoch of the quorum according to its leader. Wait up to 60 checks for a leader, then raise TimeoutError."""
    for _ in range(60):
        for node in cluster.voters:
            if cluster.nodes[node].running and (view := cluster.view(node, 20)) is not None and view.leader == node:
                return view.epoch
        time.sleep(0.5)
    raise TimeoutError("no leader of the quorum")


def leave(cluster: MixedCluster, node: int, patience_s: float) -> Round:
    """Stop the node and start it again. Return the figures."""
    sizes = {other: process.log_path.stat().st_size for other, process in cluster.nodes.items()}
    epoch = epoch_of(cluster)
    begin = time.monotonic()
    cluster.nodes[node].stop(patience_s)
    left_s = time.monotonic() - begin
    time.sleep(WARM_S)
    texts = {}
    for other, process in cluster.nodes.items():
        with process.log_path.open(errors="replace") as log:
            log.seek(sizes[other])
            texts[other] = log.read()
    loads = [int(found[3]) for text in texts.values() for found in LOADED.finditer(text)]
    alone = "leaving without its consent" in texts[node]
    epochs = epoch_of(cluster) - epoch
    begin = time.monotonic()
    cluster.start(node, timeout=patience_s)
    return Round(left_s, alone, epochs, len(loads), max(loads, default=0), time.monotonic() - begin)


def measure(kind: str, clients: int, busy: int, groups: int, rounds: int, folder: Path) -> list[Round]:
    """Run the rounds and return the figures of each."""
    spawn = multiprocessing.get_context("spawn")
    cluster = MixedCluster(folder, {node: Member(kind) for node in range(1, NODES + 1)}, settings=SETTINGS)
    stopping = spawn.Event()
    others: list[Any] = []
    results: list[Round] = []
    with cluster:
        try:
            fill(cluster.bootstrap, groups)
            leader = cluster.leader()
            answered = spawn.Value("l", 0)
            if clients:
                others.append(spawn.Process(target=ask_without_end, args=(cluster.nodes[leader].port, clients, stopping, answered)))
            others += [spawn.Process(target=burn, args=(stopping,)) for _ in range(busy)]
            for each in others:
                each.start()
            time.sleep(WARM_S)
            for number in range(rounds):
                followers = [node for node in cluster.nodes if node != leader]
                result = leave(cluster, followers[number % 2], 240)
                if ended := [each.exitcode for each in others if each.exitcode is not None]:
                    raise RuntimeError(f"round {number}: clients or burners ended with {ended}, so that nothing was shown")
                word = " WITHOUT THE CONTROLLER'S WORD" if result.alone else ""
                print(
                    f"node {followers[number % 2]}: left in {result.left_s:.1f} s{word}, {result.epochs} elections, {result.loads} loads, "
                    f"the longest {result.longest_load_ms} ms; back in {result.back_s:.1f} s; {answered.value} answers so far",
                    flush=True,
                )
                results.append(result)
        finally:
            stopping.set()
            for each in others:
                each.join(30)
                each.kill()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="a node that leaves a busy cluster")
    parser.add_argument("--clients", type=int, default=600)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jvm", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="odradek-leaving-") as folder:
        kind = "jvm" if options.jvm else "odradek"
        results = measure(kind, options.clients, options.busy, options.groups, options.rounds, Path(folder))
    sys.exit(not options.jvm and any(result.alone or result.epochs for result in results))


if __name__ == "__main__":
    main()
