"""Peers that owe, take, pay and come back in any order, beside a plain sum of what they owe."""

from __future__ import annotations

import pytest

from odradek.network.unsent_bytes import EXEMPT, PATIENCE_S, UnsentBytes
from tests.clock import ManualClock
from tests.network.unsent_support import MIB, Peer
from tests.walks import step, walk

NAMES = "abcde"
MOST = 4 * MIB


class Debts:
    """What is owed is the sum of what each owes; nobody is closed below half of the room, and above it those that have taken nothing."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.unsent: UnsentBytes[Peer] = UnsentBytes(2 * MOST, self.clock, self.close)
        self.peers = {name: Peer(name) for name in "abcde"}
        self.debts: dict[str, int] = {}
        self.took_s = dict.fromkeys("abcde", 0.0)
        """When each has last taken something, or begun to owe."""
        self.asking = ""
        self.closed = 0

    def close(self, peer: Peer, size: int) -> None:
        name = peer.name
        total = sum(self.debts.values())
        assert name != self.asking, "who has just asked is not closed"
        assert self.debts.pop(name) == size
        assert total > MOST // 2
        assert total > MOST or self.clock.now_s - self.took_s[name] >= PATIENCE_S
        peer.left = 0
        self.closed += 1

    def says(self, name: str, size: int) -> None:
        self.asking = name
        if size > EXEMPT:
            self.debts[name] = size
            self.took_s[name] = self.clock.now_s
        else:
            self.debts.pop(name, None)
        self.unsent.report(self.peers[name], size)
        self.asking = ""

    @step(name=NAMES, size=(EXEMPT, EXEMPT + 1, MIB // 2, MIB, 2 * MIB, 5 * MIB))
    def asks(self, name: str, size: int) -> None:
        before = self.debts.get(name, 0)
        self.peers[name].left = size
        self.says(name, size)
        if size > max(EXEMPT, before):
            assert sum(self.debts.values()) <= MOST or self.debts.keys() == {name}, "there is room again"

    @step(name=NAMES)
    def pays(self, name: str) -> None:
        """All of it is taken."""
        self.peers[name].left = 0
        self.says(name, 0)

    @step(name=NAMES)
    def takes(self, name: str) -> None:
        """A part, which the kernel does not tell anybody of."""
        if name in self.debts and self.peers[name].left > 1:
            self.peers[name].left //= 2
            self.took_s[name] = self.clock.now_s

    @step(seconds=(0.5, PATIENCE_S, 30.0))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance_s(seconds)

    @step()
    def all_pay(self) -> None:
        for name in "abcde":
            self.pays(name)
        assert self.unsent.in_memory == 0

    def holds(self) -> None:
        assert self.unsent.in_memory == sum(self.debts.values())


@pytest.mark.parametrize("seed", range(8))
def test_debts_in_any_order(seed: int) -> None:
    walk(Debts(), seed, 300)
