"""Millions of mutated frames, logins and bytes that are not TLS, for a broker with every kind of listener, with a check that no one is
harmed.

    python -m tests.campaigns.hostile_flood --count 10000000 --seed 1 --crowd 10000

`--shares` sets the kinds: frames, frames over TLS, logins (conversations without a password, a fifth of them over TLS), garbage (on a port
that speaks TLS). At the same time `--crowd` connections send nothing, send a large request byte by byte, or stop within their handshake,
from 64 addresses. All runs in a separate network namespace, where possible: ten thousand sockets take no port from other programs. Every
`--round` frames begin with a new broker and the next seed; a round can be run alone. The checks are those of tests/campaigns/hostile.py
(no-crash, no-hang, memory-bounded, neighbour-unharmed), and
  nobody-gets-in      no login ends with a response that needs a login;
  neighbour-in-time   the neighbour's 99th percentile is at most `--slower` times the value without attacks, plus ten milliseconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from interop.peers import CLUSTER_ID, BrokerProcess, JvmBroker, OdradekBroker, free_port
from tests.campaigns.hostile import Neighbour
from tests.campaigns.hostile_storm import Outcomes, Target, crowd, many_files, storm
from tests.campaigns.hostile_tls import percentile
from tests.campaigns.namespaces import leave_network, why_not
from tests.client.certificates import Certificates
from tests.server.hostile_broker import overrides

MEMORY_LIMIT: Final = 250 << 20
REQUEST_MEMORY: Final = 100 << 20
"""queued.max.request.bytes: maximum bytes of received requests of all connections together."""
PER_CONNECTION: Final = 32 << 10
"""Bytes that one connection of the crowd may cost in addition; half a TLS handshake takes the most."""
TOLERANCE_MS: Final = 10.0
PAUSE_S: Final = 0.005
"""Seconds between two records of the neighbour, which would otherwise take most of the broker's time."""
WARM: Final = 10
"""Number of the neighbour's first records that do not count."""
SHARES: Final = "frames=70,frames over TLS=15,logins=14,garbage=1"


class Plan(NamedTuple):
    """Settings of a run. `frames`: number per round. `shares`: kind -> parts."""

    frames: int
    shares: dict[str, int]
    crowd: int = 0
    processes: int = 1
    threads: int = 2
    slower: float = 2.0
    quiet_s: float = 5.0
    jvm: bool = False


def broker_of(folder: Path, *, jvm: bool) -> tuple[BrokerProcess, Target]:
    """Return a broker that has not been started, and its addresses."""
    made = Certificates(folder / "certificates")
    broker = JvmBroker(folder / "broker", as_shipped=True) if jvm else OdradekBroker(folder / "broker")
    ports = {name: free_port() for name in ("TLS", "SASL", "SASLTLS")} | {"PLAINTEXT": broker.port}
    broker.overrides = {**overrides(broker.controller_port, made, ports), "max.connections.per.ip.overrides": ""}
    broker.overrides["queued.max.request.bytes"] = str(REQUEST_MEMORY)
    secret = CLUSTER_ID.encode()
    target = Target(broker.port, broker.controller_port, ports["TLS"], ports["SASL"], ports["SASLTLS"], made.authority, secret)
    return broker, target


