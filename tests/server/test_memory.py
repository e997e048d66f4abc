"""Freed memory goes back to the system."""

from __future__ import annotations

import asyncio
import os
import random
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.server.start.process import run_loop
from odradek.server.upkeep.memory import INTERVAL_S, MemoryKeeper, find_trim
from tests.clock import ManualClock
from tests.waiting import until


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_it_trims_again_and_again_until_it_is_stopped() -> None:
    async def main() -> None:
        clock = ManualClock()
        loop = asyncio.get_running_loop()
        trims = asyncio.Queue[int]()
        keeper = MemoryKeeper(loop, clock, lambda: loop.call_soon_threadsafe(trims.put_nowait, 1))
        keeper.start()
        clock.advance_s(INTERVAL_S - 0.1)
        assert trims.empty()
        for _ in range(3):
            clock.advance_s(INTERVAL_S)
            await trims.get()
            await until(lambda: bool(clock.pending))
        keeper.stop()
        clock.advance_s(10 * INTERVAL_S)
        assert trims.empty()

    run_loop(asyncio.wait_for(main(), 10))


def test_a_trim_that_is_under_way_at_the_end_is_the_last() -> None:
    clock = ManualClock()
    trim: Future[None] = Future()
    loop = SimpleNamespace(run_in_executor=lambda *_: trim)
    keeper = MemoryKeeper(cast(Any, loop), clock, lambda: None)
    keeper.start()
    clock.advance_s(INTERVAL_S)
    keeper.stop()
    trim.set_result(None)
    assert not clock.pending


def test_without_such_a_function_nothing_is_done() -> None:
    async def main() -> None:
        clock = ManualClock()
        keeper = MemoryKeeper(asyncio.get_running_loop(), clock, None)
        keeper.start()
        assert not clock.pending
        keeper.stop()

    run_loop(main())


def test_what_was_freed_between_what_is_kept_is_given_back() -> None:
    trim = find_trim()
    if trim is None:
        pytest.skip("the C library has no malloc_trim")
    rng = random.Random(1)
    held = [bytes(rng.randrange(20_000, 100_000)) for _ in range(2000)]
    peak = rss()
    kept = held[::97]
    held.clear()
    trim()
    assert peak - rss() > 60 << 20
    assert len(kept) > 20
