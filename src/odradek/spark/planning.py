"""Planning of a query in the driver: its partitions, and their first and last offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition, uuid_to_string
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import TopicDescription
from odradek.client.consumer.blocking import Consumer
from odradek.client.core.metadata import TopicInfo
from odradek.client.settings.config import Setting, settings_of_admin
from odradek.spark.options import PositionSpec, ReadOptions, TimeSpec
from odradek.spark.ranges import Offsets, TopicIds, exactly, resolve

T = TypeVar("T")

_API_TIMEOUT_MS = 60_000
"""Default of default.api.timeout.ms."""
_FIRST_LIMIT_MS = 2000
"""First time limit, milliseconds, of a request for offsets.

After each limit the planner checks whether the partitions exist, then doubles the limit.
"""


class Selection(NamedTuple):
    """Topics and partitions that a query reads now."""

    partitions: list[TopicPartition]
    ids: TopicIds
    missing: list[str]
    """Topics and assigned partitions that the query names and the cluster does not have."""


class PartitionsGone(KafkaError):
    """Error for partitions that were deleted after they were selected."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{', '.join(map(str, partitions))} no longer exist")
        self.partitions = partitions


def open_consumer(options: ReadOptions, **more: Setting) -> Consumer:
    """Return a consumer for planning or reading."""
    settings: dict[str, Setting] = dict(options.client)
    settings.setdefault("client.id", "odradek-spark")
    settings.setdefault("allow.auto.create.topics", "false")
    settings["auto.offset.reset"] = "none"
    # Spark's checkpoint keeps the offsets that were read.
    settings["enable.auto.commit"] = "false"
    for name, value in more.items():
        settings.setdefault(name.replace("_", "."), value)
    return Consumer(settings)


