"""Faults and clock of running test brokers."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from odradek.testing.kit.faults import Action, ApiName, Rule, new_rule
from odradek.testing.kit.node_agent import TestingError

if TYPE_CHECKING:
    from odradek.base.errors import ErrorCode

_CLUSTER_STEP_S: Final = 0.5
"""Seconds of one step of a cluster's clock: a quarter of the shortest timeout between nodes (controller.quorum.fetch.timeout.ms, 2 s)."""
_MOST_CLUSTER_STEPS: Final = 1_000
_BETWEEN_STEPS_S: Final = 0.004
"""Real seconds between two steps, in which the nodes exchange requests."""


_numbers = itertools.count(1)
"""Numbers of faults. The numbers are unique in the process: a fault that ended with a broker's life must not be confused with a fault of
the next life.
"""


class Controlled(Protocol):
    """Node whose faults and clock are controlled."""

    ahead_s: float

    @property
    def is_up(self) -> bool: ...

    def call(self, name: str, *arguments: Any) -> Any: ...


class Fault:
    """Handle of one fault.

    The fault ends with `remove`, at the end of a `with` block, after `times` requests, or with the broker's life.
    """

    def __init__(self, nodes: Sequence[Controlled], number: int) -> None:
        self._nodes = nodes
        self._number = number

    @property
    def hits(self) -> int:
        """Number of requests that the fault has hit, summed over all nodes that are up."""
        return sum([node.call("hits", self._number) for node in self._nodes if node.is_up])

    def remove(self) -> None:
        """End the fault. No error when the fault has ended already."""
        for node in self._nodes:
            if node.is_up:
                node.call("remove_rule", self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Faults:
    """Faults of one broker, or of each node of a cluster that is up.

    - `api`: `ApiKey.PRODUCE`, "Produce" or 0; several in a list; None is every API.
    - `topic`, `partition`: only requests that name this topic or partition. Other topics and partitions in the same request are served.
    - `client_id`: only clients with this id; `*` and `?` are wildcards. Without `client_id`: all clients except the cluster's own nodes.
    - `times`: number of requests to hit on each node; the fault then ends. `skip`: number of matching requests to let through first.

    The first fault that matches a request hits the request, in the order in which the faults were made. Methods raise FaultError for
    arguments that make no fault, and TestingError while no broker is up.
    """

    def __init__(self, nodes: Callable[[], Sequence[Controlled]]) -> None:
        self._nodes = nodes

    def fail(
        self,
        api: ApiName | Sequence[ApiName],
        error: ErrorCode | str | int,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
        message: str | None = None,
        applied: bool = False,
    ) -> Fault:
        """Answer with the error, in the fields that the API's response has for errors, and in the request's version.

        The broker does not handle the request, unless `applied` is set. With `applied`, the request takes effect and the response still
        carries the error, as when a leader loses its leadership just after the append. Where no response is sent (Produce with acks=0), the
        connection closes, as in Kafka.
        """
        return self._add(
            new_rule(
                Action.FAIL,
                api,
                error=error,
                topic=topic,
                partition=partition,
                client_id=client_id,
                times=times,
                skip=skip,
                message=message,
                applied=applied,
            )
        )

    def delay(
        self,
        api: ApiName | Sequence[ApiName] | None,
        seconds: float,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """Handle the request at once and delay its response by `seconds`. Later responses on the connection follow the delayed response."""
        return self._add(
            new_rule(Action.DELAY, api, seconds=seconds, topic=topic, partition=partition, client_id=client_id, times=times, skip=skip)
        )

    def drop(
        self,
        api: ApiName | Sequence[ApiName] | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """Lose the request: the broker does not handle the request, sends no response, and handles no later request on the connection."""
        return self._add(new_rule(Action.DROP, api, topic=topic, partition=partition, client_id=client_id, times=times, skip=skip))

    def drop_answers(
        self,
        api: ApiName | Sequence[ApiName] | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """Lose the response: the broker handles the request, sends no response, and handles no later request on the connection."""
        return self._add(
            new_rule(Action.DROP, api, topic=topic, partition=partition, client_id=client_id, times=times, skip=skip, applied=True)
        )

    def disconnect_on(
        self,
        api: ApiName | Sequence[ApiName] | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
        applied: bool = False,
    ) -> Fault:
        """Close the connection in place of a response. The request does not take effect, unless `applied` is set."""
        return self._add(
            new_rule(Action.DISCONNECT, api, topic=topic, partition=partition, client_id=client_id, times=times, skip=skip, applied=applied)
        )

    def throttle(
        self,
        api: ApiName | Sequence[ApiName] | None,
        seconds: float,
        *,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Fault:
        """Throttle clients as a broker does when a quota is exceeded (KIP-219).

        The response is sent at once, with `throttle_time_ms` where its version has the field. The broker handles the next request of the
        connection after `seconds`.
        """
        return self._add(new_rule(Action.THROTTLE, api, seconds=seconds, client_id=client_id, times=times, skip=skip))

    def disconnect(self, client_id: str | None = None) -> int:
        """Close the current connections of clients, or of the clients with this id, and return their number."""
        return sum([node.call("disconnect", client_id) for node in self._up()])

    def refuse_connections(self) -> None:
        """Reset new connections as soon as they are accepted, until `accept_connections`. Connections of other nodes are reset, too; open
        ones stay.
        """
        for node in self._up():
            node.call("refuse", True)

    def accept_connections(self) -> None:
        """Accept new connections again after `refuse_connections`."""
        for node in self._up():
            node.call("refuse", False)

    def clear(self) -> None:
        """End all faults. Requests and responses that were dropped stay lost; their clients notice at their own timeouts."""
        for node in self._nodes():
            if node.is_up:
                node.call("clear")

    def _up(self) -> list[Controlled]:
        """Return the nodes that are up. Raises TestingError when no node is up."""
        up = [node for node in self._nodes() if node.is_up]
        if not up:
            raise TestingError("the broker is not running: faults are set after its start, and end when it stops")
        return up

    def _add(self, rule: Rule) -> Fault:
        number = next(_numbers)
        nodes = self._up()
        for node in nodes:
            node.call("add_rule", number, rule)
        return Fault(nodes, number)


class ClockControl:
    """Clock of a broker, or of all nodes of a cluster. The clock runs as the system's clock does, and a test can advance it.

    The broker's retention, group sessions, transaction timeouts and producer expiration use this clock. Clients have their own clock: a
    consumer sends its heartbeats at the usual pace.
    """

    def __init__(self, nodes: Callable[[], Sequence[Controlled]]) -> None:
        self._nodes = nodes

    def time_ms(self) -> int:
        """Return the first node's time in milliseconds since the Unix epoch."""
        nodes = [node for node in self._nodes() if node.is_up]
        ahead_s = self._nodes()[0].ahead_s
        return int(nodes[0].call("time_ms")) if nodes else time.time_ns() // 1_000_000 + round(ahead_s * 1000)

    def advance(self, seconds: float | timedelta) -> None:
        """Advance the clock, and wait until everything that has become due is done. Raises ValueError for a negative or infinite time.

        A single broker does all that would have become due, in order, however long the time is. The nodes of a cluster advance together in
        steps of half a second; one step takes 5 to 10 ms. Above 500 s the steps are longer than half a second. The nodes then lose contact,
        as after a suspension of their machines: the quorum elects a new leader, and the nodes serve clients some seconds later.
        """
        total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not total >= 0 or math.isinf(total):
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        nodes = self._nodes()
        up = [node for node in nodes if node.is_up]
        if len(up) == 1:
            up[0].call("advance", total)
        elif up:
            steps = min(max(1, math.ceil(total / _CLUSTER_STEP_S)), _MOST_CLUSTER_STEPS)
            with ThreadPoolExecutor(len(up), "odradek-clock") as pool:
                for _ in range(steps):
                    for work in [pool.submit(node.call, "advance", total / steps) for node in up]:
                        work.result()
                    time.sleep(_BETWEEN_STEPS_S)
        for node in nodes:
            node.ahead_s += total
