"""Listener for metrics, if odradek.metrics.listener is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.network.acceptor import ListenError
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.network.acceptor import Acceptor
    from odradek.server.metering.meters import Meters
    from odradek.server.start.node import Node


class ServeMetrics(Step["Meters | None"]):
    """Step that serves metrics and health, early in the start. Without odradek.metrics.listener its modules are not imported."""

    name = "metrics"

    def __init__(self, node: Node, acceptor: Acceptor) -> None:
        self._node = node
        self._acceptor = acceptor
        self._meters: Meters | None = None

    async def start(self) -> Meters | None:
        address = self._node.config.metrics_listener
        if address is None:
            return None
        from odradek.server.metering.meters import Meters

        host, port = address
        self._meters = self._node.meters = Meters(self._node, self._acceptor)
        try:
            await self._meters.start(host, port)
        except OSError as error:
            raise ListenError("odradek.metrics.listener", host, port, error) from None
        return self._meters

    async def stop(self) -> None:
        if self._meters is not None:
            await self._meters.stop()
