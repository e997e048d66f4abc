"""Three nodes of ours as processes on loopback: the quorum forms, serves, and survives kill -9 of the active controller."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster
from tests.campaigns.mixed_quorum import Load, end_leader, no_complaints


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_three_processes_survive_the_kill_of_the_active_controller(dynamic: bool, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, {1: Member("odradek"), 2: Member("odradek"), 3: Member("odradek")}, dynamic=dynamic) as cluster:
        assert cluster.brokers(1) == {1: False, 2: False, 3: False}
        load = Load(cluster, random.Random(1))
        load.start()
        try:
            for how in ("kill", "stop"):
                before = cluster.caught_up().epoch
                acked = len(load.acked)
                leader = end_leader(cluster, how).leader
                assert cluster.caught_up().epoch > before
                assert len(load.acked) > acked, f"topics are created without node {leader}"
        finally:
            load.stopping.set()
            load.join()
        assert no_complaints(cluster) == []
