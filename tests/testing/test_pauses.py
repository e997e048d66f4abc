"""A paused process: nothing of it runs, its sockets receive, and it goes on in the order of a loop that was stopped while it waited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork, on_host
from odradek.testing.simulation.process import SimulatedProcess
from tests.loops import told_by


class Stage:
    """A server in a process that can be paused, and what it has seen in order."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.seen: list[str] = []
        with on_host("server"):
            self.process: SimulatedProcess = loop.new_process("server")

    async def listen(self, *, backlog: int = 100) -> None:
        task = self.loop.create_task(
            self.loop.create_server(lambda: _Writer(self.seen), "server", 1, backlog=backlog), context=self.process.context()
        )
        await task

    async def dial(self) -> asyncio.Transport:
        with on_host("client"):
            transport, _ = await self.loop.create_connection(asyncio.Protocol, "server", 1)
        return transport

    def timer(self, delay_s: float, name: str) -> asyncio.TimerHandle:
        return self.process.run(self.loop.call_later, delay_s, self.seen.append, name)


class _Writer(asyncio.Protocol):
    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.seen.append("connected")

    def data_received(self, data: bytes) -> None:
        self.seen.append(data.decode() if len(data) < 20 else f"{len(data)} bytes")

    def eof_received(self) -> None:
        self.seen.append("end")

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.append(f"lost {type(exc).__name__}")


def on_stage(act: Callable[[Stage], Awaitable[None]], *, window: int = 1 << 18) -> list[str]:
    """Runs the scene; what the server has seen."""
    stages: list[Stage] = []

    async def main(loop: SimulatedLoop) -> None:
        stages.append(Stage(loop))
        await act(stages[0])

    run(main, VirtualNetwork(1, latency_s=(0.001, 0.001), window=window))
    return stages[0].seen


@told_by(on_stage)
async def test_what_waits_in_sockets_is_served_before_timers_that_have_become_due(stage: Stage) -> None:
    await stage.listen()
    client = await stage.dial()
    stage.timer(1.0, "timer at 1 s")
    stage.timer(20.0, "timer at 20 s")
    stage.loop.pause(stage.process)
    stage.process.run(stage.loop.call_soon, stage.seen.append, "was ready")
    await asyncio.sleep(5)
    client.write(b"late")
    await asyncio.sleep(5)
    assert stage.seen == ["connected"]
    stage.loop.resume(stage.process)
    await asyncio.sleep(0.01)
    assert stage.seen == ["connected", "was ready", "late", "timer at 1 s"]
    await asyncio.sleep(10)
    assert stage.seen[-1] == "timer at 20 s"


def test_a_timer_that_is_cancelled_by_what_waits_in_a_socket_does_not_fire() -> None:
    async def act(stage: Stage) -> None:
        await stage.listen()
        client = await stage.dial()
        timer = stage.timer(1.0, "timer")
        stage.loop.pause(stage.process)
        client.write(b"cancel")
        await asyncio.sleep(3)
        stage.process.run(stage.loop.call_soon, timer.cancel)
        stage.loop.resume(stage.process)
        await asyncio.sleep(3)

    assert on_stage(act) == ["connected", "cancel"]


def test_tasks_stand_still_and_their_sleep_is_over_when_they_go_on() -> None:
    async def act(stage: Stage) -> None:
        async def work() -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                stage.seen.append(f"{stage.loop.time():.0f}")

        task = stage.loop.create_task(work(), context=stage.process.context())
        await asyncio.sleep(1.6)
        stage.loop.pause(stage.process)
        await asyncio.sleep(10)
        stage.loop.resume(stage.process)
        await task

    assert on_stage(act) == ["1", "12", "13"]


@told_by(on_stage)
async def test_connections_are_accepted_for_it_as_far_as_the_backlog_reaches(stage: Stage) -> None:
    await stage.listen(backlog=1)
    stage.loop.pause(stage.process)
    client = await stage.dial()
    client.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stage.dial(), 5)
    stage.timer(0.0, "timer")
    await asyncio.sleep(1)
    assert stage.seen == []
    stage.loop.resume(stage.process)
    await asyncio.sleep(0.1)
    # The connection is taken before timers, what came over it is served after them.
    assert stage.seen == ["timer", "connected", "hello"]
    await stage.dial()


def test_what_a_peer_has_sent_before_it_gave_up_is_served() -> None:
    async def act(stage: Stage) -> None:
        await stage.listen()
        client = await stage.dial()
        stage.loop.pause(stage.process)
        client.write(b"request")
        await asyncio.sleep(1)
        client.abort()
        await asyncio.sleep(1)
        stage.loop.resume(stage.process)
        await asyncio.sleep(1)

    assert on_stage(act) == ["connected", "request", "lost ConnectionResetError"]


def test_a_close_is_seen_after_the_data_before_it() -> None:
    async def act(stage: Stage) -> None:
        await stage.listen()
        client = await stage.dial()
        stage.loop.pause(stage.process)
        client.write(b"request")
        client.close()
        await asyncio.sleep(1)
        stage.loop.resume(stage.process)
        await asyncio.sleep(1)

    assert on_stage(act) == ["connected", "request", "end", "lost NoneType"]


def test_its_socket_takes_no_more_than_its_buffer_holds() -> None:
    async def act(stage: Stage) -> None:
        await stage.listen()
        client = await stage.dial()
        stage.loop.pause(stage.process)
        client.write(bytes(2500))
        await asyncio.sleep(1)
        assert client.get_write_buffer_size() == 1500
        stage.loop.resume(stage.process)
        await asyncio.sleep(1)
        assert client.get_write_buffer_size() == 0

    assert on_stage(act, window=1000) == ["connected", "1000 bytes", "1000 bytes", "500 bytes"]


def test_a_killed_process_does_not_go_on() -> None:
    async def act(stage: Stage) -> None:
        await stage.listen()
        client = await stage.dial()
        stage.timer(1.0, "timer")
        stage.loop.pause(stage.process)
        client.write(b"request")
        await asyncio.sleep(2)
        stage.process.kill()
        stage.loop.resume(stage.process)
        await asyncio.sleep(2)

    assert on_stage(act) == ["connected"]


def test_jobs_under_way_may_end_while_it_stands_still_and_are_told_of_afterwards() -> None:
    ended: set[str] = set()
    for seed in range(12):

        async def act(stage: Stage, seed: int = seed) -> None:
            stage.loop.slow_jobs(seed, (1.0, 1.0))
            done: list[str] = []

            async def work() -> None:
                await stage.loop.run_in_executor(None, lambda: done.append("done"))
                stage.seen.append("told")

            task = stage.loop.create_task(work(), context=stage.process.context())
            await asyncio.sleep(0.5)
            before = len(done)
            stage.loop.pause(stage.process)
            await asyncio.sleep(5)
            ended.add("at once" if before else "meanwhile" if done else "afterwards")
            assert stage.seen == []
            stage.loop.resume(stage.process)
            await task
            assert done == ["done"]

        assert on_stage(act) == ["told"]
    assert ended == {"at once", "meanwhile", "afterwards"}


@told_by(on_stage)
async def test_a_process_may_have_slower_jobs_than_others(stage: Stage) -> None:
    stage.loop.slow_jobs(1, (0.0, 0.0))
    stage.process.job_latency_s = (3.0, 3.0)

    async def work() -> None:
        await stage.loop.run_in_executor(None, lambda: None)

    begin = stage.loop.time()
    await work()
    assert stage.loop.time() == begin
    await stage.loop.create_task(work(), context=stage.process.context())
    assert stage.loop.time() == begin + 3
