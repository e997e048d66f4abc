"""Limits on new connections per second, by the configuration and by the address quotas of the metadata (KIP-612).

Listeners of brokers and of controllers have separate limits, like the socket servers of Kafka's roles. Without any limit there are no
rates, and a new connection has no extra cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.config.keys.network import MAX_CONNECTION_CREATION_RATE
from odradek.config.keys.observability import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS
from odradek.config.listener_settings import own_value
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.limits import UNLIMITED

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.network.acceptor import Acceptor
    from odradek.quotas.connections import ConnectionRates
    from odradek.quotas.managers import Changes


class ConnectionLimits:
    """Follower of the configuration and the address quotas that sets the connection rates of an acceptor."""

    def __init__(self, config: DynamicBrokerConfig, acceptor: Acceptor) -> None:
        self._config = config
        self._admission = acceptor.admission
        self._rates: dict[str, ConnectionRates] = {}
        acceptor.admission.protected = protected_listener(config.static)
        self.configure()
        config.subscribe((MAX_CONNECTION_CREATION_RATE,), self.configure)
        config.on_set.append(self.configure)

    def configure(self) -> None:
        """Apply the current configuration."""
        config = self._config.current
        rate = config[MAX_CONNECTION_CREATION_RATE]
        own = {name: value for name in _listeners(config) if (value := own_value(config, name, MAX_CONNECTION_CREATION_RATE)) is not None}
        if self._rates or min(rate, *own.values(), UNLIMITED) < UNLIMITED:
            for rates in self._made().values():
                rates.limit_broker(rate, own)
            self._settle()

    def addresses(self, changes: Changes) -> None:
        """Apply the address quotas among the changes."""
        from odradek.quotas.managers import address_changes

        for address, rate in address_changes(changes):
            for rates in self._made().values():
                rates.limit_address(address, rate)
        self._settle()

    def _made(self) -> dict[str, ConnectionRates]:
        if not self._rates:
            from odradek.quotas.connections import ConnectionRates
            from odradek.quotas.samples import Window

            config = self._config.static
            window = Window(config[QUOTA_WINDOW_NUM], config[QUOTA_WINDOW_SIZE_SECONDS] * 1000)
            self._rates = {scope: ConnectionRates(window) for scope in (BROKER, CONTROLLER)}
            rate = config[MAX_CONNECTION_CREATION_RATE]
            for rates in self._rates.values():
                rates.limit_broker(rate, {})
        return self._rates

    def _settle(self) -> None:
        limited = any(rates.limited for rates in self._rates.values())
        self._admission.rates = self._rates if limited else None


def protected_listener(config: BrokerConfig) -> str | None:
    """Return the inter-broker listener if other listeners exist (for clients), else None. The whole broker's rate does not apply to it."""
    return config.inter_broker_listener_name if len(config.listeners) > 1 else None


def _listeners(config: BrokerConfig) -> list[str]:
    return [endpoint.listener for endpoint in config.listeners]
