"""Requests of the metadata quorum on a controller listener: what a version can carry, and what is refused before the core sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from odradek.consensus import messages as raft
from odradek.consensus.voters import Endpoint, OffsetAndEpoch
from odradek.handlers.scopes import CONTROLLER
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.vote import VoteRequest
from odradek.protocol.schema import Message, records_view
from tests.handlers.support import Broker

TOPIC = "__cluster_metadata"
AT = (Endpoint("CONTROLLER", "leader", 9093),)
SNAPSHOT = OffsetAndEpoch(3, 1)


class LeaderLog:
    """Ends at 9, and says of each read how far it goes; a snapshot is as large as one may ask."""

    end = OffsetAndEpoch(9, 5)

    def read(self, offset: int, *, up_to: int, max_bytes: int) -> bytes:
        return b"%d to %d, %d bytes" % (offset, up_to, max_bytes)

    def read_snapshot_bytes(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        return b"s" * size


class Leader:
    """Stands for the node's part in the quorum: it is known to lead, and agrees to everything."""

    cluster_id = "cluster"
    fetch_max_bytes = fetch_snapshot_max_bytes = 1000

    def __init__(self) -> None:
        self.asked: list[raft.Request] = []
        self.log = LeaderLog()
        self.answers: dict[type, raft.Response] = {}
        """Instead of its own."""

    def request(self, request: raft.Request) -> Deferred[raft.Response]:
        self.asked.append(request)
        answers: dict[type, raft.Response] = {
            raft.VoteRequest: raft.VoteResponse(ErrorCode.NONE, 1, 5, False, AT),
            raft.BeginQuorumEpochRequest: raft.BeginQuorumEpochResponse(ErrorCode.NONE, 1, 5, AT),
            raft.EndQuorumEpochRequest: raft.EndQuorumEpochResponse(ErrorCode.NONE, 1, 5, AT),
            raft.FetchRequest: raft.FetchResponse(ErrorCode.NONE, 1, 5, endpoints=AT),
            raft.FetchSnapshotRequest: raft.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 1, 5, SNAPSHOT, endpoints=AT),
            **self.answers,
        }
        answer: Deferred[raft.Response] = Deferred()
        answer.complete(answers[type(request)])
        return answer

    def endpoint_for_peers(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        return endpoints[0]


@pytest.fixture
def broker() -> Broker:
    return Broker(kraft=Leader())


def only(struct: Any, **fields: Any) -> list[Any]:
    return [struct(**fields)]


def fetch(version: int, **fields: Any) -> FetchRequest:
    partition = FetchRequest.FetchPartition(**({"last_fetched_epoch": 0} if version >= 12 else {}))
    naming = {"topic_id": METADATA_TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    return FetchRequest(**{"topics": only(FetchRequest.FetchTopic, partitions=[partition], **naming), "max_bytes": 100, **fields})


def message(api_key: ApiKey, version: int) -> Message:
    if api_key == ApiKey.FETCH:
        return fetch(version)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        of = FetchSnapshotRequest
        return of(topics=only(of.TopicSnapshot, name=TOPIC, partitions=[of.PartitionSnapshot()]))
    kind: Any = {
        ApiKey.VOTE: VoteRequest,
        ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochRequest,
        ApiKey.END_QUORUM_EPOCH: EndQuorumEpochRequest,
    }[api_key]
    return cast(Message, kind(topics=only(kind.TopicData, topic_name=TOPIC, partitions=[kind.PartitionData()])))


SINCE = {ApiKey.VOTE: 1, ApiKey.BEGIN_QUORUM_EPOCH: 1, ApiKey.END_QUORUM_EPOCH: 1, ApiKey.FETCH_SNAPSHOT: 1, ApiKey.FETCH: 17}
"""The versions that say where the leader is."""


@pytest.mark.parametrize(("api_key", "since"), SINCE.items())
def test_where_the_leader_is_stands_in_the_versions_that_have_a_place_for_it(broker: Broker, api_key: ApiKey, since: int) -> None:
    """An answer that its version cannot carry would close the connection of every older node."""
    first = 13 if api_key == ApiKey.FETCH else 0
    for version in range(first, API_INFO[api_key].max_version + 1):
        answer = broker.ask(message(api_key, version), version, scope=CONTROLLER)
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(1, "leader", 9093)] * (version >= since)


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_a_fetch_that_names_no_topic_id_is_refused(broker: Broker, version: int) -> None:
    answer = broker.ask(fetch(version), version, scope=CONTROLLER)
    assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_REQUEST if version >= 7 else 0, [])


