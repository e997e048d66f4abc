"""Our consumer with brokers of the JVM: logs that were truncated (KIP-320), and fetch sessions (KIP-227)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster
from odradek.base.errors import ErrorCode
from odradek.client import Admin, NewTopic
from tests.client.fetch_support import diverged, judge, session_of_a_reader

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def test_after_an_unclean_election_reading_goes_on_where_the_logs_diverge(tmp_path: Path) -> None:
    cluster = MixedCluster(tmp_path, dict.fromkeys((1, 2, 3), Member("jvm")), settings={"broker.session.timeout.ms": "3000"})
    with cluster:
        nodes = cluster.nodes
        with diverged(cluster.bootstrap, lambda node: nodes[node].kill(), lambda node: nodes[node].start()) as readers:
            judge(*readers)


def test_a_broker_of_the_jvm_has_a_session_as_long_as_the_consumer_is_open(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, {1: Member("jvm")}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 3, 1)])
        session_id, before, after = asyncio.run(session_of_a_reader(cluster.bootstrap))
    assert session_id != 0
    assert (before, after) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
