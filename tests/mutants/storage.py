"""Bugs of the room storage."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "roll-by-first-offset",
        "storage/log.py",
        "segment.should_roll(size, last_offset,",
        "segment.should_roll(size, base_offset,",
        "a relative offset in an index may exceed 31 bits",
        "storage/test_log.py::test_a_batch_rolls_when_its_last_offset_outgrows_31_bits",
    ),
)
