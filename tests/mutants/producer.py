"""Bugs of the producer's shell."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TIME = "client/test_blocking_time.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "timers-know-their-time",
        "client/producer/engine.py",
        "if self._timer_due <= due:",
        "if self._timer.when() <= due:  # type: ignore[attr-defined]",
        "A timer that uvloop made for a time that had come already has none, and the producer's turn fails.",
        "client/test_clients.py -k time_has_come",
    ),
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
    Mutant(
        "timer-never-earlier",
        "client/producer/engine.py",
        "            if self._timer_due <= due:\n",
        "            if self._timer is not None:\n",
        "A batch whose linger.ms ends before a timer that is set waits for that timer.",
        "client/test_clients.py client/test_gathering.py client/test_refusals.py",
    ),
    Mutant(
        "no-timer",
        "client/producer/engine.py",
        "            self._timer = self._loop.call_at(due, self._timed_out)\n",
        "            pass\n",
        "A batch that lingers leaves only when another event comes.",
        "client/test_clients.py client/test_gathering.py client/test_refusals.py",
    ),
    Mutant(
        "one-turn-only",
        "client/producer/engine.py",
        "        self._turn_wanted = False\n        if not self._closed:\n",
        "        if not self._closed:\n",
        "The producer sends once, and never again.",
        "client/test_clients.py",
    ),
    Mutant(
        "awaited-in-another-loop",
        "client/producer/futures.py",
        "    if asyncio._get_running_loop() is not loop:\n        loop.call_soon_threadsafe(_resolve_here, waiter)\n    else:\n        _resolve_here(waiter)\n",
        "    _resolve_here(waiter)\n",
        "A blocking producer's record that is awaited in a loop of the application wakes nobody there.",
        "client/test_clients.py -k awaited",
    ),
    Mutant(
        "metadata-that-is-not-wanted-is-due",
        "client/producer/engine.py",
        "            return work.wake_in_ms\n",
        "            return min(work.wake_in_ms, self.cluster.metadata.due_in_ms(self.cluster.now_ms()))\n",
        "An idle producer turns its loop a thousand times a second.",
        "client/test_idle_turns.py",
    ),
    Mutant(
        "waiting-topics-are-unused",
        "client/producer/engine.py",
        "                self.cluster.metadata.want(self._sender.waiting_topics())\n",
        "                pass\n",
        "A record that waits longer than metadata.max.idle.ms is never sent.",
        "client/test_idle_turns.py",
    ),
    Mutant(
        "futures-before-an-error-are-lost",
        "client/producer/futures.py",
        "        vars(error)[_SENT] = futures\n",
        "",
        "What becomes of the records before one that fails in send_many is known to nobody.",
        "client/test_sent_before.py",
    ),
    Mutant(
        "futures-before-a-time-limit-are-lost",
        "client/producer/futures.py",
        "        cause = cause.__cause__\n",
        "        cause = None\n",
        "asyncio.timeout around send_many loses the futures of what was taken.",
        "client/test_sent_before.py",
    ),
    Mutant(
        "a-refusal-after-a-lost-answer-frees-the-sequence",
        "client/core/sender.py",
        " and not batch.attempts\n",
        "\n",
        "A record is acknowledged and not written: the broker takes it for the repetition of another.",
        "client/test_sender.py",
    ),
    Mutant(
        "version-of-transactions-is-forgotten",
        "client/producer/transactions.py",
        "            self.core.implicit = self._is_implicit()\n",
        "",
        "A producer changes the version of transactions when a connection breaks, and is fenced.",
        "client/test_cut_transactions.py",
    ),
)
