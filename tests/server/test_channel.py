"""Where the channel of a node sends what: to itself, to a broker's registered address, to whoever leads the quorum, each on its line."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.scopes import BROKER, CONTROLLER, TO_CONTROLLER
from odradek.metadata.cache import MetadataCache
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.network.peers import Address, Peers
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.metadata_records import RegisterBrokerRecord
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.schema import Message
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.internal_channel import broker_address
from odradek.server.requests.dispatch import Dispatcher
from tests.clock import ManualClock

NODE = Principal("User", "node")
HERE, THERE = Address(1, "one", 9093), Address(2, "two", 9093)


class FakePeers:
    def __init__(self) -> None:
        self.sent: list[tuple[Address, str, int | None, float]] = []
        self.answers: list[Deferred[Message]] = []

    def send(self, node: Address, purpose: str, request: Message, *, at_most: int | None = None, timeout_s: float) -> Deferred[Message]:
        self.sent.append((node, purpose, at_most, timeout_s))
        self.answers.append(Deferred())
        return self.answers[-1]


class LocalDispatcher:
    """Says on which listener a request of this node to itself appears."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.principals: list[Principal] = []

    def handle_embedded(self, frame: bytes, *, scope: str, listener_name: str, peer_host: str, principal: Principal) -> tuple[Any, Any]:
        self.seen.append((scope, listener_name))
        self.principals.append(principal)
        return None, Deferred()


class ChannelWorld:
    def __init__(self, controller: Address | None = THERE) -> None:
        self.clock = ManualClock()
        self.peers = FakePeers()
        self.local = LocalDispatcher()
        self.controller = controller
        self.channel = InterBrokerChannel(
            1,
            self.clock,
            cast(Dispatcher, self.local),
            listener_names={BROKER: "PLAINTEXT", CONTROLLER: "CONTROLLER"},
            principal=lambda scope: NODE if scope == CONTROLLER else ANONYMOUS,
            peers=cast(Peers, self.peers),
            broker={2: Address(2, "two", 9092)}.get,
            controller=lambda: self.controller,
        )

    def send(self, destination: int, request: Message, version: int = 0, **how: Any) -> Deferred[Message]:
        return self.channel.send(destination, request.API_KEY, request, version, **how)


@pytest.mark.parametrize(
    ("destination", "request_", "purpose"),
    [
        (TO_CONTROLLER, BrokerRegistrationRequest(), "lifecycle"),
        (TO_CONTROLLER, BrokerHeartbeatRequest(), "lifecycle"),
        (TO_CONTROLLER, EnvelopeRequest(), "forward"),
        (TO_CONTROLLER, AlterPartitionRequest(), "rpc"),
        (TO_CONTROLLER, AllocateProducerIdsRequest(), "rpc"),
        (2, WriteTxnMarkersRequest(), "markers"),
        (2, AddPartitionsToTxnRequest(), "rpc"),
    ],
)
def test_what_may_wait_long_has_a_line_of_its_own(destination: int, request_: Message, purpose: str) -> None:
    world = ChannelWorld()
    world.send(destination, request_, 3, timeout_s=7)
    address = THERE if destination == TO_CONTROLLER else Address(2, "two", 9092)
    assert world.peers.sent == [(address, purpose, 3, 7)]


def test_a_broker_that_nobody_knows_cannot_be_asked() -> None:
    world = ChannelWorld()
    answer = world.send(3, AddPartitionsToTxnRequest())
    assert isinstance(answer.error, KafkaError)
    assert answer.error.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert world.peers.sent == []


def test_this_node_is_asked_on_the_listener_of_the_role_that_answers() -> None:
    world = ChannelWorld(HERE)
    world.send(TO_CONTROLLER, AllocateProducerIdsRequest())
    world.send(1, AddPartitionsToTxnRequest(), 4)
    world.clock.advance_s(0)
    assert world.local.seen == [(CONTROLLER, "CONTROLLER"), (BROKER, "PLAINTEXT")]
    assert world.local.principals == [NODE, ANONYMOUS]
    assert world.peers.sent == []


def test_news_of_a_controller_move_what_waits_on_the_next_turn() -> None:
    world = ChannelWorld(None)
    answer = world.send(TO_CONTROLLER, AllocateProducerIdsRequest())
    world.controller = THERE
    world.channel.controller_changed()
    assert world.peers.sent == [], "whoever told may be in the middle of something"
    world.clock.advance_s(0)
    assert [node for node, *_ in world.peers.sent] == [THERE]
    world.peers.answers[0].complete(AllocateProducerIdsResponse(producer_id_start=5))
    assert answer.result() == AllocateProducerIdsResponse(producer_id_start=5)


def test_after_the_close_nothing_is_sent() -> None:
    world = ChannelWorld(None)
    waiting = world.send(TO_CONTROLLER, AllocateProducerIdsRequest())
    world.channel.close()
    for answer in (waiting, world.send(2, AddPartitionsToTxnRequest()), world.send(TO_CONTROLLER, AllocateProducerIdsRequest())):
        assert isinstance(answer.error, KafkaError)
        assert answer.error.code is ErrorCode.NETWORK_EXCEPTION
    assert world.peers.sent == []


def test_brokers_are_reached_at_the_listener_for_brokers_that_they_registered() -> None:
    delta = MetadataDelta(EMPTY)
    ends = [
        RegisterBrokerRecord.BrokerEndpoint(name="CLIENTS", host="outside", port=9092, security_protocol=0),
        RegisterBrokerRecord.BrokerEndpoint(name="INSIDE", host="inside", port=9094, security_protocol=0),
    ]
    delta.replay(RegisterBrokerRecord(broker_id=2, incarnation_id=UUID(int=5), broker_epoch=5, end_points=ends))
    metadata = MetadataCache(delta.apply(MetadataProvenance(1, 1, 0)))
    assert broker_address(metadata, 2, "INSIDE") == Address(2, "inside", 9094, "INSIDE")
    assert broker_address(metadata, 2, "OTHER") is None
    assert broker_address(metadata, 3, "INSIDE") is None


def test_the_keys_of_connections_reach_them() -> None:
    from odradek.config.broker import standalone_config
    from odradek.server.cluster.internal_channel import peer_settings

    settings = peer_settings(
        standalone_config(
            {
                "socket.connection.setup.timeout.ms": "1000",
                "socket.connection.setup.timeout.max.ms": "2000",
                "connections.max.idle.ms": "3000",
            }
        )
    )
    assert (settings.setup_timeout_s, settings.setup_timeout_max_s, settings.idle_s) == (1, 2, 3)
