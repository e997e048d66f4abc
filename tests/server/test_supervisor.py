"""The supervisor over small programs that stand for nodes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from odradek.server.start.supervisor import NodeEnded, NodeProcess, Supervisor
from tests.waiting import until

_NODE = """
import os, signal, sys
name, order = sys.argv[1:3]
def leave(*_):
    with open(order, "a") as file:
        file.write(name + "\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
print("something else", flush=True)
print("Odradek is ready (node", name, flush=True)
while True:
    signal.pause()
"""


def node(folder: Path, name: str, program: str = _NODE) -> NodeProcess:
    return NodeProcess(name, [sys.executable, "-c", program, name, str(folder / "order")], str(folder / f"{name}.log"))


class Pauses:
    """Takes the place of `asyncio.sleep`: notes the pauses and takes none."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> Awaitable[None]:
        self.seconds.append(seconds)
        return asyncio.sleep(0)


_ASKING = _NODE.replace(
    "def leave(*_):",
    """def leave(*_):
    import time
    with open(order + "-asked", "a") as file:
        file.write(name + "\\n")
    # The last three wait for each other: they have to be asked together.
    while name in "cde" and len(set(open(order + "-asked").read().split()) & set("cde")) < 3:
        time.sleep(0.005)
""",
)


def test_nodes_end_in_order_as_long_as_the_rest_is_a_majority_and_then_together(tmp_path: Path) -> None:
    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, name, _ASKING) for name in "abcde"])
        await supervisor.start()
        assert set(supervisor.pids) == set("abcde")
        await supervisor.stop()
        assert supervisor.pids == {}

    asyncio.run(story())
    order = (tmp_path / "order").read_text().split()
    assert order[:2] == ["a", "b"]
    assert sorted(order[2:]) == ["c", "d", "e"]


_WAITING = _NODE.replace(
    "def leave(*_):",
    """times = 0
def leave(*_):
    global times
    times += 1
    # It waits for a node that is gone already.
    if times < 2:
        return""",
)


def test_a_long_line_before_a_node_is_ready_is_passed_over(tmp_path: Path) -> None:
    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a", _NODE.replace('"something else"', '"x" * 200_000'))])
        try:
            async with asyncio.timeout(20):
                await supervisor.start()
            assert set(supervisor.pids) == {"a"}
        finally:
            await supervisor.stop()

    asyncio.run(story())


def test_the_last_nodes_are_told_that_there_is_nobody_to_wait_for(tmp_path: Path) -> None:
    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a"), node(tmp_path, "b"), node(tmp_path, "c", _WAITING)])
        await supervisor.start()
        async with asyncio.timeout(20):
            await supervisor.stop()
        assert supervisor.pids == {}

    asyncio.run(story())
    assert (tmp_path / "order").read_text().split() == ["a", "b", "c"]


def test_a_node_that_ends_is_started_again_after_pauses_that_grow(tmp_path: Path) -> None:
    pauses = Pauses()

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a"), node(tmp_path, "b")], sleep=pauses)
        await supervisor.start()
        other = supervisor.pids["b"]
        for times in range(1, 4):
            pid = supervisor.pids["a"]
            os.kill(pid, 9)
            await until(lambda times=times, pid=pid: len(pauses.seconds) == times and supervisor.pids.get("a", pid) != pid)  # type: ignore[misc]
        assert supervisor.pids["b"] == other
        await supervisor.stop()

    asyncio.run(story())
    assert pauses.seconds == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("calm_s", "longest_s", "seconds"), [(0.0, 30.0, [0.0, 0.0, 0.0]), (60.0, 1.0, [0.0, 1.0, 1.0])])
def test_pauses_have_a_limit_and_a_node_that_ran_for_long_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm_s: float, longest_s: float, seconds: list[float]
) -> None:
    monkeypatch.setattr("odradek.server.start.supervisor.CALM_S", calm_s)
    monkeypatch.setattr("odradek.server.start.supervisor._LONGEST_PAUSE_MS", longest_s * 1000)
    pauses = Pauses()

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a")], sleep=pauses)
        await supervisor.start()
        for times in range(1, 4):
            pid = supervisor.pids["a"]
            os.kill(pid, 9)
            await until(lambda times=times, pid=pid: len(pauses.seconds) == times and supervisor.pids.get("a", pid) != pid)  # type: ignore[misc]
        await supervisor.stop()

    asyncio.run(story())
    assert pauses.seconds == seconds


def test_a_node_that_ends_before_it_is_ready_says_why_and_the_others_are_stopped(tmp_path: Path) -> None:
    broken = "import sys; print('odradek start: the port is taken', file=sys.stderr); sys.exit(1)"

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a"), node(tmp_path, "b", broken)])
        with pytest.raises(NodeEnded, match=r"^b ended with status 1: odradek start: the port is taken$"):
            await supervisor.start()
        await supervisor.stop()
        assert supervisor.pids == {}

    asyncio.run(story())


def test_what_a_node_said_in_an_earlier_life_is_not_taken_for_its_reason(tmp_path: Path) -> None:
    silent = "import sys; sys.exit(3)"
    (tmp_path / "a.log").write_text("a line of yesterday\n")

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a", silent)])
        with pytest.raises(NodeEnded, match=r"^a ended with status 3: it wrote no message"):
            await supervisor.start()
        await supervisor.stop()

    asyncio.run(story())


def test_no_node_is_started_again_once_the_end_has_begun(tmp_path: Path) -> None:
    pauses = Pauses()

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a"), node(tmp_path, "b")], sleep=pauses)
        await supervisor.start()
        await supervisor.stop()
        await asyncio.sleep(0)
        assert supervisor.pids == {}

    asyncio.run(story())
    assert pauses.seconds == []


def test_a_node_that_prints_much_never_waits_for_a_reader(tmp_path: Path) -> None:
    talking = _NODE.replace("while True:", "print('x' * 1_000_000, flush=True)\nopen(order + '-done', 'w').close()\nwhile True:")

    async def story() -> None:
        supervisor = Supervisor([node(tmp_path, "a", talking)])
        await supervisor.start()
        await until((tmp_path / "order-done").exists)
        await supervisor.stop()

    asyncio.run(story())
