"""How many connections a second the listeners take: by the configuration, and by the quotas of addresses in the metadata (KIP-612).

Listeners of brokers and of controllers are limited apart from one another, as the socket servers of Kafka's roles are. While nothing is
limited there are no rates at all, and a new connection costs nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.config.listener_settings import own_value
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.limits import UNLIMITED

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.network.acceptor import Acceptor
    from odradek.quotas.connections import ConnectionRates
    from odradek.quotas.managers import Changes

_RATE = "max.connection.creation.rate"


class ConnectionLimits:
    """Keeps the rates of an acceptor up with the configuration and the quotas of addresses."""

    def __init__(self, config: DynamicBrokerConfig, acceptor: Acceptor) -> None:
        self._config = config
        self._admission = acceptor.admission
        self._rates: dict[str, ConnectionRates] = {}
        acceptor.admission.protected = protected_listener(config.static)
        self.configure()
        config.subscribe((_RATE,), self.configure)
        config.on_set.append(self.configure)

    def configure(self) -> None:
        """By the configuration as it is now."""
        config = self._config.current
        rate = config.integer(_RATE)
        own = {name: value for name in _listeners(config) if isinstance(value := own_value(config, name, _RATE), int)}
        if self._rates or min(rate, *own.values(), UNLIMITED) < UNLIMITED:
            for rates in self._made().values():
                rates.limit_broker(rate, own)
            self._settle()

    def addresses(self, changes: Changes) -> None:
        """The quotas of addresses among the changes hold from now on."""
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
            window = Window(config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * 1000)
            self._rates = {scope: ConnectionRates(window) for scope in (BROKER, CONTROLLER)}
            rate = config.integer(_RATE)
            for rates in self._rates.values():
                rates.limit_broker(rate, {})
        return self._rates

    def _settle(self) -> None:
        limited = any(rates.limited for rates in self._rates.values())
        self._admission.rates = self._rates if limited else None


def protected_listener(config: BrokerConfig) -> str | None:
    """The listener between brokers, where it has none but them: the rate of the whole broker does not hold there."""
    return config.inter_broker_listener_name if len(config.listeners) > 1 else None


def _listeners(config: BrokerConfig) -> list[str]:
    return [endpoint.listener for endpoint in config.listeners]
