"""Streaming queries of our source and sink beside those of Spark's Kafka connector: micro-batches, restarts, what comes and goes."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.peers import OdradekBroker
from odradek.client import NewTopic
from odradek.spark import offsets_behind_latest
from odradek.spark.ranges import TOPIC_IDS
from tests.interop import spark_direct
from tests.interop.spark_differences import difference_of
from tests.interop.spark_options import STREAMS, Case
from tests.interop.spark_sessions import Answer, Session, by_partition, kind_of
from tests.interop.spark_topics import CONFIG, Topics

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

NOW = {"availableNow": True}


class Sides:
    """The connector on the Spark that it is for, ours on the installed one, and topics on Odradek's broker."""

    def __init__(self, folder: Path, topics: Topics) -> None:
        self.topics = topics
        self.sessions = {
            "kafka": Session(folder / "their-spark", "kafka"),
            "odradek": Session(folder / "our-spark", "odradek", installed=True),
        }
        self._numbers = itertools.count()
        for session in self.sessions.values():
            session.ready()

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def both(self, *jobs: dict[str, Any]) -> dict[str, list[Answer]]:
        """The same jobs at both, at the same time."""
        for session in self.sessions.values():
            session.ask(jobs)
        return {side: session.answers(len(jobs)) for side, session in self.sessions.items()}

    def checkpoint(self) -> str:
        """A new folder for it."""
        return f"checkpoint-{next(self._numbers)}"

    def start(self, *queries: tuple[dict[str, str], dict[str, Any], str]) -> Running:
        """Starts queries at both: options, trigger, checkpoint."""
        jobs = [
            {"job": "start", "options": self.topics.options(options), "trigger": trigger, "checkpoint": checkpoint}
            for options, trigger, checkpoint in queries
        ]
        return Running(self, self.both(*jobs))

    def run(self, options: dict[str, str], checkpoint: str, trigger: dict[str, Any] = NOW) -> dict[str, Answer]:
        """One query to its end: its progress and rows, or its error."""
        running = self.start((options, trigger, checkpoint))
        done = running.each("finish")
        stopped = running.each("stop")
        return {
            side: {**done[side][0], **stopped[side][0]} if "error" not in running.started[side][0] else running.started[side][0]
            for side in done
        }

    def topic(self, name: str, partitions: int = 1) -> None:
        self.topics.admin.create_topics([NewTopic(name, partitions, 1)])

    def send(self, topic: str, partition: int, many: int) -> None:
        producer = Producer({"bootstrap.servers": self.topics.bootstrap})
        for number in range(many):
            self.topics.send(producer, topic, partition, number)
        producer.flush()


class Running:
    """Queries that were started at both sides."""

    def __init__(self, sides: Sides, started: dict[str, list[Answer]]) -> None:
        self._sides = sides
        self.started = started

    def each(self, job: str) -> dict[str, list[Answer]]:
        """Does something with every query."""
        for side, session in self._sides.sessions.items():
            session.ask([{"job": job, **answer} for answer in self.started[side] if "error" not in answer])
        return {
            side: session.answers(sum("error" not in answer for answer in self.started[side])) or [{} for _ in self.started[side]]
            for side, session in self._sides.sessions.items()
        }


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("streams")
    with OdradekBroker(folder / "broker", CONFIG) as broker, contextlib.ExitStack() as stack:
        topics = Topics(broker.bootstrap)
        stack.callback(topics.close)
        made = Sides(folder, topics)
        stack.callback(made.close)
        yield made


def batches(answer: Answer) -> list[Any]:
    """Where each micro-batch ended."""
    found: list[Any] = []
    for each in answer.get("progress", []):
        end = _parsed((each["sources"][0] if "sources" in each else each)["endOffset"])
        if end is not None and end not in found[-1:]:
            found.append(end)
    return found


