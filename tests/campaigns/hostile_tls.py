"""Attacks on a TLS listener: bytes that are not TLS, partial TLS, and TLS around mutated frames, with a check that the broker and a
neighbour are unharmed.

    python -m tests.campaigns.hostile_tls --count 5000 --seed 1

Each attack is one of: random bytes; a ClientHello with bytes flipped, deleted or inserted; a correct ClientHello followed by random bytes;
a finished handshake and then bytes that are not records; a finished handshake and a mutated request, in one record or in one record for
each few bytes. At the same time `--half` handshakes hang half way, two clients shake hands without end, and a neighbour produces over TLS.
The checks are those of tests/campaigns/hostile.py, and
  neighbour-in-time   the neighbour's 99th percentile is at most `--slower` times the value without attacks, plus ten milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import quantiles

from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import OdradekBroker, free_port
from tests.campaigns.hostile import DEADLINE, Neighbour, mutate, valid_frames
from tests.client.certificates import Certificates

MEMORY_LIMIT = 300 << 20
QUIET_S = 5.0
KINDS = ("bytes", "hello", "hello and bytes", "no records", "frames", "small records")


def first_message(context: ssl.SSLContext) -> bytes:
    """Return a ClientHello."""
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def bent(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(4):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = rng.randbytes(rng.choice((1, 2, 100, 20_000)))
            case _:
                data[at : at + 2] = b"\xff\xff"
    return bytes(data)


class Attacker:
    """Attacks of one seed on one port."""

    def __init__(self, port: int, context: ssl.SSLContext, seed: int, frames: list[bytes] | None = None) -> None:
        """Make an attacker. `frames`: valid frames; made from the seed by default."""
        self._port = port
        self._context = context
        self._rng = random.Random(seed)
        self._frames = frames or valid_frames(seed)

    def attack(self, kind: str) -> str:
        """Make one attack and return its outcome: "answered", "closed" or "hung"."""
        rng = self._rng
        with socket.create_connection(("127.0.0.1", self._port), DEADLINE) as raw:
            raw.settimeout(DEADLINE)
            try:
                if kind == "bytes":
                    return self._leave(raw, rng.randbytes(rng.choice((1, 5, 100, 70_000))))
                if kind == "hello":
                    return self._leave(raw, bent(rng, first_message(self._context)))
                if kind == "hello and bytes":
                    return self._leave(raw, first_message(self._context) + rng.randbytes(rng.choice((1, 5, 1000))))
                with self._context.wrap_socket(raw, server_hostname="localhost", do_handshake_on_connect=True) as tls:
                    if kind == "no records":
                        with socket.socket(fileno=tls.detach()) as under:
                            under.settimeout(DEADLINE)
                            return self._leave(under, rng.randbytes(rng.choice((1, 5, 1000))))
                    frame = rng.choice(self._frames)
                    frame = mutate(rng, frame) if rng.random() < 0.9 else struct.pack(">i", len(frame)) + frame
                    step = len(frame) if kind == "frames" else rng.choice((1, 3, 50))
                    for at in range(0, min(len(frame), 2000 * step), step):
                        tls.send(frame[at : at + step])
                    tls.shutdown(socket.SHUT_WR)
                    return "answered" if tls.recv(65536) else "closed"
            except TimeoutError:
                return "hung"
            except OSError:
                return "closed"

    @staticmethod
    def _leave(raw: socket.socket, data: bytes) -> str:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass
        return "closed"


def attack_all(port: int, authority: Path, seed: int, count: int) -> dict[str, int]:
    """Make `count` attacks, and return outcome -> number. Runs in a separate process, to take no time from the neighbour's."""
    attacker = Attacker(port, ssl.create_default_context(cafile=str(authority)), seed)
    outcomes: dict[str, int] = {}
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        try:
            outcome = f"{kind}: {attacker.attack(kind)}"
        except ConnectionRefusedError:
            outcome = f"{kind}: nobody listens"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def percentile(latencies: list[float]) -> float:
    """Return the 99th percentile in milliseconds; infinity for fewer than two latencies."""
    return quantiles(latencies, n=100)[98] * 1000 if len(latencies) > 1 else float("inf")


def campaign(count: int, seed: int, half: int, slower: float, folder: Path) -> list[str]:
    made = Certificates(folder / "certificates")
    broker = OdradekBroker(folder / "broker")
    port = free_port()
    broker.overrides = {
        "listeners": f"PLAINTEXT://{broker.bootstrap},CONTROLLER://127.0.0.1:{broker.controller_port},TLS://localhost:{port}",
        "advertised.listeners": f"PLAINTEXT://{broker.bootstrap},TLS://localhost:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.broker),
    }
    broker.start()
    client = {"security.protocol": "SSL", "ssl.ca.location": str(made.authority)}
    context = ssl.create_default_context(cafile=str(made.authority))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(30)
    neighbour = Neighbour(f"localhost:{port}", "neighbour", client)
    neighbour.start()
    quiet = percentile(neighbour.meanwhile(QUIET_S)[10:])
    problems: list[str] = []
    with contextlib.ExitStack() as stack:
        for number in range(half):
            hanging = stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE))
            hello = first_message(context)
            hanging.sendall(hello[: (0, 1, 5, len(hello) // 2, len(hello))[number % 5]])
        begin = len(neighbour.latencies)
        flood = ["openssl", "s_time", "-connect", f"localhost:{port}", "-new", "-time", "3600"]
        others = [subprocess.Popen(flood, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                outcomes = process.submit(attack_all, port, made.authority, seed, count).result()
        finally:
            for other in others:
                other.kill()
                other.wait()
            neighbour.stopping.set()
            neighbour.join()
    problems += [f"no-hang: {number} of {outcome} (seed {seed})" for outcome, number in outcomes.items() if outcome.endswith("hung")]
    if not broker.running:
        return [*problems, f"no-crash: dead, seed {seed}\n{broker.log_tail()}"]
    attacked = percentile(neighbour.latencies[begin:])
    if attacked > quiet * slower + 10:
        problems.append(f"neighbour-in-time: {attacked:.1f} ms at the 99th percentile, {quiet:.1f} ms without attacks")
    peak = broker.peak_rss_bytes()
    if peak > MEMORY_LIMIT:
        problems.append(f"memory-bounded: {peak >> 20} MiB at the peak")
    if "Traceback" in broker.log_path.read_text(errors="replace"):
        problems.append("no-crash: a traceback in the log")
    problems += [f"neighbour-unharmed: {error}" for error in neighbour.errors[:5]]
    if neighbour.read_back(f"localhost:{port}") != [str(number).encode() for number in range(neighbour.acked)]:
        problems.append("neighbour-unharmed: what was read back differs")
    if (status := broker.stop()) != 0:
        problems.append(f"no-crash: the shutdown ended with status {status}")
    print(f"{count} attacks, {half} half handshakes, peak {peak >> 20} MiB, {len(problems)} problems")
    print(*(f"  {name} {number}" for name, number in sorted(outcomes.items())), sep="\n")
    print(f"neighbour: {neighbour.acked} acked, p99 {quiet:.1f} ms without and {attacked:.1f} ms with attacks")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="what is no TLS, on ports that speak it")
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", type=int, default=500, help="handshakes that hang half way all the while")
    parser.add_argument("--slower", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-hostile-tls-") as folder:
        problems = campaign(options.count, options.seed, options.half, options.slower, Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
