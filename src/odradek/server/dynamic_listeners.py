"""Listeners that come and go while a broker runs (kafka.server.DynamicListenerConfig).

What is set for such a listener, and the keys of TLS and SASL for all of them, are read when it comes: the keys that Kafka lets change, and
that do nothing to a listener that is there, do it here. The registration of a broker stays what it was when it started, as in every Raft
cluster: others are not told of the new listener, so that clients of it are answered and find no leaders through it.

What is kept of a listener goes with it (`BindListeners.forget`, `Acceptor.remove`): one that comes back under its name is another listener,
with the protocol and the keys of its own time. Who asks for a listener's protocol asks the configuration as it is now.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError, OdradekError
from odradek.config.listeners import SASL_PROTOCOLS
from odradek.handlers.scopes import BROKER
from odradek.network.acceptor import Listener
from odradek.server.jobs import as_future

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.listeners import Endpoint
    from odradek.network.secure import TlsServing
    from odradek.server.listeners import BindListeners
    from odradek.server.node import Node

logger = logging.getLogger(__name__)


class DynamicListeners:
    """Follows `listeners` once it is told to; before that, and after `stop`, it only judges changes."""

    def __init__(self, node: Node, binding: BindListeners) -> None:
        self._node = node
        self._binding = binding
        self._config = node.services.dynamic_config
        self._config.validators.append(self._check)
        self._config.subscribe(("listeners", "listener.security.protocol.map"), self._changed)
        self._following = False
        self._task: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        """From now on what is bound is what is configured."""
        self._following = True
        self._changed()
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Nothing comes or goes any more."""
        self._following = False
        if self._task is not None:
            await self._task

    # -- before ------------------------------------------------------------------------------------------------------------------------

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
                raise ConfigError(f"listeners: {before[name]} is there, and its address cannot change while the broker runs")
        if set(old.controller_listeners) != set(new.controller_listeners):
            raise ConfigError("listeners: those of the controller cannot change while the node runs")
        for name in after.keys() - before.keys():
            self._node.services.tls.try_serving(new, name)

    # -- after -------------------------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._following and (self._task is None or self._task.done()) and self._differences() != ([], []):
            self._task = self._node.loop.create_task(self._adjust())

    def _differences(self) -> tuple[list[str], list[Endpoint]]:
        """The names of listeners to close, and the listeners to open."""
        wanted = {each.listener: each for each in self._config.current.broker_listeners}
        bound = {each.name: each for each in self._binding.listeners.bound if each.scope == BROKER}
        # One that went and came back with another address before this was looked at is another one; those of the file stay where they are.
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
                    self._binding.forget(endpoint.listener)
                    expected = isinstance(error, OdradekError)
                    logger.error("the listener %s that was added is not served: %s", endpoint, error, exc_info=not expected)

    async def _open(self, endpoint: Endpoint) -> None:
        binding = self._binding
        if endpoint.security_protocol in SASL_PROTOCOLS:
            for loading in binding.authenticate(endpoint.listener, self._config.current):
                await as_future(self._node.loop, loading)
        tls = await self._tls(endpoint.listener)
        listeners = binding.listeners
        bound = await listeners.acceptor.bind(Listener(endpoint.listener, BROKER, endpoint.host, endpoint.port, tls))
        listeners.bound.append(bound)
        await listeners.acceptor.serve(bound)
        logger.info("listener %s is served", endpoint)

    async def _tls(self, listener: str) -> TlsServing | None:
        tls, node = self._node.services.tls, self._node
        while True:
            config = self._config.current
            made = await as_future(node.loop, node.jobs.apart(partial(tls.read, config, listener)))
            # Stores may have changed while they were read: a renewal knows only what is served.
            if self._config.current is config:
                return tls.serve(listener, made)

    def _close(self, name: str) -> None:
        listeners = self._binding.listeners
        for bound in [each for each in listeners.bound if each.name == name]:
            listeners.bound.remove(bound)
            listeners.acceptor.remove(bound)
        self._binding.forget(name)
        logger.info("listener %s is closed", name)
