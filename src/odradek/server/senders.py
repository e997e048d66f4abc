"""Requests that rooms below the server send through the inter-broker channel, bound to their message types."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.server.channel import InterBrokerChannel

if TYPE_CHECKING:
    from odradek.protocol.messages.alter_partition import AlterPartitionResponse
    from odradek.replication.alter_partition import SendAlterPartition


def alter_partition_sender(channel: InterBrokerChannel) -> SendAlterPartition:
    """How the replica manager reaches the active controller (AlterPartition version 3: topic ids and broker epochs in the ISR)."""

    def send(request: object) -> Deferred[AlterPartitionResponse]:
        from odradek.protocol.messages.alter_partition import AlterPartitionRequest

        assert isinstance(request, AlterPartitionRequest)
        return cast("Deferred[AlterPartitionResponse]", channel.send(TO_CONTROLLER, request.API_KEY, request, 3))

    return send
