"""Listeners of a node: bound early, so that a used port is noticed first; served when the node is ready for requests."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.config.keys.cluster import CONTROLLED_SHUTDOWN_ENABLE, CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS
from odradek.config.keys.network import CONNECTION_FAILED_AUTHENTICATION_DELAY_MS, SOCKET_LISTEN_BACKLOG_SIZE, SOCKET_REQUEST_MAX_BYTES
from odradek.config.keys.odradek_only import BROKER_SESSION_DISCONNECT_TIMEOUT_MS, ODRADEK_LOG_SLOW_REQUEST_MS
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.controller.core.brokers import fence_broker
from odradek.controller.core.result import ControllerResult
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.probes import Probes
from odradek.server.cluster.disconnects import HeartbeatConnections
from odradek.server.cluster.internal_channel import broker_address
from odradek.server.cluster.lifecycle import BrokerState
from odradek.server.cluster.registration import AdvertisedListener
from odradek.server.requests.connection_rates import ConnectionLimits
from odradek.server.requests.dynamic_listeners import DynamicListeners
from odradek.server.step import Step
from odradek.server.upkeep.reconfiguration import ConnectionCounts, acceptor_limits

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.listeners import Endpoint
    from odradek.config.sasl import ListenerSasl
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.kraft.node import KRaftNode
    from odradek.handlers.services import ControllerParts
    from odradek.network.inbound import FrameHandler
    from odradek.server.cluster.registration import BrokerRegistrar
    from odradek.server.security.authentication import SaslFrames
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT_S = 300.0
"""Seconds that the controller may take to move the leaders away (KafkaBroker.shutdown)."""

_LOOK_S = 1.0
"""Seconds after which a broker's listener that keeps a connection open counts as alive."""


class Listeners:
    """Bound listeners (`Node.bound_listeners`), their acceptor and its limits."""

    def __init__(self, acceptor: Acceptor, bound: list[BoundListener], limits: ConnectionLimits) -> None:
        self.acceptor = acceptor
        self.bound = bound
        self.limits = limits
        self.dynamic: DynamicListeners

    def port(self, name: str) -> int:
        """Return the port of a listener. Raises KeyError when no listener has this name."""
        for bound in self.bound:
            if bound.name == name:
                return bound.port
        raise KeyError(name)

    def reached_at(self, endpoints: Sequence[Endpoint]) -> list[AdvertisedListener]:
        """Return the endpoints as advertised to others. A missing host becomes this machine's name, and port 0 the port that the system has
        chosen.
        """
        return [
            AdvertisedListener(
                each.listener,
                each.host or socket.getfqdn(),
                each.port or self.port(each.listener),
                SECURITY_PROTOCOLS[each.security_protocol],
            )
            for each in endpoints
        ]

    async def serve(self, scope: str) -> None:
        """Serve the listeners of `scope` from now on."""
        for bound in self.bound:
            if bound.scope == scope:
                await self.acceptor.serve(bound)


class BindListeners(Step[Listeners]):
    """Step that binds all listeners without serving them. Its stop closes the remaining connections."""

    name = "listeners"

    def __init__(self, node: Node) -> None:
        config, services = node.config, node.services
        self._node = node
        slow_ms = config[ODRADEK_LOG_SLOW_REQUEST_MS]
        if slow_ms >= 0:
            node.dispatcher.slow.threshold_s = slow_ms / 1000
        handler = node.dispatcher if node.wrap_dispatcher is None else node.wrap_dispatcher(services, node.dispatcher)
        self._authentication = authentication(node, handler)
        backlog = config[SOCKET_LISTEN_BACKLOG_SIZE]
        acceptor = Acceptor(node.loop, node.clock, self._authentication or handler, acceptor_limits(config), backlog=backlog)
        if self._authentication is not None:
            acceptor.on_connect = self._authentication.connected
        self.listeners = Listeners(acceptor, node.bound_listeners, ConnectionLimits(services.dynamic_config, acceptor))
        self._counts = ConnectionCounts(services.dynamic_config, acceptor, node.jobs)
        self.listeners.dynamic = DynamicListeners(node, self)

    async def start(self) -> Listeners:
        config = self._node.config
        self._node.tls.check()
        for looking in self._counts.resolve():
            await looking
        if self._authentication is not None:
            for loading in self._authentication.load():
                await loading
        for endpoint in config.listeners:
            scope = CONTROLLER if endpoint.listener in config.controller_listener_names else BROKER
            listener = Listener(endpoint.listener, scope, endpoint.host, endpoint.port, self._node.tls.serving(endpoint.listener))
            self.listeners.bound.append(await self.listeners.acceptor.bind(listener))
        return self.listeners

    def authenticate(self, listener: str, config: BrokerConfig) -> list[Deferred[object]]:
        """Require SASL on a listener that did not exist at the start. Return Deferreds that must complete before it is served. Raises
        ConfigError.
        """
        from odradek.config.sasl import listener_sasl

        acceptor = self.listeners.acceptor
        if self._authentication is None:
            self._authentication = sasl_frames(self._node, acceptor.handler, {})
            acceptor.handler, acceptor.on_connect = self._authentication, self._authentication.connected
        return self._authentication.add(listener, listener_sasl(config, listener))

    def forget(self, listener: str) -> None:
        """Forget the SASL and TLS state of a removed listener."""
        if self._authentication is not None:
            self._authentication.remove(listener)
        self._node.tls.forget(listener)

    async def stop(self) -> None:
        await self.listeners.acceptor.close()
        if self._authentication is not None:
            self._authentication.close()


