"""Rates of new connections: per address, per listener, and per broker (KIP-612; kafka.network.ConnectionQuotas).

A connection beyond the rate of its listener or of the broker is read only after a delay. Later connections of the listener wait behind that
connection, as behind the acceptor thread in Kafka (`network.admission` has the queues). A connection beyond the rate of its address is
closed after a delay, so that its client does not reconnect at once. The broker's rate does not apply to the inter-broker listener when
clients have another listener.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.quotas.clients import IDLE_MS, MOST_OWNERS
from odradek.quotas.samples import SampledRate, Window, throttle_ms

UNLIMITED_RATE = 2**31 - 1


class Admission(NamedTuple):
    """Delays of a new connection, in milliseconds since the connection was accepted."""

    read_after_ms: int
    close_after_ms: int | None
    """Milliseconds until the connection is closed; None for an admitted connection."""


class _Rate:
    __slots__ = ("limit", "meter", "used_ms")

    def __init__(self, window: Window, limit: int) -> None:
        self.meter = SampledRate(window)
        self.limit = limit
        self.used_ms = 0

    def record(self, now_ms: int, longest_ms: int) -> int:
        """Record a connection and return the milliseconds that the connection has to wait, at most `longest_ms`."""
        self.used_ms = now_ms
        self.meter.record(1.0, now_ms)
        rate = self.meter.measure(now_ms)
        return min(throttle_ms(rate, self.limit, self.meter.span_ms(now_ms)), longest_ms) if rate > self.limit else 0


class _ListenerRate(_Rate):
    __slots__ = ("free_ms",)

    def __init__(self, window: Window, limit: int) -> None:
        super().__init__(window, limit)
        self.free_ms = 0
        """Time in milliseconds from which the last admitted connection may be read."""


class ConnectionRates:
    """Connection rates of one broker. While `limited` is False, the caller records nothing."""

    __slots__ = ("_addresses", "_broker", "_default", "_listeners", "_of_listeners", "_per_address", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._broker = _Rate(window, UNLIMITED_RATE)
        self._of_listeners: dict[str, int] = {}
        self._listeners: dict[str, _ListenerRate] = {}
        self._default: int | None = None
        self._per_address: dict[str, int] = {}
        self._addresses: dict[str, _Rate] = {}
        """Rates by address, least recently used first."""

    @property
    def limited(self) -> bool:
        """Return whether any rate is limited."""
        limits = [self._broker.limit, *self._of_listeners.values()]
        return self._default is not None or bool(self._per_address) or min(limits) < UNLIMITED_RATE

    def limit_broker(self, rate: int, of_listeners: dict[str, int]) -> None:
        """Set max.connection.creation.rate of the broker, and the rates of the listeners in `of_listeners`."""
        self._broker.limit = rate
        self._of_listeners = dict(of_listeners)
        for name, listener in self._listeners.items():
            listener.limit = self._of_listeners.get(name, rate)

    def limit_address(self, address: str | None, rate: int | None) -> None:
        """Set the quota of an address, or the default quota (`address` None). A `rate` of None removes the quota."""
        if address is None:
            self._default = rate
        elif rate is None:
            self._per_address.pop(address, None)
        else:
            self._per_address[address] = rate
        for known, usage in list(self._addresses.items()):
            limit = self._address_limit(known)
            if limit is None:
                del self._addresses[known]
            else:
                usage.limit = limit

    def admit(self, listener: str, address: str, now_ms: int, *, protected: bool = False) -> Admission:
        """Record a new connection and return its delays. With `protected` the broker's rate does not apply to the listener."""
        usage = self._listener(listener)
        start_ms = max(now_ms, usage.free_ms)
        wait_ms = 0 if protected else self._broker.record(start_ms, self._window.size_ms)
        wait_ms = max(wait_ms, usage.record(start_ms, self._window.size_ms))
        begin_ms = usage.free_ms = start_ms + wait_ms
        refused_ms = self._record_address(address, begin_ms)
        return Admission(begin_ms - now_ms, begin_ms - now_ms + refused_ms if refused_ms else None)

    def give_back(self, listener: str, now_ms: int, *, protected: bool = False) -> None:
        """Undo `admit` for a connection that was closed while delayed. The connection is the last one that `admit` delayed on the listener.

        The rate of the address keeps the connection: a client gains nothing by closing and reconnecting.
        """
        usage = self._listener(listener)
        usage.free_ms = now_ms
        usage.meter.record(-1.0, now_ms)
        if not protected:
            self._broker.meter.record(-1.0, now_ms)

    def forget_listener(self, name: str) -> None:
        """Forget the usage of a removed listener, because a new listener may get the same name."""
        self._listeners.pop(name, None)

    def _listener(self, name: str) -> _ListenerRate:
        usage = self._listeners.get(name)
        if usage is None:
            usage = self._listeners[name] = _ListenerRate(self._window, self._of_listeners.get(name, self._broker.limit))
        return usage

    def _address_limit(self, address: str) -> int | None:
        return self._per_address.get(address, self._default)

    def _record_address(self, address: str, now_ms: int) -> int:
        limit = self._address_limit(address)
        if limit is None:
            return 0
        usage = self._addresses.pop(address, None)
        if usage is None or now_ms - usage.used_ms > IDLE_MS:
            self._forget_idle(now_ms)
            usage = _Rate(self._window, limit)
        self._addresses[address] = usage
        refused_ms = usage.record(now_ms, self._window.size_ms)
        if refused_ms:
            usage.meter.record(-1.0, now_ms)
        return refused_ms

    def _forget_idle(self, now_ms: int) -> None:
        while self._addresses:
            address = next(iter(self._addresses))
            if len(self._addresses) < MOST_OWNERS and now_ms - self._addresses[address].used_ms <= IDLE_MS:
                return
            del self._addresses[address]
