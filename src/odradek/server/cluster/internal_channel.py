"""Channel between nodes and their roles, the connections behind it, and the forwarding of client requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.config.keys.cluster import CONTROLLER_SOCKET_TIMEOUT_MS
from odradek.config.keys.network import CONNECTIONS_MAX_IDLE_MS, SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS, SOCKET_CONNECTION_SETUP_TIMEOUT_MS
from odradek.config.keys.security import SASL_MECHANISM_CONTROLLER_PROTOCOL, SASL_MECHANISM_INTER_BROKER_PROTOCOL
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.peers import Address, Peers, PeerSettings
from odradek.security.principal import USER, Principal
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.forwarding import Forwarder
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.sasl import NodeLogin
    from odradek.controller.kraft.node import KRaftNode
    from odradek.metadata.cache import MetadataCache
    from odradek.security.sasl.client import SaslClient
    from odradek.server.security.kerberos import KerberosLogin
    from odradek.server.start.node import Node


class Links(NamedTuple):
    """Ways to other nodes, and to the other role of this node."""

    peers: Peers
    """Connections; requests between roles use `channel`."""
    channel: InterBrokerChannel
    forwarder: Forwarder


class OpenChannel(Step[Links]):
    """Step that makes the channel and the connections to other nodes. Its stop fails the requests that wait on them."""

    name = "dispatch"

    def __init__(self, node: Node) -> None:
        config, services = node.config, node.services
        self._node = node
        logins = NodeLogins(config)
        dynamic = services.dynamic_config
        dynamic.subscribe((SASL_MECHANISM_INTER_BROKER_PROTOCOL,), lambda: logins.read(dynamic.current))
        name = f"node-{config.node_id}"
        self._peers = Peers(node.clock, name, peer_settings(config), node.tls.towards, logins.client)
        listener = config.inter_broker_listener_name
        names = {CONTROLLER: config.controller_listener_names[0], BROKER: listener}
        self._channel = InterBrokerChannel(
            config.node_id,
            node.clock,
            node.dispatcher,
            listener_names=names,
            principal=lambda scope: logins.principal(names[scope]) or node.tls.principal(names[scope]),
            peers=self._peers,
            broker=lambda broker_id: broker_address(services.metadata, broker_id, listener),
            controller=lambda: controller_address(node.kraft, names[CONTROLLER]),
            controller_timeout_s=config[CONTROLLER_SOCKET_TIMEOUT_MS] / 1000,
        )

    async def start(self) -> Links:
        links = self._node.links = Links(self._peers, self._channel, Forwarder(self._channel, self._node.dispatcher))
        self._node.dispatcher.forward = links.forwarder.forward
        return links

    async def stop(self) -> None:
        self._channel.close()
        self._peers.close()


class NodeLogins:
    """Logins of this node at other nodes, by listener; empty without SASL."""

    def __init__(self, config: BrokerConfig) -> None:
        self._logins: dict[str, NodeLogin] = {}
        self._kerberos: dict[str, KerberosLogin] = {}
        self.read(config)

    def read(self, config: BrokerConfig) -> None:
        """Read the logins from the configuration. Existing connections are not affected, as they have logged in already."""
        controllers = config.controller_listener_names[0]
        names = [controllers, config.inter_broker_listener_name] if config.is_broker else [controllers]
        if not any("SASL" in config.listener_security_protocols.get(listener, "") for listener in names):
            return
        from odradek.config.sasl import node_login

        logins = {controllers: node_login(config, controllers, SASL_MECHANISM_CONTROLLER_PROTOCOL)}
        if config.is_broker:
            brokers = config.inter_broker_listener_name
            logins[brokers] = node_login(config, brokers, SASL_MECHANISM_INTER_BROKER_PROTOCOL)
        self._logins = {listener: login for listener, login in logins.items() if login is not None}
        kerberos = {listener: login for listener, login in self._logins.items() if login.kerberos is not None}
        if kerberos:
            from odradek.server.security.kerberos import KerberosLogin

            self._kerberos = {listener: KerberosLogin(login) for listener, login in kerberos.items()}

    def principal(self, listener: str) -> Principal | None:
        """Return the principal of this node on `listener`, also used for looped-back requests; None without a login."""
        login = self._logins.get(listener)
        if login is None:
            return None
        return Principal(USER, login.name if login.kerberos is None else self._kerberos[listener].name)

    def client(self, listener: str, host: str) -> SaslClient | None:
        """Return the client's side of a new SASL exchange with the node at `host`; None without a login."""
        login = self._logins.get(listener)
        if login is None:
            return None
        if login.mechanism == "PLAIN":
            from odradek.security.sasl.client import PlainClient

            return PlainClient(login.name, login.password)
        if login.kerberos is not None:
            return self._kerberos[listener].client(host)
        import secrets

        from odradek.security.sasl.scram_client import ScramClient

        return ScramClient(login.mechanism, login.name, login.password, secrets.token_urlsafe(24))


def peer_settings(config: BrokerConfig) -> PeerSettings:
    """Return the settings of connections to other nodes."""
    idle_ms = config[CONNECTIONS_MAX_IDLE_MS]
    return PeerSettings(
        setup_timeout_s=config[SOCKET_CONNECTION_SETUP_TIMEOUT_MS] / 1000,
        setup_timeout_max_s=config[SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS] / 1000,
        idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
    )


def broker_address(metadata: MetadataCache, broker_id: int, listener: str) -> Address | None:
    """Return the address of a broker's listener in the metadata published to this node; None when the metadata does not contain it."""
    broker = metadata.image.cluster.brokers.get(broker_id)
    endpoint = None if broker is None else broker.endpoint(listener)
    return None if endpoint is None else Address(broker_id, endpoint.host, endpoint.port, listener)


def controller_address(kraft: KRaftNode | None, listener: str) -> Address | None:
    """Return the address of the leader of the metadata quorum; None while this node knows no leader."""
    endpoint = None if kraft is None else kraft.leader_endpoint()
    return None if kraft is None or endpoint is None else Address(kraft.leader_and_epoch.leader_id, endpoint.host, endpoint.port, listener)