def authentication(node: Node, handler: FrameHandler) -> SaslFrames | None:
    """Return the SASL handler in front of `handler`; None when no listener requires SASL."""
    asking = [each.listener for each in node.config.listeners if each.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")]
    if not asking:
        return None
    from odradek.config.sasl import listener_sasl

    return sasl_frames(node, handler, {name: listener_sasl(node.config, name) for name in asking})


def sasl_frames(node: Node, handler: FrameHandler, listeners: dict[str, ListenerSasl]) -> SaslFrames:
    """Return a SASL handler in front of `handler`, for these listeners and listeners that are added later."""
    from odradek.server.security.authentication import SaslFrames

    return SaslFrames(
        handler,
        node.services,
        node.dispatcher.refusal,
        node.jobs,
        listeners,
        request_size=node.config[SOCKET_REQUEST_MAX_BYTES],
        failed_delay_s=node.config[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS] / 1000,
    )


class ServeControllers(Step[None]):
    """Step that serves the controller listeners. Its stop first hands the leadership of the quorum to other controllers, which need this
    node's vote.
    """

    name = "controller_listeners"
    stop_timeout_s = 30.0

    def __init__(self, node: Node, listeners: Listeners, parts: ControllerParts) -> None:
        self._node = node
        self._listeners = listeners
        self._parts = parts
        self._connections: HeartbeatConnections | None = None
        self._probes = Probes(node.loop)

    async def start(self) -> None:
        if self._node.config.is_controller:
            self._watch_connections()
        await self._listeners.serve(CONTROLLER)

    def _watch_connections(self) -> None:
        """Fence brokers whose process is gone, unless broker.session.disconnect.timeout.ms is negative."""
        node, kraft, metadata = self._node, self._parts.kraft, self._node.services.metadata
        grace_s = node.config[BROKER_SESSION_DISCONNECT_TIMEOUT_MS] / 1000
        if grace_s < 0:
            return

        def fence(broker_id: int, broker_epoch: int, is_back: Callable[[], bool]) -> Deferred[bool]:
            def operation(controller: ControllerContext) -> ControllerResult[bool]:
                return ControllerResult([], False) if is_back() else fence_broker(controller, broker_id, broker_epoch)

            return kraft.submit(operation, "fenceDisconnectedBroker", shown=False)

        def nobody_listens(broker_id: int) -> Deferred[bool]:
            address = broker_address(metadata, broker_id, node.config.inter_broker_listener_name)
            if address is None:
                return Deferred.of(False)
            return self._probes.nobody_listens(address.host, address.port, _LOOK_S)

        def taken_over() -> None:
            brokers = metadata.image.cluster.brokers.values()
            others = [broker for broker in brokers if not broker.fenced and broker.broker_id != node.config.node_id]
            connections.taken_over((broker.broker_id, broker.epoch) for broker in others)

        connections = HeartbeatConnections(node.clock, fence, nobody_listens, grace_s, node.config.broker_heartbeat_interval_ms / 1000)
        self._parts.heartbeat_connections = self._connections = connections
        self._listeners.acceptor.on_disconnect = connections.disconnected
        kraft.on_leader.append(lambda _: connections.forget())
        kraft.on_active.append(taken_over)

    async def stop(self) -> None:
        if self._connections is not None:
            self._connections.forget()
            self._parts.heartbeat_connections = self._connections = None
        self._probes.close()
        # Every reachable controller has answered by the request timeout.
        patience_s = self._node.config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS] / 1000
        left = asyncio.ensure_future(self._parts.kraft.leave())
        done, _ = await asyncio.wait((left, self._node.hurried), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not done:
            logger.warning("no other controller became a candidate within %g s; leaving the quorum without a leader", patience_s)
        await self._listeners.acceptor.close(CONTROLLER)


class ServeClients(Step[None]):
    """Step that serves clients. Its stop first has the leaders moved away, and then accepts no new requests."""

    name = "broker_listeners"
    stop_timeout_s = _SHUTDOWN_TIMEOUT_S

    def __init__(self, node: Node, listeners: Listeners, registrar: BrokerRegistrar, kraft: KRaftNode) -> None:
        self._node = node
        self._listeners = listeners
        self._kraft = kraft
        self._registrar = registrar

    async def start(self) -> None:
        telemetry, acceptor = self._node.telemetry, self._listeners.acceptor
        if telemetry is not None:
            self._kraft.add_publisher(telemetry)
            others = acceptor.on_disconnect

            def disconnected(connection_id: str) -> None:
                telemetry.disconnected(connection_id)
                if others is not None:
                    others(connection_id)

            acceptor.on_disconnect = disconnected
        await self._listeners.serve(BROKER)
        await self._listeners.dynamic.follow()

    async def stop(self) -> None:
        node = self._node
        await self._listeners.dynamic.stop()
        if node.telemetry is not None:
            node.telemetry.close()
        try:
            if node.config[CONTROLLED_SHUTDOWN_ENABLE] and node.states.state is BrokerState.RUNNING:
                node.states.to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
                left = asyncio.ensure_future(self._registrar.leave())
                await asyncio.wait((left, node.hurried), return_when=asyncio.FIRST_COMPLETED)
                left.cancel()
        finally:
            self._listeners.acceptor.close_listeners(BROKER)
            self._listeners.acceptor.quiesce(BROKER)