class Planner:
    """Planner of one query in the driver, with a consumer that is open until `close`.

    Requests with retriable errors are made `fetchOffset.numRetries` times in all, in addition to the client's own retries.
    """

    def __init__(self, options: ReadOptions, **settings: Setting) -> None:
        self._options = options
        self._consumer = open_consumer(options, **settings)
        self._admin: Admin | None = None

    def all_partitions(self) -> Selection:
        """Return the topics and partitions of the query. Raises KafkaError for a topic or an assigned partition that does not exist."""
        found = self.selection()
        if found.missing:
            option = "subscribe" if self._options.assign is None else "assign"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{', '.join(found.missing)} of the option {option}")
        return found

    def selection(self) -> Selection:
        """Return the topics and partitions of the query that exist. Asks the cluster each time, as partitions may have been added."""
        options = self._options
        if options.pattern is not None:
            return self._matching(re.compile(options.pattern))
        if options.assign is not None:
            there = self.of_topics({each.topic for each in options.assign})
            found = set(there.partitions)
            missing = [str(each) for each in options.assign if each not in found]
            return Selection([each for each in options.assign if each in found], there.ids, missing)
        return self.of_topics(options.subscribe or ())

    def of_topics(self, names: Iterable[str]) -> Selection:
        """Return the existing topics of `names`. A missing topic is requested again, as a broker may not know it yet."""
        names = list(names)
        found = self._described(names)
        for _ in range(self._options.fetch_offset_retries - 1):
            if len(found) == len(names):
                break
            self._pause()
            found = self._described(names)
        return _selected(found.values(), [name for name in names if name not in found])

    def _described(self, names: list[str]) -> dict[str, TopicDescription]:
        def ask() -> dict[str, TopicDescription]:
            found: dict[str, TopicDescription] = {}
            for name, each in self._connected_admin().try_describe_topics(names).items():
                if isinstance(each, TopicDescription):
                    found[str(name)] = each
                elif each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise each
            return found

        return self._again(ask)

    def _matching(self, pattern: re.Pattern[str]) -> Selection:
        """Return the topics whose names contain a match of the pattern, without Kafka's internal topics."""
        topics = self._again(lambda: self._connected_admin().list_topics())
        return _selected([topic for topic in topics if pattern.search(topic.name)], [])

    def _connected_admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(settings_of_admin(self._options.client))
        return self._admin

    def earliest(self, partitions: list[TopicPartition]) -> Offsets:
        """Return the first offset of each partition. Raises PartitionsGone when some were deleted."""
        return self._offsets(partitions, lambda limit_ms: self._consumer.beginning_offsets(partitions, limit_ms))

    def latest(self, partitions: list[TopicPartition]) -> Offsets:
        """Return the offset after the last readable record of each partition (isolation.level).

        Raises PartitionsGone when some were deleted.
        """
        return self._offsets(partitions, lambda limit_ms: self._consumer.end_offsets(partitions, limit_ms))

    def of_existing(self, ask: Callable[[list[TopicPartition]], Offsets], partitions: list[TopicPartition]) -> Offsets:
        """Return the result of `earliest`, `latest` or `latest_since` for the partitions that still exist."""
        while partitions:
            try:
                return ask(partitions)
            except PartitionsGone as error:
                partitions = [each for each in partitions if each not in error.partitions]
        return {}

    def latest_since(self, partitions: list[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Return the offsets of `latest`, after retries while an offset is smaller than the known one.

        A replica that has just become leader may report such an offset.
        """
        for _ in range(self._options.fetch_offset_retries - 1):
            found = self.latest(partitions)
            if all(offset >= known.get(partition, 0) for partition, offset in found.items()):
                return found
            self._pause()
        return self.latest(partitions)

    def position(self, name: str, spec: PositionSpec, earliest: Offsets, latest: Offsets) -> Offsets:
        """Return the offset of each partition of `earliest` by the option `name`.

        Raises ValueError for other partitions, and for a time after all records unless the option asks for `latest` in that case.
        """
        if not isinstance(spec, TimeSpec):
            return resolve(name, spec, earliest, latest)
        times = dict.fromkeys(earliest, spec.times) if isinstance(spec.times, int) else spec.times
        exactly(name, times, earliest)
        found = self._offsets_for_times(times)
        output: Offsets = {}
        for partition, time_ms in times.items():
            offset = found[partition]
            if offset is None and not spec.latest_when_none:
                raise ValueError(
                    f"{partition} has no offset with a timestamp of {time_ms} or later; with the option "
                    "startingOffsetsByTimestampStrategy=latest it starts at its end"
                )
            output[partition] = latest[partition] if offset is None else offset
        return output

    def _offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = self._offsets(times, lambda limit_ms: self._consumer.offsets_for_times(times, limit_ms))
        return {partition: None if each is None else each.offset for partition, each in found.items()}

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets for the group of the consumer."""
        self._consumer.commit(offsets)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        if self._admin is not None:
            self._admin.close()

    def _offsets(self, partitions: Iterable[TopicPartition], ask: Callable[[int], T]) -> T:
        """Call `ask` with a time limit in milliseconds, with retries as in `_again`. After each failure check that the partitions exist.

        The client would wait for a deleted partition until default.api.timeout.ms, as the partition might still be created. Shorter limits
        come first, so that the check is early; they do not count as attempts.
        """
        longest_ms = int(str(self._options.client.get("default.api.timeout.ms", _API_TIMEOUT_MS)))
        limit_ms, attempts = min(_FIRST_LIMIT_MS, longest_ms), 0
        while True:
            try:
                return ask(limit_ms)
            except KafkaError as error:
                attempts += error.code is not ErrorCode.REQUEST_TIMED_OUT or limit_ms == longest_ms
                if not error.code.retriable or attempts >= self._options.fetch_offset_retries:
                    raise
            self._check_there(partitions)
            self._pause()
            limit_ms = min(2 * limit_ms, longest_ms)

    def _check_there(self, partitions: Iterable[TopicPartition]) -> None:
        gone = {*partitions} - {*self.of_topics({each.topic for each in partitions}).partitions}
        if gone:
            raise PartitionsGone(sorted(gone))

    def _pause(self) -> None:
        """Wait between two attempts (fetchOffset.retryIntervalMs)."""
        time.sleep(self._options.fetch_offset_interval_ms / 1000)

    def _again(self, ask: Callable[[], T]) -> T:
        for _ in range(self._options.fetch_offset_retries - 1):
            try:
                return ask()
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                self._pause()
        return ask()


def _selected(topics: Iterable[TopicDescription | TopicInfo], missing: list[str]) -> Selection:
    topics = list(topics)
    ids = {topic.name: uuid_to_string(topic.topic_id) for topic in topics if topic.topic_id != ZERO_UUID}
    return Selection([TopicPartition(topic.name, number) for topic in topics for number in sorted(topic.partitions)], ids, missing)