def attacked(plan: Plan, seed: int, target: Target) -> Outcomes:
    """Send all frames of a round and return the outcomes."""
    parts = sum(plan.shares.values())
    seen = Outcomes(Counter(), [])
    with ProcessPoolExecutor(plan.processes, multiprocessing.get_context("spawn")) as pool:
        each = {kind: plan.frames * part // parts // plan.processes for kind, part in plan.shares.items() if part}
        running = [pool.submit(storm, target, seed * 100 + number, each, plan.threads) for number in range(plan.processes)]
        for one in running:
            counts, problems = one.result()
            seen.counts.update(counts)
            seen.problems.extend(problems)
    return seen


def one_round(plan: Plan, seed: int, folder: Path) -> tuple[list[str], Outcomes]:
    """Run one round and return its problems and outcomes."""
    many_files()
    broker, target = broker_of(folder, jvm=plan.jvm)
    broker.start(60)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(30)
    neighbour = Neighbour(broker.bootstrap, "neighbour", pause_s=PAUSE_S)
    neighbour.start()
    quiet = neighbour.meanwhile(plan.quiet_s, WARM + 20)[WARM:]
    spawn = multiprocessing.get_context("spawn")
    stopping, full, there = spawn.Event(), spawn.Event(), spawn.Array("i", [0, 0])
    others = spawn.Process(target=crowd, args=(target, plan.crowd, stopping, full, there))
    try:
        if plan.crowd:
            others.start()
            full.wait(300)
        begin, first, used = time.monotonic(), len(neighbour.latencies), broker.cpu_seconds()
        seen = attacked(plan, seed, target)
        took = time.monotonic() - begin
        used = broker.cpu_seconds() - used
        in_attack = neighbour.latencies[first:]
    finally:
        stopping.set()
        if plan.crowd:
            others.join(60)
        neighbour.stopping.set()
        neighbour.join()
    problems = list(dict.fromkeys(seen.problems))[:20]
    if not broker.running:
        return [*problems, f"no-crash: dead, seed {seed}\n{broker.log_tail()}"], seen
    calm, slow = percentile(quiet), percentile(in_attack)
    if slow > calm * plan.slower + TOLERANCE_MS:
        problems.append(f"neighbour-in-time: {slow:.1f} ms at the 99th percentile, {calm:.1f} ms without attacks")
    peak = broker.peak_rss_bytes()
    if not plan.jvm and peak > MEMORY_LIMIT + REQUEST_MEMORY + plan.crowd * PER_CONNECTION:
        problems.append(f"memory-bounded: {peak >> 20} MiB at the peak")
    log = broker.log_path.read_text(errors="replace")
    if not plan.jvm and (at := log.find("Traceback")) >= 0:
        problems.append(f"no-crash: a traceback in the log, seed {seed}: {log[max(0, at - 300) : at + 4000]}")
    problems += [f"neighbour-unharmed: {error}" for error in neighbour.errors[:5]]
    try:
        if neighbour.read_back(broker.bootstrap) != [str(number).encode() for number in range(neighbour.acked)]:
            problems.append("neighbour-unharmed: what was read back differs")
    except KafkaException as error:
        problems.append(f"neighbour-unharmed: {error} when reading back")
    if plan.jvm:
        broker.kill()  # an orderly stop takes minutes
    elif (status := broker.stop()) != 0:
        problems.append(f"no-crash: the shutdown ended with status {status}")
    print(f"seed {seed}: {seen.frames} frames in {took:.1f} s, {seen.frames / took:.0f} a second,", end=" ")
    print(f"{used:.1f} s of the broker's CPU, peak {peak >> 20} MiB")
    print("  " + ", ".join(f"{name} {number}" for name, number in sorted(seen.counts.items())))
    print(f"  crowd: {there[0]} open, {there[1]} opened; neighbour: {neighbour.acked} acked, p99 {calm:.1f} and {slow:.1f} ms,", end=" ")
    print(f"median {median(quiet) * 1000:.1f} and {median(in_attack or [0]) * 1000:.1f} ms, {len(problems)} problems", flush=True)
    return problems, seen


def campaign(plan: Plan, seed: int, rounds: int, folder: Path) -> list[str]:
    """Run all rounds and return the problems."""
    problems: list[str] = []
    for number in range(rounds):
        (own := folder / str(number)).mkdir()
        found = one_round(plan, seed + number, own)[0]
        for problem in found:
            print(problem, flush=True)
        problems += found
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="millions of mutated frames over sockets")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--round", type=int, default=200_000, help="frames for each broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shares", default=SHARES, help="how many parts are what")
    parser.add_argument("--crowd", type=int, default=0, help="connections that are slow, silent or half made all the while")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each kind of attack in each process")
    parser.add_argument("--slower", type=float, default=2.0)
    parser.add_argument("--jvm", action="store_true", help="the same to JVM Kafka, for comparison: its memory and its log are not judged")
    options = parser.parse_args()
    shares = {kind: int(parts) for kind, _, parts in (each.partition("=") for each in options.shares.split(","))}
    count = min(options.round, options.count)
    plan = Plan(count, shares, options.crowd, options.processes, options.threads, options.slower, jvm=options.jvm)
    if lacking := why_not():
        print(f"in the network of this machine: {lacking}")
    else:
        leave_network()
    with tempfile.TemporaryDirectory(prefix="odradek-hostile-") as folder:
        problems = campaign(plan, options.seed, -(-options.count // plan.frames), Path(folder))
    print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
