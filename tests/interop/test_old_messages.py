"""A segment from before Kafka 0.11: messages of magic 0 and 1 are recovered, found and served as JVM Kafka 4.3.1 does.

Nothing is converted down any more (KIP-724): a fetch returns them as they lie there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, run_jvm_tool
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

TIMESTAMP = 1_700_000_000_000
TOPIC = "old"
RECORDS = 36


def fetch(peer: Peer, offset: int, max_bytes: int, version: int) -> tuple[int, int, bytes]:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])]
    )
    found = peer.call(ApiKey.FETCH, version, request).responses[0].partitions[0]
    return found.error_code, found.high_watermark, bytes(found.records or b"")


def offset_for(peer: Peer, timestamp: int) -> tuple[int, int, int]:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[partition])])
    found = peer.call(ApiKey.LIST_OFFSETS, 7, request).topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset


def answers(broker: BrokerProcess) -> list[object]:
    peer = Peer(broker.name, broker.port)
    try:
        peer.learn(TOPIC)
        found: list[object] = [fetch(peer, offset, 1 << 20, 12) for offset in range(RECORDS)]
        found += [fetch(peer, offset, limit, version) for offset in (0, 4, 14, 30) for limit in (10, 200) for version in (4, 12)]
        found += [offset_for(peer, time) for time in (-1, -2, -3, 0, *range(TIMESTAMP + 10, TIMESTAMP + 38))]
    finally:
        peer.close()
    return found


def story(broker: BrokerProcess, segment: Path) -> tuple[list[list[object]], dict[str, bytes]]:
    """What a broker answers that finds the segment after a clean shutdown and after a kill, and the files it leaves."""
    directory = broker.data / f"{TOPIC}-0"
    found: list[list[object]] = []
    try:
        broker.start()
        peer = Peer(broker.name, broker.port)
        peer.create_topic(TOPIC, 1, {"index.interval.bytes": "100"})
        peer.close()
        broker.stop()
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        shutil.copy(segment, directory / f"{0:020d}.log")
        broker.start()
        found.append(answers(broker))
        broker.kill()
        broker.start()
        found.append(answers(broker))
        broker.stop()
    finally:
        broker.kill()
    suffixes = {".log", ".index", ".timeindex", ".snapshot"}
    return found, {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix in suffixes}


def test_messages_of_magic_0_and_1_are_served_as_the_jvm_does(tmp_path: Path) -> None:
    segment = tmp_path / "old.log"
    done = run_jvm_tool(str(Path(__file__).with_name("jvm") / "OldMessages.java"), str(segment), str(TIMESTAMP))
    assert done.returncode == 0, done.stderr.decode()
    ours, our_files = story(OdradekBroker(tmp_path / "odradek"), segment)
    theirs, their_files = story(JvmBroker(tmp_path / "jvm", heap="512m"), segment)
    assert ours == theirs
    assert our_files == their_files
    assert our_files[f"{0:020d}.log"] == segment.read_bytes()
