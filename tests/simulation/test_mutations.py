"""Break the broker on purpose: the stories must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.storage.flushing import Flush
from odradek.storage.log import Log
from odradek.storage.producer_state import ProducerEntry
from tests.simulation.scenario import FLUSHED, KILLS, play

Mutation = Callable[[pytest.MonkeyPatch], None]


def _flush_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flush, "run", lambda self, disk: None)


def _know_no_duplicates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerEntry, "find_duplicate", lambda self, epoch, first, last: None)


def _forget_earlier_batches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerEntry, "complete_from", lambda self, recent: None)


def _show_only_half(patch: pytest.MonkeyPatch) -> None:
    original: Any = Log.__init__

    def begin(self: Log, *positional: Any, **named: Any) -> None:
        original(self, *positional, **named)
        self.log_end_offset -= self.log_end_offset // 2

    patch.setattr(Log, "__init__", begin)


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutation", "mode", "named"),
    [
        (_flush_nothing, FLUSHED, {"prefix-survives", "acked-is-there"}),
        (_know_no_duplicates, KILLS, {"no-duplicates"}),
        (_forget_earlier_batches, KILLS, {"no-duplicates"}),
        (_show_only_half, KILLS, {"metadata-survives", "acked-is-there", "reads-are-the-log", "high-watermark-monotonic", "offsets-dense"}),
    ],
)
def test_a_broken_broker_is_noticed(monkeypatch: pytest.MonkeyPatch, mutation: Mutation, mode: str, named: set[str]) -> None:
    mutation(monkeypatch)
    found: set[str] = set()
    for seed in (2, 1, 10, 5, 4, 8, 9):  # the ones that notice soon come first
        found |= {problem.partition(":")[0] for problem in play(seed, mode=mode, virtual_s=30, keep_trace=False).problems}
        if found & named:
            return
    raise AssertionError(f"nobody noticed; found {sorted(found)}")
