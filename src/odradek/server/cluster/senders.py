"""Senders of requests through the inter-broker channel, for packages below the server, bound to their message types."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.internal_channel import broker_address

if TYPE_CHECKING:
    from odradek.metadata.cache import MetadataCache
    from odradek.network.peers import Peers
    from odradek.protocol.messages.alter_partition import AlterPartitionResponse
    from odradek.protocol.schema import Message
    from odradek.replication.alter_partition import SendAlterPartition
    from odradek.replication.fetchers import SendToBroker


def alter_partition_sender(channel: InterBrokerChannel) -> SendAlterPartition:
    """Return the replica manager's sender to the active controller (AlterPartition version 3: topic ids and broker epochs in the ISR)."""

    def send(request: object) -> Deferred[AlterPartitionResponse]:
        from odradek.protocol.messages.alter_partition import AlterPartitionRequest

        assert isinstance(request, AlterPartitionRequest)
        return cast("Deferred[AlterPartitionResponse]", channel.send(TO_CONTROLLER, request.API_KEY, request, 3))

    return send


def fetch_sender(peers: Peers, metadata: MetadataCache, listener: str) -> SendToBroker:
    """Return the fetchers' sender to leaders, at the address of `listener` in the metadata at the time of the request.

    The Deferred fails with KafkaError BROKER_NOT_AVAILABLE when the metadata has no such broker.
    """

    def send(broker_id: int, purpose: str, request: Message, *, at_least: int, at_most: int | None, timeout_s: float) -> Deferred[Message]:
        address = broker_address(metadata, broker_id, listener)
        if address is None:
            return Deferred.failed(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the metadata"))
        return peers.send(address, purpose, request, at_least=at_least, at_most=at_most, timeout_s=timeout_s)

    return send
