"""Placement of new replicas, striped over racks and brokers (org.apache.kafka.metadata.placement.StripedReplicaPlacer).

1. Racks are visited in the order of their names from a random one. Each partition starts one rack further.
2. In a rack, brokers are visited in the order of their ids from a random one. Each partition starts one broker further.
3. The first replica, the leader, is always on an unfenced broker. The other replicas take unfenced brokers before fenced ones.
4. A partition uses each broker at most once, and a rack again only after all other racks.
5. After as many partitions as there are unfenced brokers, everything is shuffled, so that the same replica sets do not repeat.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    """Registered broker that is not shutting down."""

    broker_id: int
    rack: str | None
    fenced: bool


class _Brokers:
    """Fenced or unfenced brokers of a rack. `next` returns each broker once per round."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._round = -1
        self._index = 0
        self._offset = 0

    def start(self, rng: random.Random) -> None:
        self.ids.sort()
        if self.ids:
            self._offset = rng.randrange(len(self.ids))

    def next(self, round_number: int) -> int | None:
        if not self.ids:
            return None
        if self._round != round_number:
            self._round = round_number
            self._index = 0
            self._offset = (self._offset + 1) % len(self.ids)
        if self._index >= len(self.ids):
            return None
        found = self.ids[(self._index + self._offset) % len(self.ids)]
        self._index += 1
        return found


class _Rack:
    def __init__(self) -> None:
        self.fenced = _Brokers()
        self.unfenced = _Brokers()

    def next(self, round_number: int) -> int | None:
        found = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if found is None else found


class StripedPlacer:
    """Placement of the partitions of one topic, one partition after another."""

    def __init__(self, brokers: Iterable[UsableBroker], rng: random.Random) -> None:
        self._rng = rng
        self._racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = self._racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).ids.append(broker.broker_id)
        for rack in self._racks.values():
            rack.fenced.start(rng)
            rack.unfenced.start(rng)
        self._order = sorted(self._racks, key=lambda name: (name is not None, name or ""))
        self._unfenced = sum(len(rack.unfenced.ids) for rack in self._racks.values())
        self._total = self._unfenced + sum(len(rack.fenced.ids) for rack in self._racks.values())
        self._round = 0
        self._offset = rng.randrange(len(self._order)) if self._order else 0

    def check(self, replication_factor: int) -> None:
        """Raise KafkaError INVALID_REPLICATION_FACTOR when that number of replicas cannot be placed."""
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        if replication_factor <= 0:
            raise KafkaError(code, f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
        if self._unfenced == 0:
            raise KafkaError(code, "All brokers are currently fenced.")
        if replication_factor > self._total:
            raise KafkaError(
                code,
                f"The target replication factor of {replication_factor} cannot be reached "
                f"because only {self._total} broker(s) are registered or some brokers have all their log directories cordoned.",
            )

    def place(self, replication_factor: int) -> list[int]:
        """Return the replicas of the next partition, the leader first. Raises KafkaError INVALID_REPLICATION_FACTOR like `check`."""
        self.check(replication_factor)
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
        order = self._order
        if self._offset == len(order):
            self._offset = 0
        first = self._offset
        leader = self._racks[order[first]].unfenced.next(self._round)
        while leader is None:
            first = (first + 1) % len(order)
            leader = self._racks[order[first]].unfenced.next(self._round)
        placed = [leader]
        position, skip = self._offset, first
        while len(placed) < replication_factor:
            if position == skip:
                skip = -1
            else:
                found = self._racks[order[position]].next(self._round)
                if found is not None:
                    placed.append(found)
            position = (position + 1) % len(order)
        self._round += 1
        self._offset += 1
        return placed

    def _shuffle(self) -> None:
        self._rng.shuffle(self._order)
        for rack in self._racks.values():
            self._rng.shuffle(rack.fenced.ids)
            self._rng.shuffle(rack.unfenced.ids)
        self._round = 0
