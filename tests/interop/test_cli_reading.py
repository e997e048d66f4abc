"""Ranges, transactions and names at the command line: JVM Kafka's brokers and ours are read alike, and kafka-get-offsets agrees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from interop.peers import both
from interop.tools import JvmTools
from tests.interop.conftest import PAIR_CONFIG
from tests.interop.pair import Pair, create
from tests.interop.tool_support import odradek

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

DAY = 1_699_920_000_000  # 2023-11-14, UTC
TRANSACTIONAL = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, jvm_tools: JvmTools) -> Iterator[Pair]:
    """Each broker has `minutes` with ten records in partition 0, four in partition 1, and none in partition 2."""
    with both(tmp_path_factory.mktemp("reading"), {**PAIR_CONFIG, **TRANSACTIONAL}) as (ours, theirs):
        pair = Pair(ours, theirs, jvm_tools)
        for broker in pair.brokers:
            create(broker, minutes=3)
            create(broker, bookings=1)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for partition, count in ((0, 10), (1, 4)):
                for number in range(count):
                    producer.produce("minutes", b"%d.%d" % (partition, number), partition=partition, timestamp=DAY + 60_000 * number)
            producer.flush()
        yield pair


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("2:5", "0.2 0.3 0.4 1.2 1.3"),
        (":end", "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0 1.1 1.2 1.3"),
        ("-3:-1", "0.7 0.8 1.1 1.2"),
        ("+8:99", "0.8 0.9"),
        ("@2023-11-14T00:02:00:2m", "0.2 0.3 1.2 1.3"),
        ("@1699920480:end", "0.8 0.9"),
        ("@1969-12-31:2023-11-14T00:01:00", "0.0 1.0"),
        ("@-1h:end", ""),
    ],
)
def test_a_range_has_the_same_records(typed: str, expected: str, pair: Pair) -> None:
    for broker in pair.brokers:
        assert " ".join(sorted(odradek(broker, "consume", "-t", "minutes", "-q", "-o", typed).decode().split())) == expected


def test_a_range_ends_among_markers_and_aborted_records(pair: Pair) -> None:
    for broker in pair.brokers:
        write = ("produce", "-t", "bookings", "-J", "--transactional-id", "books", "--transaction-size", "2")
        odradek(broker, *write, stdin=b'{"payload": "1"}\n{"payload": "2"}\n{"payload": "3"}\nnonsense\n', status=1)
        read = ("consume", "-t", "bookings", "--isolation-level", "read_committed", "-o")
        for typed in (":3", ":4", ":5", ":end", ":99"):
            assert odradek(broker, *read, typed) == b"1\n2\n", typed
        assert odradek(broker, *read, "2:end") == b""


@pytest.mark.parametrize("moment", [str(DAY + 60_001), str(DAY), "-1", "-2"])
def test_a_query_answers_as_kafka_get_offsets(moment: str, pair: Pair) -> None:
    for broker in pair.brokers:
        theirs = pair.tools.run(
            "org.apache.kafka.tools.GetOffsetShell",
            *("--bootstrap-server", broker.bootstrap, "--topic-partitions", "minutes:1", "--time", moment),
        )
        ours = odradek(broker, "offsets", "-t", f"minutes:1:{moment}").decode().splitlines()[1].split()
        assert theirs.stdout.decode().strip() == ":".join(ours[:3])
