"""What a test does to brokers that run: faults, and the clock."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from odradek.testing.faults import Action, ApiName, Rule, new_rule
from odradek.testing.node_agent import TestingError

if TYPE_CHECKING:
    from odradek.base.errors import ErrorCode

_CLUSTER_STEP_S: Final = 0.5
"""A quarter of the shortest time after which nodes miss one another (controller.quorum.fetch.timeout.ms)."""
_MOST_CLUSTER_STEPS: Final = 1_000
_BETWEEN_STEPS_S: Final = 0.004
"""For the nodes to hear of one another."""


_numbers = itertools.count(1)
"""Of faults: one that ended with its broker's life must not be taken for another of the next life."""


class Controlled(Protocol):
    """A node that is up."""

    ahead_s: float

    @property
    def is_up(self) -> bool: ...

    def call(self, name: str, *arguments: Any) -> Any: ...


class Fault:
    """A fault that was made; it ends with `remove`, at the end of a `with` block, when it was used up, and with the broker's life."""

    def __init__(self, nodes: Sequence[Controlled], number: int) -> None:
        self._nodes = nodes
        self._number = number

    @property
    def hits(self) -> int:
        """How many requests it has struck, over all nodes that are up."""
        return sum([node.call("hits", self._number) for node in self._nodes if node.is_up])

    def remove(self) -> None:
        """It strikes no more; no error when it is gone already."""
        for node in self._nodes:
            if node.is_up:
                node.call("remove_rule", self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Faults:
    """What goes wrong for clients of a broker, or of each node of a cluster that is up.

    - `api`: `ApiKey.PRODUCE`, "Produce" or 0; several in a list; None is every API.
    - `topic`, `partition`: only requests that name it. Of a request that names others as well, the others are served.
    - `client_id`: only clients of that id, in which `*` and `?` stand for anything. Without it: all but the cluster's own nodes.
    - `times`: so many requests (on each node), then no more. `skip`: so many are let through first.

    A request is struck by the first fault that is for it, in the order in which they were made. FaultError for what cannot be,
    TestingError while no broker is up.
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
        """Answers with the error, in the place that it has in the API's answer, and in the version that was asked.

        Nothing is done, unless `applied`: then the request takes effect all the same, as when a leader loses its lead just afterwards.
        Where there is no answer to put it in (Produce with acks=0) the connection ends, as it does in Kafka.
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
        """The request takes effect at once, its answer leaves so many seconds late, and later ones of the connection after it."""
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
        """The request is lost: it takes no effect and has no answer, and nothing that follows it on its connection is served."""
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
        """The request takes effect, its answer is lost, and nothing that follows it on its connection is served."""
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
        """The connection ends in place of an answer; the request takes no effect, unless `applied`."""
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
        """As a broker does whose quota is exceeded (KIP-219): the answer leaves at once and names `throttle_time_ms`, where its version has
        that; what the connection sends within that time is served after it.
        """
        return self._add(new_rule(Action.THROTTLE, api, seconds=seconds, client_id=client_id, times=times, skip=skip))

    def disconnect(self, client_id: str | None = None) -> int:
        """Ends the connections that clients have now, all of them or those with that id; how many."""
        return sum([node.call("disconnect", client_id) for node in self._up()])

    def refuse_connections(self) -> None:
        """New connections are reset as soon as they are made, those of other nodes, too; open ones stay. Until `accept_connections`."""
        for node in self._up():
            node.call("refuse", True)

    def accept_connections(self) -> None:
        """Takes `refuse_connections` back."""
        for node in self._up():
            node.call("refuse", False)

    def clear(self) -> None:
        """All is well from now on. What was dropped stays lost: its clients notice when their own time is over."""
        for node in self._nodes():
            if node.is_up:
                node.call("clear")

    def _up(self) -> list[Controlled]:
        """TestingError when nobody is there to do anything wrong."""
        up = [node for node in self._nodes() if node.is_up]
        if not up:
            raise TestingError("no broker is up: its faults are made after its start, and end with it")
        return up

    def _add(self, rule: Rule) -> Fault:
        number = next(_numbers)
        nodes = self._up()
        for node in nodes:
            node.call("add_rule", number, rule)
        return Fault(nodes, number)


class ClockControl:
    """The clock of a broker, or of all nodes of a cluster: it goes as the system's does, and can be put forward.

    Retention, sessions of groups, transactions that time out, producers that expire: all of that goes by this clock, in the broker only.
    Clients have their own, so that a consumer goes on with its heartbeats at its own pace.
    """

    def __init__(self, nodes: Callable[[], Sequence[Controlled]]) -> None:
        self._nodes = nodes

    def time_ms(self) -> int:
        """Milliseconds since the Unix epoch, as the (first) node has it."""
        nodes = [node for node in self._nodes() if node.is_up]
        ahead_s = self._nodes()[0].ahead_s
        return int(nodes[0].call("time_ms")) if nodes else time.time_ns() // 1_000_000 + round(ahead_s * 1000)

    def advance(self, seconds: float | timedelta) -> None:
        """Puts the clock forward; returns when what has become due meanwhile has been done. ValueError for less than nothing.

        A single broker does in order what it would have done in that time, however long it is. The nodes of a cluster are put forward
        together, half a second at a time: that takes 5 to 10 ms a step. From 500 s on the steps are longer, and the nodes miss one another
        meanwhile, as when their machines had been suspended: they elect a leader of the quorum anew, and serve some seconds later.
        """
        total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not total >= 0 or math.isinf(total):
            raise ValueError(f"a clock cannot be put forward by {seconds} s")
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
