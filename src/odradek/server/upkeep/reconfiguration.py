"""Reactions of a broker's parts to run-time changes of the keys that they were made with (kafka.server.BrokerReconfigurable).

Parts that read their keys at each use (topic defaults, the cleaner) are not listed here.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from odradek.base.addresses import address_of, host_address, without_scope
from odradek.base.deferred import Deferred
from odradek.base.errors import ConfigError
from odradek.base.text import printable
from odradek.config.definition import Key
from odradek.config.keys.network import (
    CONNECTIONS_MAX_IDLE_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    QUEUED_MAX_REQUEST_BYTES,
    SOCKET_RECEIVE_BUFFER_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
    SOCKET_SEND_BUFFER_BYTES,
)
from odradek.config.keys.transactions import PRODUCER_ID_EXPIRATION_MS, TRANSACTION_PARTITION_VERIFICATION_ENABLE
from odradek.config.listener_settings import own_value
from odradek.network.limits import AcceptorLimits

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.network.acceptor import Acceptor
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.upkeep.jobs import Jobs
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

_CONNECTION_KEYS = (MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP, MAX_CONNECTIONS_PER_IP_OVERRIDES)
_UNLIMITED = 1 << 62
_MOST_HANDSHAKES = 4
_ANSWERS_PART = 8
"""Divisor: responses may hold this fraction of the memory of requests. They are sent as they are made, as long as peers read."""


def acceptor_limits(config: BrokerConfig, resolved: Mapping[str, Collection[str]] = MappingProxyType({})) -> AcceptorLimits:
    """Return the limits of listeners; `resolved` has the addresses of the host names in max.connections.per.ip.overrides."""
    memory = config[QUEUED_MAX_REQUEST_BYTES]
    if memory <= 0:
        memory = _UNLIMITED
    idle_ms = config[CONNECTIONS_MAX_IDLE_MS]
    return AcceptorLimits(
        request_size=config[SOCKET_REQUEST_MAX_BYTES],
        request_memory=memory,
        response_memory=memory // _ANSWERS_PART,
        idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        max_connections=config[MAX_CONNECTIONS],
        protected=_protected(config),
        max_connections_of=_of_listeners(config, MAX_CONNECTIONS),
        max_connections_per_ip=config[MAX_CONNECTIONS_PER_IP],
        per_ip_overrides=_overrides(config, resolved),
        handshakes_at_once=max(1, min(_MOST_HANDSHAKES, (os.cpu_count() or 1) - 1)),
        receive_buffer=config[SOCKET_RECEIVE_BUFFER_BYTES],
        send_buffer=config[SOCKET_SEND_BUFFER_BYTES],
    )


def _protected(config: BrokerConfig) -> list[str]:
    """Return the listeners of nodes: clients that use up max.connections must not keep nodes from each other.

    The inter-broker listener is not among them when clients use it, too.
    """
    others = any(each.listener != config.inter_broker_listener_name for each in config.broker_listeners)
    return [*config.controller_listener_names, *([config.inter_broker_listener_name] if others else [])]


def _of_listeners(config: BrokerConfig, key: Key[int]) -> dict[str, int]:
    """Return listener -> number, for the listeners with a separate setting."""
    values = {listener: own_value(config, listener, key) for listener in config.listener_security_protocols}
    return {listener: value for listener, value in values.items() if value is not None}


def _overridden(config: BrokerConfig) -> list[tuple[str, int]]:
    """Return hosts, without the brackets of IPv6, and their maximum numbers of connections."""
    entries = (entry.strip().rpartition(":") for entry in config[MAX_CONNECTIONS_PER_IP_OVERRIDES].split(",") if entry.strip())
    return [(host.strip().removeprefix("[").removesuffix("]"), int(count)) for host, _, count in entries]


def _overrides(config: BrokerConfig, resolved: Mapping[str, Collection[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for host, count in _overridden(config):
        address = address_of(host)
        for each in (address,) if address is not None else resolved.get(host, ()):
            found[each] = count
    return found


def _addresses(host: str) -> set[str]:
    """Look up a host name. Blocks. Raises OSError, or ValueError for an impossible name."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {without_scope(host_address(str(address[0]))) for *_, address in found}


class ConnectionCounts:
    """Follower of the configuration that sets the connection limits of an acceptor.

    New limits apply to new connections; open connections stay.

    Host names in max.connections.per.ip.overrides are looked up when they are set, each in a separate thread (Kafka's ConnectionQuotas;
    here all addresses of a name count, not only the first). At the start a name without an address is an error, later a warning.
    """

    def __init__(self, config: DynamicBrokerConfig, acceptor: Acceptor, jobs: Jobs) -> None:
        self._config = config
        self._acceptor = acceptor
        self._jobs = jobs
        self._resolved: dict[str, Collection[str]] = {}
        config.subscribe(_CONNECTION_KEYS, self._changed)

    def resolve(self) -> list[Deferred[set[str]]]:
        """Look up the unknown names. Each Deferred fails with ConfigError when the name has no address."""
        names = [host for host, _ in _overridden(self._config.current) if address_of(host) is None]
        self._resolved = {name: known for name, known in self._resolved.items() if name in names}
        return [self._look_up(name) for name in dict.fromkeys(names) if name not in self._resolved]

    def _look_up(self, name: str) -> Deferred[set[str]]:
        self._resolved[name] = ()

        def found(addresses: set[str]) -> set[str]:
            if name in self._resolved:
                self._resolved[name] = addresses
                self._apply()
            return addresses

        def failed(error: BaseException) -> set[str]:
            self._resolved.pop(name, None)
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{MAX_CONNECTIONS_PER_IP_OVERRIDES}: the host name {printable(name)} has no address: {reason}")

        return self._jobs.apart(lambda: _addresses(name)).then(found, failed)

    def _changed(self) -> None:
        for each in self.resolve():
            each.add_callback(_warn)
        self._apply()

    def _apply(self) -> None:
        self._acceptor.limits = acceptor_limits(self._config.current, self._resolved)


def _warn(done: Deferred[set[str]]) -> None:
    if done.error is not None:
        logger.warning("%s; its connections have no limit of their own now", done.error)


def follow_producer_settings(config: DynamicBrokerConfig, log_manager: LogManager, replica_manager: ReplicaManager) -> None:
    """Apply changes of producer expiration and of transaction verification (kafka.server.DynamicProducerStateManagerConfig)."""

    def changed() -> None:
        verify = config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        log_manager.update_producer_settings(config[PRODUCER_ID_EXPIRATION_MS], verify_transactions=verify)
        replica_manager.verify_transactions(verify)

    changed()
    config.subscribe((PRODUCER_ID_EXPIRATION_MS, TRANSACTION_PARTITION_VERIFICATION_ENABLE), changed)
