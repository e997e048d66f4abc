"""Three nodes of ours as processes on loopback: the quorum forms, serves, and survives kill -9 of the active controller."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster
from interop.waiting import until
from tests.campaigns.mixed_quorum import Load, end_leader, no_complaints

_PATIENCE_S = 30


def _more(load: Load, acked: int) -> bool:
    return len(load.acked) > acked


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [False, True])
def test_three_processes_survive_the_kill_of_the_active_controller(dynamic: bool, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, {1: Member("odradek"), 2: Member("odradek"), 3: Member("odradek")}, dynamic=dynamic) as cluster:
        until(lambda: cluster.brokers(1) == {1: False, 2: False, 3: False}, "the first node to name all brokers, unfenced", _PATIENCE_S)
        load = Load(cluster, random.Random(1))
        load.start()
        try:
            for how in ("kill", "stop"):
                before = cluster.caught_up().epoch
                acked = len(load.acked)
                leader = end_leader(cluster, how).leader
                assert cluster.caught_up().epoch > before
                until(partial(_more, load, acked), f"topics to be created after the end of node {leader}", _PATIENCE_S)
        finally:
            load.stopping.set()
            load.join()
        assert no_complaints(cluster) == []
