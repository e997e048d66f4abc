"""The virtual world keeps its promises: time jumps, bytes arrive in order, power cuts lose what was not synced."""

from __future__ import annotations

import asyncio
import random

import pytest

from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, SimulationStalled, run
from odradek.testing.simulation.network import VirtualNetwork, on_host
from tests.loops import in_virtual_time


def test_a_virtual_hour_passes_at_once_and_timers_fire_in_order() -> None:
    fired: list[tuple[str, float]] = []

    async def main(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop)
        clock.call_later(3600, lambda: fired.append(("late", clock.monotonic())))
        clock.call_later(1, lambda: fired.append(("early", clock.monotonic())))
        await asyncio.sleep(3601)

    run(main)
    assert [(name, round(at, 6)) for name, at in fired] == [("early", 1.0), ("late", 3600.0)]


def test_waiting_for_nothing_is_an_error_not_a_hang() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await loop.create_future()

    with pytest.raises(SimulationStalled):
        run(main)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def _exchange(seed: int) -> tuple[bytes, float]:
    async def main(loop: SimulatedLoop) -> tuple[bytes, float]:
        await loop.create_server(_Echo, "broker", 9092)
        with on_host("client"):
            reader, writer = await asyncio.open_connection("broker", 9092)
        payload = bytes(range(256)) * 4096
        writer.write(payload)
        answer = await reader.readexactly(len(payload))
        assert answer == payload
        writer.close()
        return answer, loop.time()

    return run(main, VirtualNetwork(seed))


def test_streams_arrive_whole_and_the_same_seed_gives_the_same_times() -> None:
    assert _exchange(7) == _exchange(7)
    assert _exchange(7)[1] != _exchange(8)[1]


@in_virtual_time
async def test_a_cut_holds_bytes_back_until_it_heals(loop: SimulatedLoop) -> None:
    await loop.create_server(_Echo, "broker", 9092)
    with on_host("client"):
        reader, writer = await asyncio.open_connection("broker", 9092)
    loop.network.cut("client", "broker")
    writer.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(5), 60)
    loop.network.heal()
    assert await reader.readexactly(5) == b"hello"
    writer.close()


@in_virtual_time
async def test_a_crashed_host_resets_its_peers(loop: SimulatedLoop) -> None:
    await loop.create_server(_Echo, "broker", 9092)
    with on_host("client"):
        reader, _ = await asyncio.open_connection("broker", 9092)
        loop.network.crash_host("broker")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("broker", 9092)


def test_power_cut_keeps_what_was_synced_and_may_lose_the_rest() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data")
    disk.fsync_dir("/")
    file = disk.open("/data/log", create=True)
    file.pwritev([b"synced"], 0)
    file.fsync()
    disk.fsync_dir("/data")
    file.pwritev([b" tail"], 6)
    disk.open("/data/unnamed", create=True)
    outcomes = set()
    for seed in range(50):
        after = disk.crash(random.Random(seed))
        content = after.read_bytes("/data/log")
        assert content.startswith(b"synced")
        outcomes.add((content, after.exists("/data/unnamed")))
    assert (b"synced", False) in outcomes
    assert any(content == b"synced tail" for content, _ in outcomes) or len(outcomes) > 2
    assert disk.kill().read_bytes("/data/log") == b"synced tail"


def test_a_name_is_not_durable_before_its_directory_is_synced() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data")
    file = disk.open("/data/segment", create=True)
    file.pwritev([b"records"], 0)
    file.fsync()
    assert any(not disk.crash(random.Random(seed)).exists("/data/segment") for seed in range(20))
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    assert all(disk.crash(random.Random(seed)).read_bytes("/data/segment") == b"records" for seed in range(20))


def test_a_program_that_goes_round_in_circles_is_an_error_not_a_hang() -> None:
    async def main(loop: SimulatedLoop) -> None:
        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(SimulationStalled, match="does not advance"):
        run(main)


def test_the_end_of_a_program_does_not_wait_for_clean_up_without_end() -> None:
    times: list[float] = []

    async def main(loop: SimulatedLoop) -> None:
        async def lasting() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                while True:
                    times.append(loop.time())
                    await asyncio.sleep(0.1)

        loop.create_task(lasting())
        await asyncio.sleep(5)

    run(main)
    assert 5 <= times[0] <= times[-1] < 10


@in_virtual_time
async def test_a_delay_that_is_lost_in_rounding_moves_the_clock_all_the_same(loop: SimulatedLoop) -> None:
    await asyncio.sleep(1000)
    begin = loop.time()

    def wait() -> None:
        if loop.time() <= begin:
            loop.call_later(1e-15, wait)

    wait()
    await asyncio.sleep(1)
