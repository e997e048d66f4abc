"""Random keyed, transactional and tombstoned logs: after any cleaning, crash and reopening exactly what must be there is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.testing.simulation.disk import PowerCut, VirtualDisk
from tests.storage.compaction_support import Cleanery, Story, compact_config
from tests.storage.support import checkpoint_recovery_points


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.sampled_from([24 * 4, 24 * 12, 1 << 16]), st.sampled_from([100, 700, 1 << 16]))
def test_exactly_the_last_committed_value_of_each_key_stays(seed: int, memory: int, buffer: int) -> None:
    made = Cleanery(config=compact_config(segment_bytes=600, delete_retention_ms=3_000))
    made.map_memory, made.buffer_bytes = memory, buffer
    story = Story(seed, made)
    for _ in range(4):
        story.write(30)
        story.check()
        if story.rng.random() < 0.3:
            made.reopen()
            story.check()
        while made.clean() is not None:
            story.check()
        story.check_reads()
    end = made.log.log_end_offset
    producers = {each.producer_id: each.last_sequence for each in made.log.producer_state.producers.values()}
    for snapshot in made.names(".snapshot"):
        made.disk.remove(f"{made.log.directory}/{snapshot}")
    made.reopen()
    story.check()
    story.check_reads()
    assert made.log.log_end_offset == end
    assert {each.producer_id: each.last_sequence for each in made.log.producer_state.producers.values()} == producers


def _durable(made: Cleanery) -> None:
    made.log.flush()
    checkpoint_recovery_points(made.logs)


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_disk_operation_leaves_old_or_new(seed: int) -> None:
    def prepared() -> Story:
        made = Cleanery(config=compact_config(segment_bytes=600, delete_retention_ms=3_000))
        story = Story(seed, made)
        story.write(20)
        made.clean_all()
        story.write(20)
        made.roll()
        made.log.producer_state.take_snapshot()
        _durable(made)
        return story

    states = 0
    end = prepared().made.log.log_end_offset
    step = 0
    while True:
        step += 1
        story = prepared()
        made = story.made
        last = made.disk.steps + step

        def cut(operation: str, path: str, disk: VirtualDisk = made.disk, last: int = last) -> None:
            if operation != "read" and disk.steps >= last:
                raise PowerCut

        made.disk.fault = cut
        try:
            made.clean()
        except PowerCut:
            pass
        else:
            break
        made.disk.fault = None
        rng = random.Random(step)
        for survivor in (made.disk.kill(), *[made.disk.crash(rng) for _ in range(2)]):
            made.reopen(survivor)
            story.check_after_crash()
            assert made.log.log_end_offset == end
            assert not [name for name in made.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
            made.clean_all()
            story.check()
            states += 1
    assert step > 30
    assert states > 90
