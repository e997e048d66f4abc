"""Watching whether clients reach the nodes they need, for programs that tell their users.

A client goes on trying for as long as its time limits allow. A watcher hears of each attempt of all clients of the process, so that a
command line can say early what the client is trying.
"""

from __future__ import annotations

from typing import Protocol

from odradek.base.telling import tell_each


class Watcher(Protocol):
    """Observer of connections; it is called on the event loops of the clients. `node_id` is negative for bootstrap servers."""

    def dialling(self, node_id: int, where: str) -> None:
        """A connection to `where` (HOST:PORT) is being made."""
        ...

    def failed(self, node_id: int, where: str, reason: str) -> None:
        """The connection could not be made, or the node did not serve it."""
        ...

    def connected(self, node_id: int) -> None:
        """A connection to the node is ready."""
        ...

    def given_up(self, node_id: int) -> None:
        """The connection is not needed any more."""
        ...


watchers: list[Watcher] = []
"""All watchers of the process."""


def dialling(node_id: int, where: str) -> None:
    tell_each([each.dialling for each in watchers], node_id, where)


def failed(node_id: int, where: str, reason: str) -> None:
    tell_each([each.failed for each in watchers], node_id, where, reason)


def connected(node_id: int) -> None:
    tell_each([each.connected for each in watchers], node_id)


def given_up(node_id: int) -> None:
    tell_each([each.given_up for each in watchers], node_id)
