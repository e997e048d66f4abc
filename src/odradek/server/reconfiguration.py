"""What the parts of a broker do when a key that they were made with changes at run time.

Whatever reads its key each time anew (topic defaults, the cleaner) needs no line here. (kafka.server.BrokerReconfigurable)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from odradek.config.listener_settings import own_value
from odradek.network.limits import AcceptorLimits

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.network.acceptor import Acceptor
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.storage.log_manager import LogManager

_CONNECTION_KEYS = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")
_UNLIMITED = 1 << 62
_MOST_HANDSHAKES = 4
_ANSWERS_PART = 8
"""Answers may owe this part of the memory that requests may have: they leave as they are made, so long as peers read."""


def acceptor_limits(config: BrokerConfig) -> AcceptorLimits:
    """What listeners allow their peers."""
    overrides = (entry.rpartition(":") for entry in config.text("max.connections.per.ip.overrides").split(",") if entry.strip())
    memory = config.integer("queued.max.request.bytes")
    if memory <= 0:
        memory = _UNLIMITED
    idle_ms = config.integer("connections.max.idle.ms")
    return AcceptorLimits(
        request_size=config.integer("socket.request.max.bytes"),
        request_memory=memory,
        response_memory=memory // _ANSWERS_PART,
        idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        max_connections=config.integer("max.connections"),
        protected=_protected(config),
        max_connections_of=_of_listeners(config, "max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        per_ip_overrides={host.strip(): int(count) for host, _, count in overrides},
        handshakes_at_once=max(1, min(_MOST_HANDSHAKES, (os.cpu_count() or 1) - 1)),
        receive_buffer=config.integer("socket.receive.buffer.bytes"),
        send_buffer=config.integer("socket.send.buffer.bytes"),
    )


def _protected(config: BrokerConfig) -> list[str]:
    """The listeners of nodes: clients that use up max.connections must not keep them from one another. Where clients use the listener
    between brokers, there is none to protect.
    """
    others = any(each.listener != config.inter_broker_listener_name for each in config.broker_listeners)
    return [*config.controller_listener_names, *([config.inter_broker_listener_name] if others else [])]


def _of_listeners(config: BrokerConfig, key: str) -> dict[str, int]:
    """The listeners that have a number of their own."""
    values = {listener: own_value(config, listener, key) for listener in config.listener_security_protocols}
    return {listener: value for listener, value in values.items() if isinstance(value, int)}


def follow_limits(config: DynamicBrokerConfig, acceptor: Acceptor) -> None:
    """New limits hold for connections to come; those that are open stay."""

    def changed() -> None:
        acceptor.limits = acceptor_limits(config.current)

    config.subscribe(_CONNECTION_KEYS, changed)


def follow_producer_settings(config: DynamicBrokerConfig, log_manager: LogManager, replica_manager: ReplicaManager) -> None:
    """When idle producers are forgotten, and whether transactions are verified (kafka.server.DynamicProducerStateManagerConfig)."""

    def changed() -> None:
        verify = config.flag("transaction.partition.verification.enable")
        log_manager.update_producer_settings(config.integer("producer.id.expiration.ms"), verify_transactions=verify)
        replica_manager.verify_transactions(verify)

    changed()
    config.subscribe(("producer.id.expiration.ms", "transaction.partition.verification.enable"), changed)
