"""`odradek verifiable`: the events of a producer and of a consumer against an embedded broker."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.perf import verifiable_produce
from odradek.cli.perf.events import java_class
from odradek.cli.perf.verifiable_consume import Reading
from odradek.cli.shared.signals import Stop, Stopping, stoppable
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.types import ConsumerRecord, RecordMetadata
from tests.cli.conftest import Command
from tests.cli.support import running


def create(bootstrap: str, topic: str, partitions: int = 1) -> str:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    return topic


def events(out: str | bytes) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in out.splitlines()]
    assert all(list(event)[:2] == ["timestamp", "name"] for event in found)
    assert all(abs(event["timestamp"] - time.time() * 1000) < 120_000 for event in found)
    return [{name: value for name, value in event.items() if name != "timestamp"} for event in found]


# -- produce ------------------------------------------------------------------------------------------------------------------------------


def test_each_record_is_told_of(bootstrap: str, command: Command) -> None:
    topic = create(bootstrap, "verifiable-each")
    words = ["--max-messages", "3", "--repeating-keys", "2", "--value-prefix", "7", "--bootstrap-server", bootstrap]
    answer = command("kafka-verifiable-producer.sh", "--topic", topic, *words)
    assert (answer.status, answer.err) == (0, "")
    start, *sent, end, data = events(answer.out)
    assert (start, end) == ({"name": "startup_complete"}, {"name": "shutdown_complete"})
    assert sent == [
        {"name": "producer_send_success", "key": key, "value": f"7.{number}", "offset": number, "topic": topic, "partition": 0}
        for number, key in enumerate("010")
    ]
    assert data.pop("avg_throughput") > 0
    assert data == {"name": "tool_data", "sent": 3, "acked": 3, "target_throughput": -1}


def test_timestamps_begin_where_they_are_told(bootstrap: str, command: Command) -> None:
    topic = create(bootstrap, "verifiable-time")
    words = ["-t", topic, "-n", "2", "--message-create-time", "1700000000000", "--throughput", "20", "-b", bootstrap]
    assert command("verifiable", "produce", *words).status == 0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[ConsumerRecord] = []
        while len(found) < 2:
            found += consumer.poll(5000)
    assert found[0].timestamp == 1_700_000_000_000
    assert 1_700_000_000_000 <= found[1].timestamp < 1_700_000_060_000
    assert [(each.key, each.value) for each in found] == [(None, b"0"), (None, b"1")]


def test_what_fails_is_an_event(bootstrap: str, command: Command) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("verifiable-small", 1, 1, configs={"max.message.bytes": "50"})])
    answer = command("verifiable", "produce", "-t", "verifiable-small", "-n", "2", "-b", bootstrap)
    _, *failed, _, data = events(answer.out)
    assert answer.status == 0
    assert [(event["name"], event["value"], event["topic"]) for event in failed] == [
        ("producer_send_error", "0", "verifiable-small"),
        ("producer_send_error", "1", "verifiable-small"),
    ]
    assert {event["exception"] for event in failed} == {"class org.apache.kafka.common.errors.RecordTooLargeException"}
    assert all(event["message"].startswith("MESSAGE_TOO_LARGE") for event in failed)
    assert (data["sent"], data["acked"]) == (2, 0)


def test_a_record_that_cannot_even_be_sent_is_an_event(bootstrap: str, command: Command) -> None:
    _, failed, _, data = events(command("verifiable", "produce", "-t", "no/topic", "-n", "1", "-b", bootstrap).out)
    assert failed["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"
    assert (data["sent"], data["acked"]) == (1, 0)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_producer_with_its_last_words(bootstrap: str, number: signal.Signals, status: int) -> None:
    topic = create(bootstrap, f"verifiable-signal-{number}")
    with running("verifiable", "produce", "-t", topic, "--throughput", "5", "-b", bootstrap) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    found = events(b"".join(first) + out)
    assert (process.returncode, err) == (status, b"")
    assert [event["name"] for event in found[-2:]] == ["shutdown_complete", "tool_data"]
    successes = [event for event in found if event["name"] == "producer_send_success"]
    assert found[-1]["sent"] == found[-1]["acked"] == len(successes) >= 2
    assert [event["offset"] for event in successes] == list(range(len(successes)))


class Late:
    """A producer whose first record is acknowledged at once and whose second, during which a signal comes, when it is closed."""

    def __init__(self, _: object) -> None:
        self._told: list[Any] = []

    def __enter__(self) -> Late:
        return self

    def __exit__(self, *_: object) -> None: ...

    def send(self, *_: object, on_delivery: Any, **__: object) -> None:
        self._told.append(on_delivery)
        if len(self._told) == 1:
            on_delivery(RecordMetadata("t", 0, 0, 0), None)
        else:
            signal.raise_signal(signal.SIGTERM)

    def close(self) -> None:
        self._told[1](RecordMetadata("t", 0, 1, 0), None)


def test_what_is_acknowledged_behind_a_signal_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifiable_produce, "Producer", Late)
    answer = command("verifiable", "produce", "-t", "t")
    assert answer.status == 143
    assert [event["name"] for event in events(answer.out)] == [
        *("startup_complete", "producer_send_success", "producer_send_success", "shutdown_complete", "tool_data")
    ]


# -- consume ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> str:
    topic = create(bootstrap, "verifiable-filled", 2)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, None if number == 2 else f"ü{number}", key=None if number else "k", partition=number % 2)
        producer.send(topic, b"\xff", partition=0)
    return topic


def test_a_member_of_a_group_tells_what_it_does(bootstrap: str, filled: str, command: Command) -> None:
    words = ["--topic", filled, "--group-id", "verifiable-all", "--max-messages", "11", "--verbose", "--bootstrap-server", bootstrap]
    answer = command("kafka-verifiable-consumer.sh", *words)
    assert (answer.status, answer.err) == (0, "")
    found = events(answer.out)
    both = [{"topic": filled, "partition": 0}, {"topic": filled, "partition": 1}]
    assert found[0] == {"name": "startup_complete"}
    assert {"name": "partitions_assigned", "partitions": both} in found
    assert found[-3:] == [{"name": "partitions_revoked", "partitions": both}, {"name": "shutdown_complete"}, {"name": "shutdown_requested"}]
    records = [event for event in found if event["name"] == "record_data"]
    assert {(event["partition"], event["offset"]): (event["key"], event["value"]) for event in records} == {
        **{(number % 2, number // 2): (None, f"ü{number}") for number in range(1, 10) if number != 2},
        (0, 0): ("k", "ü0"),
        (0, 1): (None, None),
        (0, 5): (None, "�"),
    }
    consumed = [event for event in found if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in consumed) == 11
    committed = [event for event in found if event["name"] == "offsets_committed"]
    assert len(committed) == len(consumed)
    assert all(event["success"] for event in committed)
    with Consumer(bootstrap_servers=bootstrap, group_id="verifiable-all") as consumer:
        offsets = consumer.committed([TopicPartition(filled, number) for number in (0, 1)])
    assert [each.offset for each in offsets.values() if each is not None] == [6, 5]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_with_automatic_commits_there_are_no_events_of_them(bootstrap: str, filled: str, command: Command, protocol: str) -> None:
    group = f"verifiable-auto-{protocol}"
    words = ["-t", filled, "-G", group, "-n", "2", "--enable-autocommit", "--group-protocol", protocol, "-b", bootstrap]
    names = {event["name"] for event in events(command("verifiable", "consume", *words).out)}
    assert names == {
        "startup_complete",
        "partitions_assigned",
        "records_consumed",
        "partitions_revoked",
        "shutdown_complete",
        "shutdown_requested",
    }


def test_a_policy_of_latest_begins_at_the_end(bootstrap: str, filled: str) -> None:
    words = ["-t", filled, "-G", "verifiable-latest", "--reset-policy", "latest", "--group-instance-id", "me", "-b", bootstrap]
    with running("verifiable", "consume", *words) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert events(lines[1])[0]["name"] == "partitions_assigned"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, b"")
    assert [event["name"] for event in events(out)] == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]


class Committing:
    """A consumer that only commits."""

    def __init__(self, *errors: OdradekError) -> None:
        self.errors = list(errors)
        self.committed: list[dict[TopicPartition, int]] = []

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.committed.append(offsets)
        if self.errors:
            raise self.errors.pop(0)


def test_of_the_last_poll_only_what_is_left_counts(capfd: pytest.CaptureFixture[str]) -> None:
    record = ConsumerRecord("t", 0, 5, 0, 0, None, b"v", ())
    records = [record._replace(partition=part, offset=offset) for part, offset in ((1, 5), (1, 6), (1, 9), (0, 2), (0, 3), (2, 0))]
    reading = Reading(Committing(), 4, False, False)  # type: ignore[arg-type]
    assert reading.take(records) == {TopicPartition("t", 1): 10, TopicPartition("t", 0): 3}
    (event,) = events(capfd.readouterr().out)
    assert event == {
        "name": "records_consumed",
        "count": 6,
        "partitions": [
            {"topic": "t", "partition": 1, "count": 3, "minOffset": 5, "maxOffset": 9},
            {"topic": "t", "partition": 0, "count": 1, "minOffset": 2, "maxOffset": 2},
        ],
    }
    reading.run()


def test_a_commit_that_fails_is_an_event_unless_the_member_is_fenced(capfd: pytest.CaptureFixture[str]) -> None:
    consumer = Committing(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS), KafkaError(ErrorCode.FENCED_INSTANCE_ID))
    reading = Reading(consumer, -1, False, False)  # type: ignore[arg-type]
    offsets = {TopicPartition("t", 0): 7}
    reading.commit(offsets)
    place = [{"topic": "t", "partition": 0, "offset": 7}]
    assert events(capfd.readouterr().out) == [
        {"name": "offsets_committed", "offsets": place, "error": "REBALANCE_IN_PROGRESS", "success": False}
    ]
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        reading.commit(offsets)
    reading.commit(offsets)
    assert events(capfd.readouterr().out) == [{"name": "offsets_committed", "offsets": place, "success": True}]


# -- signals and names --------------------------------------------------------------------------------------------------------------------


def test_a_signal_raises_only_where_it_may() -> None:
    woken: list[int] = []
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stoppable(lambda: woken.append(1)) as stopping:
        assert (stopping.status, stopping.signal) == (0, 0)
        with stopping.interruptible():
            pass
        signal.raise_signal(signal.SIGTERM)
        assert (stopping.status, woken) == (143, [1])
        # The next one ends the process.
        assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        with pytest.raises(Stop), stopping.interruptible():
            raise AssertionError
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    with stoppable(lambda: None) as stopping, pytest.raises(Stop), stopping.interruptible():
        signal.raise_signal(signal.SIGINT)
    assert isinstance(stopping, Stopping)
    assert stopping.status == 130


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), "errors.TimeoutException"),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), "errors.NotEnoughReplicasException"),
        (KafkaError(ErrorCode.INVALID_RECORD), "InvalidRecordException"),
        (OdradekError("closed"), "KafkaException"),
    ],
)
def test_errors_have_the_names_of_javas_classes(error: OdradekError, name: str) -> None:
    assert java_class(error) == f"class org.apache.kafka.common.{name}"
