"""Interceptors of the consumer: what they see, change and hear, and that their errors are their own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.base.errors import ConfigError
from odradek.client import AsyncConsumer, Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition
from odradek.client.consumer.interceptors import take_interceptors
from tests.client.members import fill

RECORD = ConsumerRecord("t", 0, 0, 0, 0, None, b"v", ())


class Watching:
    """Remembers what it is told, and appends its name to values."""

    def __init__(self, name: bytes = b"!") -> None:
        self.name = name
        self.committed: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.threads: set[int] = set()
        self.consumed = self.closed = 0
        self.settings: Mapping[str, Any] | None = None

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self.threads.add(threading.get_ident())
        self.consumed += 1
        return [record._replace(value=record.value + self.name) for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.threads.add(threading.get_ident())
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


class Failing:
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        raise RuntimeError("on purpose")

    def on_commit(self, offsets: object) -> None:
        raise RuntimeError("on purpose")

    def close(self) -> None:
        raise RuntimeError("on purpose")


class OnlyCommits:
    def on_commit(self, offsets: object) -> None:
        pass


class Unmakable:
    def __init__(self) -> None:
        raise RuntimeError("not today")

    def close(self) -> None:
        pass


def test_each_gets_what_the_one_before_it_gave() -> None:
    found = take_interceptors({"interceptor.classes": [Watching(b"1"), OnlyCommits(), Watching(b"2")]})
    assert found is not None
    assert [record.value for record in found.on_consume([RECORD])] == [b"v12"]


def test_one_that_fails_is_passed_over_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    last = Watching(b"2")
    found = take_interceptors({"interceptor.classes": [Watching(b"1"), Failing(), last]})
    assert found is not None
    with caplog.at_level(logging.WARNING):
        assert [record.value for record in found.on_consume([RECORD])] == [b"v12"]
        found.on_commit({})
        found.close()
    assert len(caplog.records) == 3
    assert (last.committed, last.closed) == ([{}], 1)


def test_nothing_is_no_batch_of_records() -> None:
    watching = Watching()
    found = take_interceptors({"interceptor.classes": watching})
    assert found is not None
    assert found.on_consume([]) == []
    assert watching.consumed == 0


def test_they_are_objects_classes_or_import_paths_and_get_the_settings() -> None:
    path = f"{__name__}.Failing, {__name__}:OnlyCommits"
    settings: dict[str, Any] = {"interceptor_classes": path, "group.id": "g"}
    assert take_interceptors(settings) is not None
    assert settings == {"group.id": "g"}
    assert take_interceptors({"interceptor.classes": [Failing, Watching]}) is not None
    watching = Watching()
    take_interceptors({"interceptor.classes": watching, "group.id": "g"})
    assert watching.settings == {"group.id": "g"}


@pytest.mark.parametrize("nothing", [{}, {"interceptor.classes": None}, {"interceptor.classes": ""}, {"interceptor.classes": []}])
def test_none_are_none(nothing: dict[str, Any]) -> None:
    assert take_interceptors(nothing) is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("no.such.Thing", "No module named 'no'"),
        (f"{__name__}.Nothing", "Nothing"),
        ("Bare", "Invalid value Bare"),
        (object(), "it must have at least one of the methods on_consume, on_commit, close"),
        (Unmakable, "not today"),
        ([Failing, Failing], "twice"),
    ],
)
def test_what_is_none_is_refused_in_one_line(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        Consumer(interceptor_classes=given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="given twice"):
        Consumer({"interceptor.classes": "a", "interceptor_classes": "b"})


def test_what_is_read_and_committed_passes_them(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 3, partitions=1)
    watching, where = Watching(), TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=f"of-{topic}",
        auto_offset_reset="earliest",
        interceptor_classes=[Failing(), watching],  # type: ignore[arg-type]
    ) as consumer:
        consumer.assign([where])
        values: list[bytes] = []
        while len(values) < 3:
            values += [record.value for record in consumer.poll(5000)]
        consumer.commit()
        assert watching.committed == [], "it is told in a poll"
        consumer.poll(0)
        assert [offsets[where].offset for offsets in watching.committed] == [3]
        consumer.commit({where: 1})
    assert all(value.endswith(b"!") for value in values)
    assert [offsets[where].offset for offsets in watching.committed][:2] == [3, 1]
    assert watching.closed == 1
    assert watching.threads == {threading.get_ident()}


def test_what_is_committed_last_is_told_too(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 3, partitions=1)
    watching = Watching()

    async def story() -> None:
        settings: dict[str, Any] = {"group_id": f"of-{topic}", "auto_offset_reset": "earliest", "interceptor_classes": watching}
        async with AsyncConsumer(bootstrap_servers=bootstrap, **settings) as consumer:
            consumer.subscribe([topic])
            while not await consumer.poll(5000):
                pass

    asyncio.run(story())
    assert [offsets[TopicPartition(topic, 0)].offset for offsets in watching.committed] == [3]
    assert watching.closed == 1
