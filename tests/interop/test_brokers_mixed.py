"""Brokers of both kinds in one cluster: two of ours and one of JVM Kafka under our controller, and one and two under JVM Kafka's.

The campaign of the same name (tests/campaigns/mixed_brokers.py) has every end of every kind under every controller, with load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from interop.tools import JvmTools
from interop.waiting import until
from tests.campaigns.mixed_cluster import BROKERS, SESSION_S, MixedBrokers, Moves, write
from tests.campaigns.mixed_quorum import no_complaints
from tests.campaigns.mixed_tools import elect_preferred, tools_agree
from tests.campaigns.reading import read_to_end

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

MIXTURES = {"odradek": ("odradek", "odradek", "jvm"), "jvm": ("odradek", "jvm", "jvm")}
"""The controller's kind -> the brokers'."""


@pytest.fixture(scope="module", params=MIXTURES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedBrokers]:
    made = MixedBrokers(tmp_path_factory.mktemp("mixed"), MIXTURES[request.param], [request.param])
    try:
        made.open()
        yield made
    finally:
        made.kill()


def test_topics_and_records_pass_through_brokers_of_either_kind(cluster: MixedBrokers) -> None:
    """Each topic has two replicas, one of each kind, and is created through either; segments are small, so that they roll."""
    ours, theirs = cluster.one_of_each
    assert cluster.unfenced() == set(BROKERS)
    written = {}
    for through in (ours, theirs):
        name = f"through-{through}"
        cluster.create(name, [ours, theirs], [theirs, ours], through=through, configs={"segment.bytes": "1048576"})
        values = written[name] = {
            partition: [b"%d %d " % (partition, number) + b"." * (number % 2000) for number in range(3000)] for partition in (0, 1)
        }
        for piece, settings in enumerate(({}, {"batch.size": 1_000_000}, {"compression.type": "lz4"})):
            write(cluster.bootstrap, name, {each: values[each][piece * 1000 : piece * 1000 + 1000] for each in values}, **settings)
    for name, values in written.items():
        rows = read_to_end(cluster.bootstrap, name, values)
        assert {partition: [row.value for row in each] for partition, each in rows.items()} == values
    cluster.wait_for_isr()
    assert cluster.differing() == []


@pytest.mark.parametrize("kind", ["odradek", "jvm"])
def test_coordinators_and_leaders_move_when_a_broker_ends(cluster: MixedBrokers, kind: str, jvm_tools: JvmTools) -> None:
    """It leads a third of all partitions and coordinates transactions and groups, which go on at brokers of the other kind. The broker is
    killed when it is of the controller's kind, and stopped in order otherwise.
    """
    broker = cluster.of_kind(kind)
    process = cluster.nodes[broker]
    moves = Moves(cluster, broker, f"of-{kind}")
    moves.begin()
    if cluster.members[cluster.leader()].kind == kind:
        process.kill()
        patience_s = 3 * SESSION_S
    else:
        begin = time.monotonic()
        assert process.stop() in (0, 143), process.log_tail()
        assert time.monotonic() - begin < 10, "the controller lets it go"
        patience_s = SESSION_S / 2
    asked = cluster.living()[0]
    until(lambda: cluster.brokers(asked).get(broker, False), f"broker {broker} to be fenced", patience_s)
    cluster.wait_for_isr(broker)
    moves.end()
    cluster.start(broker)
    cluster.wait_for_isr()
    elect_preferred(cluster, jvm_tools, broker)
    assert cluster.differing() == []


def test_the_tools_say_the_same_whichever_broker_is_asked(cluster: MixedBrokers, jvm_tools: JvmTools) -> None:
    tools_agree(cluster, jvm_tools)
    assert no_complaints(cluster) == []
