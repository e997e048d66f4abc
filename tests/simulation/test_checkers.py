"""Every checker accepts a sound history and names what a broken one breaks."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition
from odradek.testing.simulation import simulated_history as h

P = TopicPartition("topic", 0)


def entry(number: int, offset: int | None = None, *, producer: str = "p", producer_id: int = 1) -> h.LogEntry:
    return h.LogEntry(number if offset is None else offset, h.value_of(producer, 0, number), producer_id, 0, number)


LOG = [entry(number) for number in range(5)]


def acked(number: int, offset: int | None = None) -> h.Acked:
    return h.Acked("p", P, h.value_of("p", 0, number), number if offset is None else offset)


def read(number: int, offset: int | None = None, session: int = 1) -> h.Read:
    return h.Read("r", session, P, number if offset is None else offset, h.value_of("p", 0, number))


def final(entries: Sequence[h.LogEntry] = LOG) -> h.FinalLogs:
    return h.FinalLogs({P: entries})


def loss(before: int, after: int, *, may_lose: bool) -> h.PowerLoss:
    return h.PowerLoss({P: LOG[:before]}, {P: LOG[:after]}, may_lose)


CREATED = h.TopicCreated("topic", UUID(int=7), 2)
THERE = h.Listing({"topic": (UUID(int=7), 2)})
GONE = h.Listing({})

SOUND: list[list[h.Event]] = [
    [acked(0), acked(1, -1), read(0), read(1), h.HighWatermark("r", P, 2), h.HighWatermark("r", P, 2), final()],
    [
        acked(4),
        read(3),
        read(4),
        h.HighWatermark("r", P, 5),
        loss(5, 3, may_lose=True),
        h.HighWatermark("r", P, 3),
        read(2),
        final(LOG[:3]),
    ],
    [acked(2), loss(5, 3, may_lose=False), final()],
    [h.ProducerIdGiven("a", 1000), h.ProducerIdGiven("b", 1001), final()],
    [CREATED, THERE, h.TopicDeletion("topic", False), THERE, h.TopicDeletion("topic", True), GONE],
    [CREATED, CREATED._replace(partitions=3), h.Listing({"topic": (UUID(int=7), 3), "other": (UUID(int=8), 1)})],
]

BROKEN: list[tuple[str, list[h.Event]]] = [
    ("acked-is-there", [acked(7), final()]),
    ("acked-is-there", [acked(2, 3), final()]),
    ("acked-is-there", [acked(4), loss(5, 3, may_lose=False), final(LOG[:3])]),
    ("nothing-refused", [h.Refused("p", P, b"p:0:1:", "too late")]),
    ("no-duplicates", [final([*LOG, entry(3, 5)])]),
    ("order-kept", [final([*LOG, entry(7, 5), entry(6, 6)])]),
    ("offsets-dense", [final([*LOG, entry(5, 6)])]),
    ("high-watermark-monotonic", [h.HighWatermark("r", P, 5), h.HighWatermark("r", P, 4)]),
    ("high-watermark-monotonic", [h.HighWatermark("r", P, 5), loss(5, 5, may_lose=False), h.HighWatermark("r", P, 4)]),
    ("reads-are-the-log", [read(0), read(2), final()]),
    ("reads-are-the-log", [read(1), read(1), final()]),
    ("reads-are-the-log", [read(3, 2), final()]),
    ("reads-are-the-log", [read(4), loss(5, 3, may_lose=False), final(LOG[:3])]),
    ("prefix-survives", [h.PowerLoss({P: LOG}, {P: [LOG[0], LOG[2]]}, True)]),
    ("prefix-survives", [acked(4), loss(5, 3, may_lose=False)]),
    ("producer-ids-given-once", [h.ProducerIdGiven("a", 1000), h.ProducerIdGiven("b", 1000)]),
    ("producer-ids-given-once", [final([entry(0), entry(0, 1, producer="q")])]),
    ("metadata-survives", [CREATED, GONE]),
    ("metadata-survives", [CREATED, h.Listing({"topic": (UUID(int=8), 2)})]),
    ("metadata-survives", [CREATED._replace(partitions=3), THERE]),
    ("metadata-survives", [CREATED, h.TopicDeletion("topic", False), h.TopicDeletion("topic", True), THERE]),
]


@pytest.mark.parametrize("events", SOUND)
def test_a_sound_history_passes(events: list[h.Event]) -> None:
    assert h.check(h.History(events)) == []


@pytest.mark.parametrize(("name", "events"), BROKEN)
def test_a_broken_history_is_named(name: str, events: list[h.Event]) -> None:
    assert h.CHECKERS[name](h.History(events)) != []


def test_every_checker_can_fail() -> None:
    assert {name for name, _ in BROKEN} == set(h.CHECKERS)
