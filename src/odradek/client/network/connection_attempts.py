"""Watchers of connection attempts, for programs that tell their users whether clients reach their nodes.

A client goes on trying within its time limits. A watcher is called for each attempt of all clients of the process, so that a command line
can say early what the client is trying.
"""

from __future__ import annotations

from typing import Protocol

from odradek.base.notify import tell_each


class Watcher(Protocol):
    """Observer of connections, called on the event loops of the clients. `node_id` is negative for bootstrap servers."""

    def dialling(self, node_id: int, where: str) -> None:
        """Note that a connection to `where` (HOST:PORT) is being made."""
        ...

    def failed(self, node_id: int, where: str, reason: str) -> None:
        """Note that the connection could not be made, or that the node did not serve it."""
        ...

    def connected(self, node_id: int) -> None:
        """Note that a connection to the node is ready."""
        ...

    def given_up(self, node_id: int) -> None:
        """Note that the connection is not needed any more."""
        ...


watchers: list[Watcher] = []
"""Watchers of the process."""


def dialling(node_id: int, where: str) -> None:
    tell_each([each.dialling for each in watchers], node_id, where)


def failed(node_id: int, where: str, reason: str) -> None:
    tell_each([each.failed for each in watchers], node_id, where, reason)


def connected(node_id: int) -> None:
    tell_each([each.connected for each in watchers], node_id)


def given_up(node_id: int) -> None:
    tell_each([each.given_up for each in watchers], node_id)
