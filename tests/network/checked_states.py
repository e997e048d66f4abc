"""Checks of the states of connections: in a test every transition is one that the tables of `network.states` allow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from odradek.network.inbound import Inbound
from odradek.network.outbound import Outbound
from odradek.network.states import INBOUND, OUTBOUND


class CheckedState:
    """Descriptor in the place of the slot `state` of a class. It notes transitions, and raises for those that the table does not allow."""

    def __init__(self, slot: Any, allowed: Mapping[Any, frozenset[Any]]) -> None:
        self._slot = slot
        self._allowed = allowed
        self.seen: set[tuple[Enum, Enum]] = set()
        self.wrong: list[tuple[Enum, Enum]] = []
        """Transitions that are not allowed. An event loop only logs what its callbacks raise, so that a test asks for them at its end."""

    def __get__(self, machine: Any, owner: Any = None) -> Any:
        return self if machine is None else self._slot.__get__(machine, owner)

    def __set__(self, machine: Any, state: Any) -> None:
        before = getattr(machine, "state", None)
        self._slot.__set__(machine, state)
        if before is None or before is state:
            return
        self.seen.add((before, state))
        if state not in self._allowed[before]:
            self.wrong.append((before, state))
            raise RuntimeError(f"{type(machine).__name__} cannot go from {before.name} to {state.name}")


class CheckedStates:
    """Checks of both machines, for the time of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inbound = CheckedState(vars(Inbound)["state"], INBOUND)
        self.outbound = CheckedState(vars(Outbound)["state"], OUTBOUND)
        monkeypatch.setattr(Inbound, "state", self.inbound)
        monkeypatch.setattr(Outbound, "state", self.outbound)

    def check(self) -> None:
        """Raise AssertionError if a transition was not allowed."""
        assert self.inbound.wrong + self.outbound.wrong == []
