"""Raft's requests over connections to peers: which connection, how long, and what the log says of those that go wrong."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.network.peers import Address, Peers
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.protocol.schema import Message
from odradek.server.cluster.raft_channel import PeerRaftChannel

NODE = Address(2, "two", 9093)


class FakePeers:
    def __init__(self) -> None:
        self.sent: list[tuple[Address, str, float, Deferred[Message]]] = []

    def send(self, node: Address, purpose: str, request: Message, *, timeout_s: float) -> Deferred[Message]:
        self.sent.append((node, purpose, timeout_s, Deferred()))
        return self.sent[-1][3]


class RaftChannelWorld:
    def __init__(self) -> None:
        self.peers = FakePeers()
        self.channel = PeerRaftChannel(cast(Peers, self.peers), request_timeout_s=2)

    def ask(self, answer: Message | Exception, node: Address = NODE) -> Deferred[Message]:
        sent = self.channel.send(*node[:3], ApiKey.VOTE, VoteRequest())
        done = self.peers.sent[-1][3]
        done.fail(answer) if isinstance(answer, Exception) else done.complete(answer)
        return sent


def vote(error: ErrorCode = ErrorCode.NONE) -> VoteResponse:
    partition = VoteResponse.PartitionData(error_code=error)
    return VoteResponse(topics=[VoteResponse.TopicData(topic_name="t", partitions=[partition])])


def test_fetches_have_a_connection_of_their_own() -> None:
    world = RaftChannelWorld()
    kinds: list[tuple[ApiKey, Any]] = [
        (ApiKey.FETCH, FetchRequest()),
        (ApiKey.FETCH_SNAPSHOT, FetchSnapshotRequest()),
        (ApiKey.VOTE, VoteRequest()),
        (ApiKey.BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest()),
    ]
    for key, request in kinds:
        world.channel.send(*NODE[:3], key, request)
    assert [(node, purpose, timeout) for node, purpose, timeout, _ in world.peers.sent] == [
        (NODE, purpose, 2) for purpose in ("raft-fetch", "raft-fetch", "raft", "raft")
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (vote(ErrorCode.INVALID_VOTER_KEY), "another node"),
        (VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), "another cluster"),
        (FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), "another cluster"),
        (vote(ErrorCode.INCONSISTENT_VOTER_SET), "controller.quorum.voters"),
    ],
)
def test_what_asking_again_does_not_mend_is_said_once(answer: Message, said: str, caplog: pytest.LogCaptureFixture) -> None:
    world = RaftChannelWorld()
    with caplog.at_level(logging.INFO):
        for _ in range(100):
            assert world.ask(answer).result() is answer
        assert [said in line and "node 2 at two:9093" in line for line in caplog.messages] == [True]
        assert said in world.channel.problems["two", 9093]
        world.ask(vote())
        assert world.channel.problems == {}
        world.ask(answer)
        assert len(caplog.messages) == 2, "it was well in between"


def test_what_is_said_of_one_node_is_not_said_again_when_another_is_well(caplog: pytest.LogCaptureFixture) -> None:
    world = RaftChannelWorld()
    other = Address(3, "three", 9093)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            world.ask(vote(ErrorCode.INVALID_VOTER_KEY))
            world.ask(vote(), other)
        assert len(caplog.messages) == 1
        assert set(world.channel.problems) == {("two", 9093)}
        world.ask(vote(ErrorCode.INVALID_VOTER_KEY), other)
        assert len(caplog.messages) == 2
        assert set(world.channel.problems) == {("two", 9093), ("three", 9093)}


def test_errors_that_pass_are_not_said(caplog: pytest.LogCaptureFixture) -> None:
    world = RaftChannelWorld()
    with caplog.at_level(logging.INFO):
        for code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
            world.ask(vote(code))
        world.ask(VoteResponse(error_code=12345))
    assert caplog.messages == []
    assert world.channel.problems == {}


def test_who_cannot_be_reached_is_known_and_left_to_the_connections_to_say(caplog: pytest.LogCaptureFixture) -> None:
    world = RaftChannelWorld()
    with caplog.at_level(logging.INFO):
        sent = world.ask(KafkaError(ErrorCode.NETWORK_EXCEPTION, "node 2 at two:9093: Connection refused"))
    assert sent.error is not None
    assert caplog.messages == []
    assert world.channel.problems == {("two", 9093): "node 2 at two:9093: Connection refused"}