def _parsed(offset: Any) -> Any:
    """An offset without the ids of topics, which the connector does not keep."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return {topic: each for topic, each in parsed.items() if topic != TOPIC_IDS} if isinstance(parsed, dict) else parsed


def sorted_rows(answer: Answer) -> dict[str, list[list[Any]]]:
    return {partition: sorted(rows, key=lambda row: row[0]) for partition, rows in by_partition(answer["rows"]).items()}


@pytest.fixture(scope="module")
def planned(sides: Sides) -> dict[str, tuple[Answer, Answer]]:
    """What both say to each case of `STREAMS`, the connector's first: with AvailableNow, ours without Spark."""
    options = {case.name: sides.topics.options(case.options) for case in STREAMS}
    session = sides.sessions["kafka"]
    jobs = [{"job": "stream", "options": each, "checkpoint": sides.checkpoint()} for each in options.values()]
    session.ask(jobs)
    with ThreadPoolExecutor(4) as pool:
        ours = pool.map(spark_direct.stream, options.values())
        theirs = session.answers(len(jobs))
        return dict(zip(options, zip(theirs, ours, strict=True), strict=True))


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_micro_batches_are_the_connectors(planned: dict[str, tuple[Answer, Answer]], case: Case) -> None:
    theirs, ours = planned[case.name]

    def kind(answer: Answer) -> str:
        return kind_of(answer["error"]) if "error" in answer else "rows" if answer["rows"] else "nothing"

    said = f"theirs: {theirs.get('error', batches(theirs))}\nours: {ours.get('error', batches(ours))}"[:3000]
    difference = difference_of(case.name)
    expected = (difference.theirs, difference.ours) if difference is not None else (kind(theirs),) * 2
    assert (kind(theirs), kind(ours)) == expected, said
    if kind(theirs) == kind(ours) == "rows":
        assert (sorted_rows(theirs) == sorted_rows(ours)) == (difference is None), said
        if difference is None:
            assert batches(theirs) == batches(ours), said


def test_partitions_and_topics_that_come_while_queries_run(sides: Sides) -> None:
    sides.topic("grow", 2)
    sides.topic("grow-one")
    sides.send("grow", 0, 5)
    choices = ({"subscribe": "grow"}, {"assign": '{"grow":[0]}'}, {"subscribePattern": "^grow"})
    trigger = {"processingTime": "100 milliseconds"}
    queries: list[Running] = []

    def step() -> None:
        for query in queries:
            for side, answers in query.each("process").items():
                assert answers == [{}], f"{side}: {answers[0].get('error', '')[:2000]}"

    for each in choices:
        # One after the other: Spark gives a source in Python ten seconds to start.
        queries.append(sides.start(({**each, "startingOffsets": "earliest"}, trigger, sides.checkpoint())))
        step()
    sides.send("grow", 0, 3)
    sides.send("grow-one", 0, 4)
    step()
    sides.topics.admin.create_partitions({"grow": 3})
    sides.topic("grow-two")
    sides.send("grow", 2, 6)
    sides.send("grow-two", 0, 2)
    step()
    many = []
    for query in queries:
        stopped = query.each("stop")
        theirs, ours = stopped["kafka"][0], stopped["odradek"][0]
        assert sorted_rows(ours) == sorted_rows(theirs)
        assert batches(ours)[-1] == batches(theirs)[-1]
        many.append(len(ours["rows"]))
    assert many == [14, 8, 20]


