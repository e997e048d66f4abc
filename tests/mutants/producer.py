"""Bugs of the producer's shell."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TIME = "client/test_blocking_time.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "room-waited-for-anew",
        "client/producer/engine.py",
        "asyncio.timeout((deadline_ms - self.cluster.now_ms()) / 1000)",
        "asyncio.timeout(self.max_block_ms / 1000)",
        "A send that is woken and finds no room waits for max.block.ms again.",
        _TIME,
    ),
    Mutant(
        "threads-wait-for-room-anew",
        "client/producer/blocking.py",
        "(deadline_ms - engine.cluster.now_ms()) / 1000",
        "engine.max_block_ms / 1000",
        "A thread that is woken and finds no room waits for max.block.ms again.",
        _TIME,
    ),
    Mutant(
        "metadata-waited-for-apart",
        "client/producer/aio.py",
        "        while (taken := engine.append(info,",
        "        deadline = engine.deadline_ms()\n        while (taken := engine.append(info,",
        "A send that waited for metadata waits for max.block.ms once more for room.",
        _TIME,
    ),
    Mutant(
        "many-forget-what-metadata-took",
        "client/producer/aio.py",
        "            if taken is None:\n",
        "            if taken is None:\n                deadline = engine.deadline_ms()\n",
        "send_many waits for max.block.ms with every wake-up.",
        _TIME,
    ),
)