def test_a_fetch_of_another_topic_or_of_fewer_than_no_bytes_is_refused(broker: Broker) -> None:
    topics = only(FetchRequest.FetchTopic, topic_id=ZERO_UUID, partitions=[FetchRequest.FetchPartition(last_fetched_epoch=0)])
    for wrong in (fetch(17, topics=topics), fetch(17, topics=[]), fetch(17, max_bytes=-1)):
        assert broker.ask(wrong, 17, scope=CONTROLLER).error_code == ErrorCode.INVALID_REQUEST
    assert cast(Leader, broker.parts.kraft).asked == []
    assert broker.ask(fetch(17, max_bytes=0), 17, scope=CONTROLLER).error_code == 0


@pytest.mark.parametrize("api_key", SINCE)
def test_a_request_without_topics_or_partitions_is_refused(broker: Broker, api_key: ApiKey) -> None:
    """JVM Kafka 4.3.1 ends at a FetchSnapshot without either."""
    version = API_INFO[api_key].max_version
    empty: Any = message(api_key, version)
    empty.topics[0].partitions = []
    assert broker.ask(empty, version, scope=CONTROLLER).error_code == ErrorCode.INVALID_REQUEST
    empty.topics = []
    assert broker.ask(empty, version, scope=CONTROLLER).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_controller_asked_for_the_brokers_says_so_in_the_words_of_the_version(broker: Broker, version: int) -> None:
    answer = broker.ask(DescribeClusterRequest(), version, scope=CONTROLLER)
    assert answer.error_code == (ErrorCode.INVALID_REQUEST if version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE)


@pytest.mark.parametrize(("replica_id", "high_watermark", "read"), [(2, 4, "2 to 9"), (-1, 4, "2 to 4"), (-1, -1, "2 to 0")])
def test_who_is_no_replica_sees_what_is_committed(broker: Broker, replica_id: int, high_watermark: int, read: str) -> None:
    leader = cast(Leader, broker.parts.kraft)
    leader.answers[raft.FetchRequest] = raft.FetchResponse(ErrorCode.NONE, 1, 5, high_watermark, 0, read_from=2)
    asked = fetch(17, replica_state=FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=-1))
    (partition,) = broker.ask(asked, 17, scope=CONTROLLER).responses[0].partitions
    assert bytes(records_view(partition.records)) == f"{read}, 100 bytes".encode()


@pytest.mark.parametrize("asked", [400, 1 << 30])
def test_pieces_of_a_snapshot_and_of_the_log_are_as_large_as_this_node_sends_them_at_most(broker: Broker, asked: int) -> None:
    leader = cast(Leader, broker.parts.kraft)
    leader.answers[raft.FetchSnapshotRequest] = raft.FetchSnapshotResponse(ErrorCode.NONE, 1, 5, SNAPSHOT, 1 << 30, 0, max_bytes=asked)
    answer = broker.ask(message(ApiKey.FETCH_SNAPSHOT, 1), 1, scope=CONTROLLER)
    assert len(bytes(records_view(answer.topics[0].partitions[0].unaligned_records))) == min(asked, 1000)
    leader.answers[raft.FetchRequest] = raft.FetchResponse(ErrorCode.NONE, 1, 5, 4, 0, read_from=2)
    (partition,) = broker.ask(fetch(17, max_bytes=asked), 17, scope=CONTROLLER).responses[0].partitions
    assert bytes(records_view(partition.records)).endswith(b"%d bytes" % min(asked, 1000))
