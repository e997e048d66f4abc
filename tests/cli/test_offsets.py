"""`odradek offsets`: which partitions, and which of their offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from odradek.cli.records.offsets import parse_spec
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.admin.types.topics import OffsetSpec
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Topics `one` (partition 0: three records, the second the latest) and `other` (partitions 0 to 3), and Kafka's own offsets."""
    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
    with EmbeddedBroker(settings) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("one", 1, 1), NewTopic("other", 4, 1)])
            for seconds in (0, 9, 5):
                producer.send("one", b"x", partition=0, timestamp=T0 + seconds * 1000)
            producer.flush()
            admin.alter_consumer_group_offsets("g", {})
            with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
                consumer.subscribe(["one"])
                while not consumer.assignment():
                    consumer.poll(50)
        yield servers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "__consumer_offsets-0 one-0 other-0 other-1 other-2 other-3"),
        ("--exclude-internal-topics", "one-0 other-0 other-1 other-2 other-3"),
        ("-t o.*", "one-0 other-0 other-1 other-2 other-3"),
        ("-t on", None),
        ("-t one,other -p 0,3", "one-0 other-0 other-3"),
        ("-p 2", "other-2"),
        ("--topic-partitions other:1", "other-1"),
        ("--topic-partitions other:1-3", "other-1 other-2"),
        ("--topic-partitions other:2-", "other-2 other-3"),
        ("--topic-partitions other:-2", "other-0 other-1"),
        ("--topic-partitions o.*:0", "one-0 other-0"),
        ("--topic-partitions :3,one", "one-0 other-3"),
        ("--topic-partitions other:", "other-0 other-1 other-2 other-3"),
        ("--topic-partitions nothing", None),
    ],
)
def test_which_partitions(options: str, expected: str | None, bootstrap: str, command: Command) -> None:
    answer = command("offsets", *options.split(), "-J", "-b", bootstrap)
    if expected is None:
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith("odradek offsets: Could not match any topic-partitions with the specified filters; ")
    else:
        assert (answer.status, answer.err) == (0, "")
        assert " ".join(f"{row['topic']}-{row['partition']}" for row in json.loads(answer.out)) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("latest", (3, None)),
        ("-1", (3, None)),
        ("earliest", (0, None)),
        ("-2", (0, None)),
        ("max-timestamp", (1, T0 + 9000)),
        ("-3", (1, T0 + 9000)),
        ("earliest-local", (0, None)),
        ("latest-tiered", (None, None)),
        (str(T0 + 1), (1, T0 + 9000)),
        ("0", (0, T0)),
        ("2023-11-14T22:13:21", (1, T0 + 9000)),
        ("2023-11-14T23:13:20+01:00", (0, T0)),
        ("2099-01-01T00:00:00", (None, None)),
        ("1969-12-31T23:59:59.999", (0, T0)),
    ],
)
def test_which_offsets(moment: str, expected: tuple[int | None, int | None], bootstrap: str, command: Command) -> None:
    answer = command("offsets", "-t", "one", "--time", moment, "-J", "-b", bootstrap)
    (row,) = json.loads(answer.out)
    assert (row["offset"], row["timestamp"]) == expected
    assert (answer.status, answer.err) == (0, "")


def test_every_spec_has_name_and_number() -> None:
    for spec in OffsetSpec:
        assert parse_spec(spec.name.lower().replace("_", "-")) is parse_spec(str(spec.value)) is spec
    for text in ("-7", "LATEST", "", "1e3", "--1"):
        with pytest.raises(click.UsageError, match="Malformed time argument"):
            parse_spec(text)


def test_a_partition_may_have_a_time_of_its_own(bootstrap: str, command: Command) -> None:
    typed = ("-t", f"one:0:{T0 + 1}", "-t", "one:0:earliest", "-t", "other:3:2023-11-14T22:13:20Z", "-t", "one:0:-1")
    answer = command("offsets", *typed, "-J", "-b", bootstrap)
    assert (answer.status, answer.err) == (0, "")
    found = [(row["topic"], row["partition"], row["offset"]) for row in json.loads(answer.out)]
    assert sorted(found, key=str) == [("one", 0, 0), ("one", 0, 1), ("one", 0, 3), ("other", 3, None)]


def test_topics_may_be_named_one_by_one(bootstrap: str, command: Command) -> None:
    answer = command("offsets", "-t", "one", "-t", "other", "-p", "0", "-J", "-b", bootstrap)
    assert [(row["topic"], row["partition"]) for row in json.loads(answer.out)] == [("one", 0), ("other", 0)]
