"""The channel on which the roles of a node talk to each other, and client requests to the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.server.channel import Forwarder, InterBrokerChannel
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.server.node import Node


class OpenChannel(Step[InterBrokerChannel]):
    """Makes the channel; at the end what waits on it fails."""

    name = "dispatch"

    def __init__(self, node: Node) -> None:
        config, services = node.config, node.services
        names = {CONTROLLER: config.controller_listener_names[0], BROKER: config.inter_broker_listener_name}
        self._services = services
        self._channel = InterBrokerChannel(config.node_id, node.clock, services.dispatcher, listener_names=names)
        self._forwarder = Forwarder(self._channel, node.clock, services.dispatcher)

    async def start(self) -> InterBrokerChannel:
        services = self._services
        services.channel = self._channel
        services.forwarder = self._forwarder
        services.dispatcher.forward = self._forwarder.forward
        return self._channel

    async def stop(self) -> None:
        self._channel.close()
