"""Power cuts before each change of a disk."""

from __future__ import annotations

import random
from collections.abc import Callable

from odradek.testing.simulation.disk import ALL, DIRECTORIES, NONE, PREFIX, SUBSET, VirtualDisk

MODES = ((NONE, NONE), (ALL, ALL), (NONE, ALL), (ALL, NONE), (PREFIX, SUBSET), (PREFIX, SUBSET), (DIRECTORIES, SUBSET))


def cut_during(disk: VirtualDisk, action: Callable[[], object]) -> list[VirtualDisk]:
    """What power cuts before each change that `action` makes to the disk, and after the last, may leave."""
    rng = random.Random(17)
    found: list[VirtualDisk] = []

    def cut(operation: str, _: str) -> None:
        if operation != "read":
            found.extend(disk.crash(rng, names=names, data=data) for names, data in MODES)

    disk.fault = cut
    action()
    disk.fault = None
    found.extend(disk.crash(rng, names=names, data=data) for names, data in MODES)
    return found
