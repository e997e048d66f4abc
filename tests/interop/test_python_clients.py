"""What one Python client writes, all read: each codec, keys and values null, empty and large, headers, idempotence; on both brokers."""

from __future__ import annotations

import pytest

from interop.peers import BrokerProcess
from odradek.client import Admin, NewTopic, TopicPartition
from odradek.client.admin.types.topics import OffsetSpec
from tests.interop.matrix import CODECS, SAMPLES, codecs_on_disk
from tests.interop.pair import Pair
from tests.interop.python_clients import MAX_BYTES, READERS, WRITERS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
"""The clients' own warnings, not ours."""


@pytest.fixture(params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def peer(request: pytest.FixtureRequest) -> BrokerProcess:
    if request.param == "odradek":
        ours: BrokerProcess = request.getfixturevalue("broker")
        return ours
    pair: Pair = request.getfixturevalue("pair")
    return pair.brokers[1]


@pytest.mark.parametrize("writer", WRITERS)
def test_all_clients_read_what_one_writes(peer: BrokerProcess, writer: str) -> None:
    topic = f"written-by-{writer}"
    with Admin(bootstrap_servers=peer.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, len(CODECS), 1, {"max.message.bytes": str(MAX_BYTES)})])
        # Until every leader answers: what librdkafka without idempotence has to send again comes behind what it sends next.
        admin.list_offsets({TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(len(CODECS))})
    for partition, codec in enumerate(CODECS):
        WRITERS[writer](peer.bootstrap, topic, partition, codec, SAMPLES)
        assert_codec(peer, topic, partition, codec)
    for reader, read in READERS.items():
        for partition, codec in enumerate(CODECS):
            assert read(peer.bootstrap, topic, partition, len(SAMPLES)) == list(SAMPLES), f"{codec} by {writer}, read by {reader}"


def assert_codec(peer: BrokerProcess, topic: str, partition: int, codec: str) -> None:
    """The batches on disk are in the codec asked for; clients send those uncompressed that compressing did not make smaller."""
    found = codecs_on_disk(peer.data / f"{topic}-{partition}")
    assert CODECS[codec] in found
    assert found <= {CODECS[codec], CODECS["none"]}
