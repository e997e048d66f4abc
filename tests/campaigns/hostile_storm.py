"""Attacks of tests/campaigns/hostile_flood.py on a broker: thousands of mutated frames on long connections, and many connections.

Frames follow each other on a connection; the last is a valid ApiVersions request. Each frame has its number as correlation id, so that the
responses show how many frames the broker has handled. When the broker closes the connection, the frame after the last answered one is the
cause; the other frames follow on another connection. When no response comes for a while, that frame waits for something. It is sent again
alone, with a deadline.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, NamedTuple, cast

from odradek.base.errors import ProtocolError
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_request_header, encode_request_header
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.registry import request_class
from tests.campaigns import sasl
from tests.campaigns.hostile import DEADLINE, HOSTILE_NUMBERS, attack, mutate, valid_frames
from tests.campaigns.hostile_tls import KINDS, Attacker, first_message

BATCH: Final = 16
"""Number of frames that follow each other: a neighbour may have to wait for all of them."""
CLOSING: Final = 12
STALL_S: Final = 0.3
_LAST: Final = 0x5AFE5AFE
_SIZE: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(">ii")
_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, _LAST, -1)
_UNREGISTER: Final = struct.pack(">h", ApiKey.UNREGISTER_BROKER)
_METADATA: Final = encode_request_header(3, 12, 7, "hostile") + MetadataRequest(topics=None).encode(12)


class Target(NamedTuple):
    """Ports of a broker's listeners. `secret`: bytes that only a logged-in client may read."""

    plaintext: int
    controller: int
    tls: int
    sasl: int
    sasl_tls: int
    authority: Path
    secret: bytes


class Outcomes(NamedTuple):
    """Number of frames by outcome, and problems."""

    counts: Counter[str]
    problems: list[str]

    @property
    def frames(self) -> int:
        return sum(self.counts.values())


class Corpus:
    """Frames of one seed for one kind of listener.

    A frame that closes its connection costs fifty times as much as an answered one, and most mutations would close it. Therefore one frame
    of `CLOSING` does; the other frames can be decoded, with any values. tests/campaigns/frames.py tests undecodable frames in process.
    UnregisterBroker is left out: without an authorizer each such request would separate the broker from its neighbours for seconds.
    """

    def __init__(self, rng: random.Random, scope: str, frames: list[bytes]) -> None:
        self._rng = rng
        self._served = {int(api.api_key): (api.min_version, api.max_version) for api in APIS if api.is_served_on(scope)}
        served = (frame for frame in frames if frame[:2] != _UNREGISTER)
        self._frames = [frame for frame in served if int.from_bytes(frame[:2], "big") in self._served]
        self._closing = 0
        self._all = 0

    def batch(self, count: int) -> list[tuple[bytes, bool]]:
        """Return (frame with its size, whether the size is wrong); nine of ten frames are mutated."""
        made: list[tuple[bytes, bool]] = []
        rng = self._rng
        while len(made) < count:
            frame = rng.choice(self._frames)
            chance = rng.random()
            if chance < 0.1:
                made.append((_SIZE.pack(len(frame)) + frame, False))
                continue
            whole = mutate(rng, frame) if chance < 0.3 else _touched(rng, frame)
            if whole[4:6] == _UNREGISTER:
                continue
            lies = _SIZE.unpack_from(whole)[0] != len(whole) - 4
            if lies or not self._readable(whole[4:]):
                if self._closing * CLOSING > self._all:
                    continue
                self._closing += 1
            self._all += 1
            made.append((whole, lies))
        # The broker ignores the number; the campaign uses it.
        return [
            (whole[:8] + _SIZE.pack(number) + whole[12:] if not lies and len(whole) >= 12 else whole, lies)
            for number, (whole, lies) in enumerate(made)
        ]

    def _readable(self, frame: bytes) -> bool:
        try:
            header, offset = decode_request_header(frame)
            low, high = self._served.get(header.api_key, (0, -1))
            if not low <= header.api_version <= high:
                return False
            request_class(ApiKey(header.api_key)).decode_prefix(memoryview(frame), header.api_version, offset)
        except ProtocolError:
            return False
        return True


