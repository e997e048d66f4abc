"""Groups of every kind and transactions in every state, compacted and left open, survive a change of implementation there and back."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from interop.differential.compare import Plain
from interop.differential.consumer_groups import alone, beat, left, static
from interop.differential.groups import call, committed, emptied, stable, wait_for_groups
from interop.differential.peer import Peer
from interop.differential.transactions import (
    aborted_0,
    added,
    all_settled,
    committed_0,
    committed_2,
    ended,
    fill_transactions,
    initialized,
    known_producers,
    producer_of,
    written,
)
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.tools import JvmTools
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.max.session.timeout.ms": "600000",
}
PATIENCE_S = 90.0
UNSTABLE_OFFSET_COMMIT = 88
WIDE = 40
"""Partitions of the topic whose offsets fill segments."""

CLASSIC = ("live", "static", "left", "simple", "expanded", "busy", "pending-commit", "pending-abort", "taken")
CONSUMERS = ("new-live", "new-static", "new-left")
TRANSACTIONS = ("begun", "added", "written", "committed", "aborted", "committed-2", "pending-commit", "pending-abort", "taken")


def group_names(prefix: str, kinds: Iterable[str]) -> list[str]:
    return [f"{prefix}-{kind}" for kind in kinds]


def commit_in_transaction(peer: Peer, name: str, offset: int) -> None:
    """Offsets of the group that is called as the transactional id, in a transaction that stays open."""
    producer_id, epoch = initialized(peer, name)
    add = AddOffsetsToTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=name)
    assert call(peer, ApiKey.ADD_OFFSETS_TO_TXN, 3, add).error_code == 0
    topic, partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic, TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    request = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[topic(name="plain", partitions=[partition(partition_index=0, committed_offset=offset, committed_metadata="in")])],
    )
    assert peer.call(ApiKey.TXN_OFFSET_COMMIT, 3, request).topics[0].partitions[0].error_code == 0


def fill_and_compact(broker: BrokerProcess, peer: Peer, prefix: str) -> None:
    """More than two segments of either topic, most of it superseded; then waits for the cleaner."""
    wide = {"wide": tuple(range(WIDE))}
    for round_ in range(24):
        committed(peer, f"{prefix}-busy", topics=wide, metadata=f"{round_:4}" * 750)
    long_id = f"{prefix}-{'x' * 12_000}"
    for _ in range(200):
        initialized(peer, long_id)
    for topic in (OFFSETS, STATE):
        wait_until_cleaned(broker, topic)


def wait_until_cleaned(broker: BrokerProcess, topic: str) -> None:
    """Up to the segment that is being written."""
    active = max(int(path.stem) for path in (broker.data / f"{topic}-0").glob("*.log"))
    assert active > 0, f"{topic} has one segment only"
    deadline = time.monotonic() + PATIENCE_S
    while cleaned_up_to(broker, topic) < active:
        assert time.monotonic() < deadline, f"{broker.name} does not clean {topic}"
        time.sleep(0.05)


def cleaned_up_to(broker: BrokerProcess, topic: str) -> int:
    path = broker.data / "cleaner-offset-checkpoint"
    found = re.search(rf"^{topic} 0 (\d+)$", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) if found else -1


def create_topics(peer: Peer) -> None:
    for topic, partitions in (("plain", 1), ("three", 3), ("wide", WIDE)):
        peer.create_topic(topic, partitions)
    fill_transactions(peer)


def leave_behind(broker: BrokerProcess, peer: Peer, prefix: str) -> None:
    """Groups and transactions whose names begin so, some in each state; the last ones stay open."""
    wait_for_groups(peer)
    for kind in ("simple", "pending-commit", "pending-abort", "taken"):
        committed(peer, f"{prefix}-{kind}")
    stable(peer, f"{prefix}-live")
    stable(peer, f"{prefix}-static", group_instance_id="i")
    emptied(peer, f"{prefix}-left")
    committed(peer, f"{prefix}-gone")
    deleted = peer.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[f"{prefix}-gone"]))
    assert deleted.results[0].error_code == 0
    alone(peer, f"{prefix}-new-live")
    static(peer, f"{prefix}-new-static")
    left(peer, f"{prefix}-new-left")
    initialized(peer, f"{prefix}-begun")
    committed_0(peer, f"{prefix}-committed")
    aborted_0(peer, f"{prefix}-aborted")
    committed_2(peer, f"{prefix}-committed-2")
    commit_in_transaction(peer, f"{prefix}-taken", 8)
    ended(peer, f"{prefix}-taken", commit=True, version=4)
    all_settled(peer)
    fill_and_compact(broker, peer, prefix)
    committed(peer, f"{prefix}-expanded", topics={"three": (0, 1, 2), "plain": (0,)})
    commit_in_transaction(peer, f"{prefix}-pending-commit", 9)
    commit_in_transaction(peer, f"{prefix}-pending-abort", 9)
    added(peer, f"{prefix}-added")
    written(peer, f"{prefix}-written")


def offsets(peer: Peer, groups: Iterable[str], *, require_stable: bool = False) -> dict[str, Any]:
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    answer = peer.call(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=wanted, require_stable=require_stable))
    assert not any(group.error_code for group in answer.groups), answer
    return {
        group.group_id: {
            (topic.name, each.partition_index): (each.committed_offset, each.metadata, each.error_code)
            for topic in group.topics
            for each in topic.partitions
        }
        for group in answer.groups
    }


def everything(peer: Peer, *prefixes: str) -> dict[str, Any]:
    """All that a client can ask about what was left behind, in one form for both brokers."""

    def ask(api_key: ApiKey, version: int, request: Any) -> Any:
        return Plain(peer, api_key).value(peer.call(api_key, version, request))

    classic = [name for prefix in prefixes for name in group_names(prefix, CLASSIC)]
    consumers = [name for prefix in prefixes for name in group_names(prefix, CONSUMERS)]
    ids = [name for prefix in prefixes for name in group_names(prefix, TRANSACTIONS)]
    return {
        "groups": ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()),
        "classic": ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=classic)),
        "consumer": ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=consumers)),
        "offsets": offsets(peer, [*classic, *consumers]),
        "transactions": ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=ids)),
    }


def take_over(broker: BrokerProcess, former: Peer, wanted: dict[str, Any], *prefixes: str) -> Peer:
    """The broker says of everything what the former one said."""
    peer = Peer(broker.name, broker.port)
    for topic in ("plain", "three", "wide", "transactional"):
        peer.learn(topic)
    wait_for_groups(peer)
    peer.spellings |= former.spellings
    peer.names |= former.names
    known_producers.update({(peer.name, each): found for (name, each), found in known_producers.items() if name == former.name})
    initialized(peer, "warm-0")
    found = everything(peer, *prefixes)
    for part, value in wanted.items():
        assert found[part] == value, part
    return peer


def go_on(peer: Peer, prefix: str) -> None:
    """The members of before are members still, and the transactions of before end."""
    pending = group_names(prefix, ("pending-commit", "pending-abort"))
    for group in pending:
        assert offsets(peer, [group])[group][("plain", 0)] == (7, "note", 0)
        assert offsets(peer, [group], require_stable=True)[group][("plain", 0)][2] == UNSTABLE_OFFSET_COMMIT
    ended(peer, pending[0], commit=True, version=4)
    ended(peer, pending[1], commit=False, version=4)
    ended(peer, f"{prefix}-added", commit=True, version=4)
    ended(peer, f"{prefix}-written", commit=False, version=5)
    assert offsets(peer, [pending[0]], require_stable=True)[pending[0]][("plain", 0)] == (9, "in", 0)
    assert offsets(peer, [pending[1]], require_stable=True)[pending[1]][("plain", 0)] == (7, "note", 0)
    assert beat(peer, f"{prefix}-new-live", epoch=2).member_epoch == 2
    assert beat(peer, f"{prefix}-new-static", epoch=2, instance_id="i").member_epoch == 2
    producer_id, epoch = producer_of(peer, f"{prefix}-begun")
    assert initialized(peer, f"{prefix}-begun") == (producer_id, epoch + 1)


def decoded(tools: JvmTools, broker: BrokerProcess, topic: str, decoder: str) -> list[str]:
    """The records of a topic as DumpLogSegments reads them."""
    files = [str(path) for path in sorted((broker.data / f"{topic}-0").glob("*.log"))]
    done = tools.run("org.apache.kafka.tools.DumpLogSegments", decoder, "--files", ",".join(files))
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().splitlines()
    assert not [line for line in lines if re.search(r"Exception|isvalid: false|corrupt|UNKNOWN|unknown", line)]
    records = [line for line in lines if line.startswith("|") and "endTxnMarker" not in line]
    assert all(re.search(r"key: \{.*payload: (\{|<DELETE>)", line) for line in records), [line for line in records if "payload" not in line]
    return records


def test_taking_over_there_and_back(tmp_path: Path, jvm_tools: JvmTools) -> None:
    ours, theirs, ours_again = OdradekBroker(tmp_path, CONFIG), JvmBroker(tmp_path, CONFIG, heap="400m"), OdradekBroker(tmp_path, CONFIG)
    for broker in (theirs, ours_again):
        broker.port, broker.controller_port = ours.port, ours.controller_port
    with ours, contextlib.closing(Peer(ours.name, ours.port)) as first:
        create_topics(first)
        leave_behind(ours, first, "first")
        wanted = everything(first, "first")
    groups = decoded(jvm_tools, ours, OFFSETS, "--offsets-decoder")
    transactions = decoded(jvm_tools, ours, STATE, "--transaction-log-decoder")
    for records, names in ((groups, ("busy", "new-static", "gone", "pending-abort")), (transactions, ("added", "committed-2", "begun"))):
        for name in names:
            assert any(f'"first-{name}"' in line for line in records), name
    with theirs, contextlib.closing(take_over(theirs, first, wanted, "first")) as second:
        go_on(second, "first")
        leave_behind(theirs, second, "second")
        wanted = everything(second, "first", "second")
    with ours_again, contextlib.closing(take_over(ours_again, second, wanted, "first", "second")) as third:
        go_on(third, "second")
