"""Calls of the application's own functions, which have to be made within its calls of the consumer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from odradek.base.ids import TopicPartition
from odradek.client.core.membership import GiveUp, Loss, Work


class RebalanceListener:
    """What to do when partitions come and go (org.apache.kafka.clients.consumer.ConsumerRebalanceListener).

    Called within poll(), unsubscribe() and close(): by the blocking consumer in the thread that calls it, by the asyncio one in its task,
    where the methods may be coroutines. They may call the consumer, but for poll(). What they raise is raised by that call, after the
    rebalance has gone on.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are about to go to others: the last moment to commit. With enable.auto.commit what was handed out is committed already."""
        del partitions
        return None

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These came; the list may be empty, as a call ends every rebalance. Positions can be sought."""
        del partitions
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These may be with others already, so that nothing can be committed. Unless overridden, as on_partitions_revoked."""
        return self.on_partitions_revoked(partitions)


@dataclass(slots=True, eq=False)
class Call:
    """A function of the application that is due. `ends` is the work that is done with it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    ends: Work | None = None
    made: bool = False
    """Whether the function has been entered: a Ctrl-C before that leaves the call to the next poll."""

    def make(self) -> None:
        """Within a thread of the application; a coroutine cannot be awaited there."""
        self.made = True
        result = self.function(*self.arguments)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"{getattr(self.function, '__qualname__', self.function)} is a coroutine function: use AsyncConsumer for it")

    async def make_async(self) -> None:
        """Within a task of the application."""
        self.made = True
        result = self.function(*self.arguments)
        if inspect.isawaitable(result):
            await result


def listener_call(listener: object | None, work: Work) -> Call | None:
    """The method of the listener that the work asks for; None where there is none."""
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