def _touched(rng: random.Random, frame: bytes) -> bytes:
    """Return the frame with its size, with one or two changed bits or numbers in its body."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(8, len(data))
        if rng.random() < 0.7:
            data[at] ^= 1 << rng.randrange(8)
        else:
            number = _SIZE.pack(rng.choice(HOSTILE_NUMBERS))
            data[at : at + 4] = number[: len(data) - at]
    return _SIZE.pack(len(data)) + data


class Storm:
    """Attacks of one process. The same seed makes the same frames; the threads decide which frames are sent at the same time."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._seed = seed
        self._context = ssl.create_default_context(cafile=str(target.authority))
        self._valid = valid_frames(seed)
        self._lock = threading.Lock()
        self.seen = Outcomes(Counter(), [])

    def run(self, shares: dict[str, int], threads: int) -> Outcomes:
        """Run the attacks. `shares`: kind of attack -> number of frames. Each kind has `threads` threads; logins have four times as many,
        as they wait.
        """
        kinds: dict[str, Callable[[random.Random, int], None]] = {
            "frames": lambda rng, count: self._frames(rng, count, tls=False),
            "frames over TLS": lambda rng, count: self._frames(rng, count, tls=True),
            "logins": self._logins,
            "garbage": self._garbage,
        }
        running = []
        for kind, count in shares.items():
            many = threads * 4 if kind == "logins" else threads
            for number in range(many):
                rng = random.Random(f"{self._seed} {kind} {number}")
                own = count // many + (number < count % many)
                running.append(threading.Thread(target=self._guarded, args=(kinds[kind], rng, own), name=f"{kind} {number}"))
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return self.seen

    def _guarded(self, kind: Callable[[random.Random, int], None], rng: random.Random, count: int) -> None:
        try:
            kind(rng, count)
        except OSError as error:
            self._problem(f"no-crash: {threading.current_thread().name} of seed {self._seed} came to an end: {error!r}")

    def _count(self, outcome: str, number: int = 1) -> None:
        with self._lock:
            self.seen.counts[outcome] += number

    def _problem(self, text: str) -> None:
        with self._lock:
            self.seen.problems.append(text)

    # -- frames ----------------------------------------------------------------------------------------------------------------------

    def _open(self, port: int, *, tls: bool) -> socket.socket:
        """Open a connection, and retry until the deadline, as the kernel refuses some of many connections at once. Raises OSError after the
        deadline.
        """
        until = time.monotonic() + DEADLINE
        while True:
            raw = socket.create_connection(("127.0.0.1", port), DEADLINE)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                connection = self._context.wrap_socket(raw, server_hostname="localhost") if tls else raw
            except OSError:
                raw.close()
                if time.monotonic() > until:
                    raise
                continue
            connection.settimeout(STALL_S)
            return connection

    def _frames(self, rng: random.Random, count: int, *, tls: bool) -> None:
        corpora = {scope: Corpus(rng, scope, self._valid) for scope in (BROKER, CONTROLLER)}
        name = "TLS " if tls else ""
        for begin in range(0, count, BATCH):
            scope = BROKER if tls or rng.random() < 0.9 else CONTROLLER
            port = self._target.tls if tls else self._target.plaintext if scope == BROKER else self._target.controller
            batch = corpora[scope].batch(min(BATCH, count - begin))
            for frame, lies in batch:
                if lies:
                    self._alone(frame, f"{name}lying size")
            self._pipeline(port, [b"" if lies else frame for frame, lies in batch], name, tls=tls)

    def _pipeline(self, port: int, batch: list[bytes], name: str, *, tls: bool) -> None:
        at = 0
        sent = [frame for frame in batch if frame]
        numbers = [number for number, frame in enumerate(batch) if frame]
        connection: socket.socket | None = None
        try:
            while at < len(sent):
                if connection is None:
                    connection = self._open(port, tls=tls)
                served, how = self._answers(connection, sent[at:], numbers[at:])
                self._count(f"{name}answered", served)
                at += served
                if how == "answered":
                    continue
                connection.close()
                connection = None
                if at < len(sent):
                    if how == "waits":
                        self._alone(sent[at], f"{name}waits")
                    else:
                        self._count(f"{name}closed")
                    at += 1
        finally:
            if connection is not None:
                connection.close()

    def _answers(self, connection: socket.socket, frames: list[bytes], numbers: list[int]) -> tuple[int, str]:
        """Return the number of answered frames, and the outcome of the next frame: "answered" (all were), "closed" or "waits"."""
        places = {number: place for place, number in enumerate(numbers)}
        served = 0
        received = bytearray()
        try:
            connection.sendall(b"".join(frames) + _VERSIONS)
            while True:
                piece = connection.recv(1 << 18)
                if not piece:
                    return served, "closed"
                received += piece
                at = 0
                while at + 8 <= len(received):
                    size, correlation = _ANSWER.unpack_from(received, at)
                    if at + 4 + size > len(received):
                        break
                    at += 4 + size
                    if correlation == _LAST:
                        return len(frames), "answered"
                    served = places.get(correlation, served) + 1
                del received[:at]
        except TimeoutError:
            return served, "waits"
        except OSError:
            return served, "closed"

    def _alone(self, frame: bytes, name: str) -> None:
        outcome = attack(self._target.plaintext, frame)
        self._count(f"{name}, alone: {outcome}")
        if outcome == "hung":
            self._problem(f"no-hang: seed {self._seed}: {frame[:100].hex()}")

    # -- logins, and bytes that are not TLS ------------------------------------------------------------------------------------------

    def _logins(self, rng: random.Random, count: int) -> None:
        done = 0
        while done < count:
            done += self._login(rng, tls=rng.random() < 0.2)

    def _login(self, rng: random.Random, *, tls: bool) -> int:
        """Have one conversation of a client without a password, and return the number of frames sent."""
        mechanism = rng.choice(("PLAIN", "SCRAM-SHA-256"))
        opening = encode_request_header(17, 1, 1, "hostile") + SaslHandshakeRequest(mechanism=mechanism).encode(1)
        challenge, said, received = b"", 0, b""
        with contextlib.suppress(OSError), self._open(self._target.sasl_tls if tls else self._target.sasl, tls=tls) as connection:
            connection.settimeout(DEADLINE)
            for turn in range(rng.randrange(2, 8)):
                data = opening if turn == 0 and rng.random() < 0.8 else sasl.frame(rng, mechanism, challenge)
                if not data:
                    continue
                connection.sendall(_SIZE.pack(len(data)) + data)
                said += 1
                try:
                    received = connection.recv(1 << 16)
                except TimeoutError:
                    self._problem(f"no-hang: a login of seed {self._seed}: {data[:100].hex()}")
                if not received:
                    break
                at = received.find(b"r=")
                challenge = b"" if at < 0 else received[at:].split(b"\0")[0]
            else:
                connection.sendall(_SIZE.pack(len(_METADATA)) + _METADATA)
                said += 1
                received = connection.recv(1 << 16)
        if self._target.secret in received:
            self._problem(f"nobody-gets-in: seed {self._seed}")
        self._count("logins", said)
        return max(said, 1)

    def _garbage(self, rng: random.Random, count: int) -> None:
        attacker = Attacker(self._target.tls, self._context, rng.randrange(1 << 30), self._valid)
        for number in range(count):
            kind = KINDS[number % len(KINDS)]
            outcome = attacker.attack(kind)
            self._count(f"garbage: {outcome}")
            if outcome == "hung":
                self._problem(f"no-hang: {kind} of seed {self._seed}")


