"""Listeners that are added and removed while a broker runs (kafka.server.DynamicListenerConfig).

A new listener reads its own settings and the general TLS and SASL keys when it is added. Some of these are keys that Kafka allows to
change, and that have no effect on an existing listener. The registration of a broker does not change after its start, as in every KRaft
cluster. Other nodes do not learn of the new listener: its clients get responses, but find no leaders through it.

All state of a listener is removed with it (`BindListeners.forget`, `Acceptor.remove`). A listener that is added again under the same name
is a new listener, with the protocol and keys of that time. Code that needs the protocol of a listener reads the current configuration.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError, OdradekError
from odradek.config.keys.network import LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS
from odradek.config.listeners import SASL_PROTOCOLS
from odradek.handlers.scopes import BROKER
from odradek.network.acceptor import Listener

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.listeners import Endpoint
    from odradek.network.secure import TlsServing
    from odradek.server.requests.listeners import BindListeners
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)


class DynamicListeners:
    """Follower of the key `listeners`. Before `follow` and after `stop` it only validates changes."""

    def __init__(self, node: Node, binding: BindListeners) -> None:
        self._node = node
        self._binding = binding
        self._config = node.services.dynamic_config
        self._config.validators.append(self._check)
        self._config.subscribe((LISTENERS, LISTENER_SECURITY_PROTOCOL_MAP), self._changed)
        self._following = False
        self._task: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        """From now on, bind and close listeners when the configuration changes."""
        self._following = True
        self._changed()
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Stop following the configuration; wait for a change under way."""
        self._following = False
        if self._task is not None:
            await self._task

    # -- validation of changes --------------------------------------------------------------------------------------------------------

    def _check(self, new: BrokerConfig) -> None:
        old = self._config.current
        if new.listeners == old.listeners:
            return
        before, after = ({each.listener: each for each in config.listeners} for config in (old, new))
        advertised = {each.listener for each in old.advertised_listeners}
        if not advertised <= after.keys():
            raise ConfigError(
                f"Advertised listeners '{', '.join(sorted(advertised))}' must be a subset of listeners '{', '.join(sorted(after))}'"
            )
        for name in before.keys() & after.keys():
            if before[name].security_protocol != after[name].security_protocol:
                raise ConfigError(f"Security protocol cannot be updated for existing listener {name} (listener.security.protocol.map)")
            if before[name] != after[name]:
                raise ConfigError(f"listeners: {before[name]} already exists, and its address cannot change while the broker runs")
        if set(old.controller_listeners) != set(new.controller_listeners):
            raise ConfigError("listeners: listeners of the controller cannot change while the node runs")
        for name in after.keys() - before.keys():
            self._node.tls.try_serving(new, name)

    # -- application of changes -------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._following and (self._task is None or self._task.done()) and self._differences() != ([], []):
            self._task = self._node.loop.create_task(self._adjust())

    def _differences(self) -> tuple[list[str], list[Endpoint]]:
        """Return the names of listeners to close, and the listeners to open."""
        wanted = {each.listener: each for each in self._config.current.broker_listeners}
        bound = {each.name: each for each in self._binding.listeners.bound if each.scope == BROKER}
        # A listener may have been removed and added with another address since the last check: it is a new listener. Listeners of the
        # static configuration keep their address.
        ours = {each.listener for each in self._config.static.listeners}
        places = {name: (each.host, each.listener.port) for name, each in bound.items()}
        same = {name for name in bound if name in wanted and (name in ours or places[name] == wanted[name][2:])}
        return [name for name in bound if name not in same], [wanted[name] for name in wanted if name not in same]

    async def _adjust(self) -> None:
        failed: set[Endpoint] = set()
        while self._following:
            gone, come = self._differences()
            come = [each for each in come if each not in failed]
            if not gone and not come:
                return
            for name in gone:
                self._close(name)
            for endpoint in come:
                try:
                    await self._open(endpoint)
                except Exception as error:
                    failed.add(endpoint)
                    self._forget(endpoint.listener)
                    expected = isinstance(error, OdradekError)
                    logger.error("the new listener %s cannot be opened: %s", endpoint, error, exc_info=not expected)

    async def _open(self, endpoint: Endpoint) -> None:
        binding = self._binding
        if endpoint.security_protocol in SASL_PROTOCOLS:
            for loading in binding.authenticate(endpoint.listener, self._config.current):
                await loading
        tls = await self._tls(endpoint.listener)
        listeners = binding.listeners
        bound = await listeners.acceptor.bind(Listener(endpoint.listener, BROKER, endpoint.host, endpoint.port, tls))
        listeners.bound.append(bound)
        await listeners.acceptor.serve(bound)
        logger.info("listener %s is open", endpoint)

    async def _tls(self, listener: str) -> TlsServing | None:
        tls, node = self._node.tls, self._node
        while True:
            config = self._config.current
            made = await node.jobs.apart(partial(tls.read, config, listener))
            # Stores may have changed while they were read: a renewal covers only served listeners.
            if self._config.current is config:
                return tls.serve(listener, made)

    def _close(self, name: str) -> None:
        self._forget(name)
        logger.info("listener %s is closed", name)

    def _forget(self, name: str) -> None:
        listeners = self._binding.listeners
        for bound in [each for each in listeners.bound if each.name == name]:
            listeners.bound.remove(bound)
            listeners.acceptor.remove(bound)
        self._binding.forget(name)
