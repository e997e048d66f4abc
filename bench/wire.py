"""Raw requests for benchmarks: connections that cost little, and load generators in processes of their own.

A generator is a module with `async def main(port, **options) -> Figures` under `run_generator`; `generate` starts it and takes its
figures. It speaks the same bytes to whichever broker listens.
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from bench.comparison import Figures
from odradek.base.errors import ErrorCode
from odradek.protocol.framing import frame
from odradek.protocol.headers import encode_request_header, response_header_version
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.registry import response_class

if TYPE_CHECKING:
    from odradek.protocol.schema import Message

R = TypeVar("R")
_SIZE = struct.Struct(">i")
CLIENT_ID = "bench"
RETRY_S = 0.005
PATIENCE_S = 60.0


def request_frame(request: Message, version: int) -> bytes:
    """A whole request, size and header included; every one has correlation id 0, since answers come in order."""
    return frame(encode_request_header(request.API_KEY, version, 0, CLIENT_ID), request.encode(version))


class Wire(asyncio.Protocol):
    """One connection. Answers belong to the requests in their order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: deque[asyncio.Future[memoryview]] = deque()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= 4:
            end = start + 4 + _SIZE.unpack_from(buffer, start)[0]
            if end > len(buffer):
                break
            answer = memoryview(bytes(buffer[start + 4 : end]))
            start = end
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(answer)
        if start:
            del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ConnectionError(f"the broker has closed the connection: {exc}"))

    def send(self, data: bytes | bytearray) -> asyncio.Future[memoryview]:
        """A whole request; the answer without its size."""
        assert self._transport is not None
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._waiting.append(answer)
        self._transport.write(data)
        return answer

    async def ask(self, request: Message, version: int, answer: type[R]) -> R:
        """A request and its answer, decoded; `answer` only tells the type."""
        data = await self.send(request_frame(request, version))
        header = 5 if response_header_version(request.API_KEY, version) else 4
        return cast("R", response_class(request.API_KEY).decode(data[header:], version))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(port: int) -> Wire:
    _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
    return wire


async def connect_many(port: int, count: int) -> list[Wire]:
    """Connections, a hundred at a time."""
    wires: list[Wire] = []
    while len(wires) < count:
        wires += await asyncio.gather(*[connect(port) for _ in range(min(100, count - len(wires)))])
    return wires


GROUP, TRANSACTION = 0, 1


async def find_coordinator(wire: Wire, keys: list[str], kind: int = GROUP) -> None:
    """Waits until the broker is named as coordinator of all keys; this creates the internal topic, as for the first client."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)

    async def found() -> bool:
        answer = await wire.ask(request, 5, FindCoordinatorResponse)
        return all(each.error_code == ErrorCode.NONE for each in answer.coordinators)

    await until(found)


async def await_coordinator(wire: Wire, keys: list[str], kind: int = GROUP) -> None:
    """As `find_coordinator`; also waits until the broker has loaded all of them."""
    await find_coordinator(wire, keys, kind)
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=key, topics=[]) for key in keys]

    async def loaded() -> bool:
        if kind == GROUP:
            fetched = await wire.ask(OffsetFetchRequest(groups=groups), 8, OffsetFetchResponse)
            return all(each.error_code == ErrorCode.NONE for each in fetched.groups)
        described = await wire.ask(DescribeTransactionsRequest(transactional_ids=keys), 0, DescribeTransactionsResponse)
        return all(each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for each in described.transaction_states)

    await until(loaded)


async def until(succeeded: Callable[[], Awaitable[bool]], patience_s: float = PATIENCE_S) -> None:
    """Tries again every 5 ms; TimeoutError after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not await succeeded():
        if time.monotonic() > deadline:
            raise TimeoutError("the broker does not come to serve it")
        await asyncio.sleep(RETRY_S)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def generate(module: str, port: int, timeout: float = 600, **options: str | int | float) -> Figures:
    """Runs a generator in a process of its own; returns the figures that it prints."""
    command = [sys.executable, "-m", module, str(port), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} ended with {done.returncode}:\n{done.stderr.decode()[-4000:]}")
    return cast("Figures", json.loads(done.stdout))


def run_generator(main: Callable[..., Awaitable[Figures]]) -> None:
    """The other side of `generate`."""

    async def run() -> Figures:
        return await main(int(sys.argv[1]), **json.loads(sys.argv[2]))

    print(json.dumps(asyncio.run(run())))
