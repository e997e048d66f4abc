"""Peer that does not read its answers."""

from __future__ import annotations

MIB = 1 << 20


class Peer:
    """A connection; the test says what it has not taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left = 0

    def unsent(self) -> int:
        return self.left