def storm(target: Target, seed: int, shares: dict[str, int], threads: int) -> Outcomes:
    """Run the attacks in a separate process, with a lower priority than the broker and the neighbour, as if on another machine."""
    os.nice(5)
    return Storm(target, seed).run(shares, threads)


def many_files() -> int:
    """Raise this process's limit of descriptors to the maximum, also for its children, and return the limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


class Crowd:
    """Lasting connections. One of three sends nothing, one announces a large request and sends it byte by byte, one stops within its
    handshake.

    The connections come from 64 addresses in turn, and are opened again when they are closed.
    """

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._hello = first_message(ssl.create_default_context(cafile=str(target.authority)))
        self._sockets: list[socket.socket | None] = [None] * size
        self.opened = 0
        self.open = 0

    def attend(self) -> None:
        """Open the connections that are not open, and send a little more on the others."""
        for number, connection in enumerate(self._sockets):
            if number % 20 == 0:
                time.sleep(0.002)  # all connections at once would be one blow, and the kernel would refuse most of them
            try:
                if connection is None:
                    self._sockets[number] = self._come(number)
                elif number % 3 == 1:
                    connection.sendall(b"\0")
                elif not _open(connection):
                    raise ConnectionResetError
            except OSError:
                if connection is not None:
                    connection.close()
                self._sockets[number] = None
        self.open = sum(each is not None for each in self._sockets)

    def leave(self) -> None:
        for each in self._sockets:
            if each is not None:
                each.close()

    def _come(self, number: int) -> socket.socket:
        kind = number % 3
        port = self._target.tls if kind == 2 else (self._target.plaintext, self._target.sasl)[number % 2]
        connection = socket.create_connection(("127.0.0.1", port), DEADLINE, source_address=(f"127.0.{1 + number % 64}.1", 0))
        self.opened += 1
        if kind == 1:
            connection.sendall(_SIZE.pack(500_000) + b"\0\x12")
        elif kind == 2:
            connection.sendall(self._hello[: (0, 1, 5, len(self._hello) // 2, len(self._hello))[number % 5]])
        connection.setblocking(False)
        return connection


def _open(connection: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return bool(connection.recv(65536))
    return True


def crowd(target: Target, size: int, stopping: Event, full: Event, counts: Sequence[int]) -> None:
    """Keep up the crowd until `stopping`, in a separate process. `counts` receives the numbers of open and of opened connections."""
    many_files()
    os.nice(5)
    there = Crowd(target, size)
    try:
        while not stopping.is_set():
            there.attend()
            cast("list[int]", counts)[:] = [there.open, there.opened]
            full.set()
            stopping.wait(2.0)
    finally:
        there.leave()
