"""Calls of the application's functions, which have to be made within its calls of the consumer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from odradek.base.ids import TopicPartition
from odradek.client.core.membership import GiveUp, Loss, Work


class RebalanceListener:
    """Listener of a group member, called when partitions come and go (org.apache.kafka.clients.consumer.ConsumerRebalanceListener).

    The consumer calls the methods within poll(), unsubscribe() and close(): the blocking consumer in the thread that calls it, the asyncio
    consumer in its task, where the methods may be coroutines. The methods may call the consumer, except poll(). The surrounding call raises
    a method's error after the rebalance has gone on.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are about to go to other members; the last moment to commit.

        With enable.auto.commit the records that were handed out are committed already.
        """
        del partitions
        return None

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Handle new partitions; positions can be sought here. The list may be empty, as every rebalance ends with this call."""
        del partitions
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that other members may have already, so that commits are refused.

        Calls on_partitions_revoked unless overridden.
        """
        return self.on_partitions_revoked(partitions)


@dataclass(slots=True, eq=False)
class Call:
    """Function of the application that has to be called. `ends` is the work that is done after the call."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    ends: Work | None = None
    made: bool = False
    """True once the function has been entered; a Ctrl-C before that leaves the call to the next poll."""

    def make(self) -> None:
        """Call the function in a thread of the application. Raises TypeError if it returns an awaitable."""
        self.made = True
        result = self.function(*self.arguments)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"{getattr(self.function, '__qualname__', self.function)} is a coroutine function: use AsyncConsumer for it")

    async def make_async(self) -> None:
        """Call the function in a task of the application."""
        self.made = True
        result = self.function(*self.arguments)
        if inspect.isawaitable(result):
            await result


def listener_call(listener: object | None, work: Work) -> Call | None:
    """Return the call of the listener's method for the work; None without a listener or method."""
    if listener is None:
        return None
    if not isinstance(work, GiveUp):
        function = getattr(listener, "on_partitions_assigned", None)
        partitions = work.added
    else:
        function = getattr(listener, "on_partitions_revoked", None)
        if work.loss is Loss.LOST:
            function = getattr(listener, "on_partitions_lost", function)
        partitions = work.partitions
    return Call(function, (list(partitions),), work) if function is not None else None