def test_a_query_goes_on_from_its_checkpoint(sides: Sides) -> None:
    """Also with partitions that came while it did not run, and with each trigger that ends."""
    sides.topic("again")
    sides.send("again", 0, 9)
    checkpoint, options = sides.checkpoint(), {"subscribe": "again", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    runs = [sides.run(options, checkpoint)]
    sides.send("again", 0, 3)
    runs.append(sides.run(options, checkpoint))
    sides.topics.admin.create_partitions({"again": 2})
    sides.send("again", 1, 6)
    runs.append(sides.run(options, checkpoint))
    sides.send("again", 1, 9)
    runs.append(sides.run(options, checkpoint, {"once": True}))
    for each in runs:
        assert sorted_rows(each["odradek"]) == sorted_rows(each["kafka"])
        assert batches(each["odradek"]) == batches(each["kafka"])
    assert [len(each["odradek"]["rows"]) for each in runs] == [9, 3, 6, 9]


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("what", ["deleted", "created anew", "cut", "new and cut"])
def test_records_that_are_gone_when_a_query_goes_on(sides: Sides, what: str, fail: str) -> None:
    name = f"gone-{what.replace(' ', '-')}-{fail}"
    sides.topic(name)
    sides.send(name, 0, 8)
    checkpoint, admin = sides.checkpoint(), sides.topics.admin
    options = {"subscribePattern": f"^{name}", "startingOffsets": "earliest", "failOnDataLoss": fail, "kafkaConsumer.pollTimeoutMs": "1500"}
    sides.run(options, checkpoint)
    if what == "cut":
        sides.send(name, 0, 8)
        admin.delete_records({sides.topics.partition(name, 0): 12})
    elif what == "new and cut":
        sides.topic(f"{name}-more")
        sides.send(f"{name}-more", 0, 8)
        admin.delete_records({sides.topics.partition(f"{name}-more", 0): 3})
    else:
        admin.delete_topics([name])
        if what == "created anew":
            sides.topic(name)
            sides.send(name, 0, 3)
    done = sides.run(options, checkpoint)
    theirs, ours = done["kafka"], done["odradek"]
    said = f"theirs: {theirs.get('error', theirs)}\nours: {ours.get('error', ours)}"[:4000]
    kinds = tuple(kind_of(each["error"]) if "error" in each else "nothing" if not each["rows"] else "rows" for each in (theirs, ours))
    difference = difference_of(f"stream: {what}, failOnDataLoss={fail}")
    assert kinds == ((difference.theirs, difference.ours) if difference is not None else (kinds[0],) * 2), said
    if what == "created anew" and fail == "false":
        assert len(ours["rows"]) == 3, "the new topic from its beginning"
    else:
        assert sorted_rows(ours) == sorted_rows(theirs), said


def test_a_topic_that_is_deleted_while_a_query_runs(sides: Sides) -> None:
    sides.topic("vanishing")
    sides.send("vanishing", 0, 5)
    options = {"subscribe": "vanishing", "startingOffsets": "earliest"}
    running = sides.start((options, {"processingTime": "100 milliseconds"}, sides.checkpoint()))
    running.each("process")
    sides.topics.admin.delete_topics(["vanishing"])
    ends = running.each("finish")
    assert [kind_of(ends[side][0]["error"]) for side in ("kafka", "odradek")] == ["unknown topic", "data loss"]
    running.each("stop")


def test_the_progress_of_a_query(sides: Sides) -> None:
    """All but the `metrics` of the source, which Spark does not ask a source in Python for; `offsets_behind_latest` makes up for them."""
    sides.topic("watched", 2)
    sides.send("watched", 0, 10)
    sides.send("watched", 1, 4)
    options = {"subscribe": "watched", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
    done = sides.run(options, sides.checkpoint())
    theirs, ours = done["kafka"]["progress"], done["odradek"]["progress"]
    shown = ("numInputRows", "startOffset", "endOffset", "latestOffset")
    assert [[_parsed(each["sources"][0][name]) for name in shown] for each in ours if each["numInputRows"]] == [
        [_parsed(each["sources"][0][name]) for name in shown] for each in theirs if each["numInputRows"]
    ]
    for own, other in zip(ours, theirs, strict=True):
        assert "metrics" not in own["sources"][0] or own["sources"][0]["metrics"] in (None, {})
        metrics = other["sources"][0].get("metrics")
        if metrics:
            (behind,) = offsets_behind_latest(own)
            assert {name: float(text) for name, text in metrics.items()} == behind


_COUNTED = "select cast(id % 3 as string) key, cast(count(*) as string) value from {view} group by id % 3"
_SINKS = (
    ("append", "select concat('k', id) key, concat('v', id) value from {view}"),
    ("update", "select concat('k', id) key, concat('v', id) value from {view}"),
    ("update", _COUNTED),
    ("complete", _COUNTED),
    ("complete", "select cast(id as string) value from {view}"),
    ("append", "select id value from {view}"),
)
_NO_UPDATE = "odradek does not support Update mode"


def test_streams_are_written_as_the_connector_writes_them(sides: Sides) -> None:
    """Output modes: append and update; complete where there is an aggregate."""
    outcomes: dict[str, list[Any]] = {side: [] for side in sides.sessions}
    for number, (mode, sql) in enumerate(_SINKS):
        for side, session in sides.sessions.items():
            name, view = f"written-{number}-{side}", f"numbers_{number}"
            sides.topic(name, 2)
            options = {"kafka.bootstrap.servers": sides.topics.bootstrap, "topic": name}
            more = {"sql": sql.format(view=view), "view": view, "rows": 10, "checkpoint": sides.checkpoint()}
            answer = session.run("start_sink", options=options, mode=mode, **more)
            outcomes[side].append((mode, sql, "refused" if answer else "fine", sides.topics.contents(name), answer.get("error", "")[:500]))
    differ = [(theirs, ours) for theirs, ours in zip(outcomes["kafka"], outcomes["odradek"], strict=True) if theirs[:-1] != ours[:-1]]
    assert all(theirs[:3] == ("update", ours[1], "fine") and _NO_UPDATE in ours[-1] for theirs, ours in differ), "\n".join(map(str, differ))
    assert len(differ) == 2, "Spark takes update for a sink in Python now"
