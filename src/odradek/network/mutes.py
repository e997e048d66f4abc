"""Mutes of connections whose clients exceeded a quota.

The client is answered at once. Then its connection serves no further request until the mute ends; responses to requests in flight still
leave. Of several mutes the one that ends last counts (kafka.network.SocketServer, ChannelMuteState).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle


class Mute:
    """Mute of one connection."""

    __slots__ = ("_until_s", "timer")

    def __init__(self) -> None:
        self.timer: TimerHandle | None = None
        """Timer of the end; None while the connection is not muted. The connection reads it for each request."""
        self._until_s = 0.0

    def extend(self, clock: Clock, delay_s: float, end: Callable[..., object], *arguments: object) -> bool:
        """Call `end(*arguments)` in `delay_s` seconds, which calls `ended` first. Return False when the mute lasts that long already."""
        until_s = clock.monotonic() + delay_s
        if until_s <= self._until_s:
            return False
        self.cancel()
        self._until_s = until_s
        self.timer = clock.call_later(delay_s, end, *arguments)
        return True

    def ended(self) -> None:
        """Note that the timer has fired."""
        self.timer = None

    def cancel(self) -> None:
        """End the mute without a call, because the connection is closed or a longer mute replaces this one."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
