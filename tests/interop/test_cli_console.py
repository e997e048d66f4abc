"""`odradek consume` and `produce` beside kafka-console-consumer and kafka-console-producer, against the same brokers: the same bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from interop.peers import BrokerProcess, both
from interop.tools import JvmTools
from odradek.client import Consumer
from odradek.client.types import ConsumerRecord
from tests.interop.conftest import PAIR_CONFIG
from tests.interop.pair import PATIENCE_S, Pair, create
from tests.interop.tool_support import odradek

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
SERIALIZATION = "org.apache.kafka.common.serialization"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, jvm_tools: JvmTools) -> Iterator[Pair]:
    """Two brokers of this module's own, each with the topics `read` and `numbers`, which have the same records."""
    with both(tmp_path_factory.mktemp("clic"), PAIR_CONFIG) as (ours, theirs):
        pair = Pair(ours, theirs, jvm_tools)
        for broker in pair.brokers:
            create(broker, read=1)
            create(broker, numbers=1)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for number, (key, value, headers) in enumerate(RECORDS):
                producer.produce("read", value, key, 0, timestamp=1_700_000_000_000 + number, headers=headers)
            for size in (4, 4, 8, 3, 4):
                producer.produce("numbers", b"\xff" * (size - 1) + b"\x05", None, 0)
            producer.produce("numbers", None, None, 0)
            producer.flush()
        yield pair


RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (b"k", b"v", []),
    (None, None, [("a", b"1"), ("b", None), ("a", b"")]),
    (b"", b"", [("", b"x")]),
    (b"\xff\x00", "Grüße\r\n".encode() + bytes(range(256)), [("ä", b"\xfe")]),
    (b"tab\t", b"last", [("h", b"1,2:3")]),
]


def properties(*pairs: str) -> list[str]:
    return [word for each in pairs for word in ("--formatter-property", each)]


EVERYTHING = [f"print.{name}=true" for name in ("timestamp", "partition", "offset", "delivery", "headers", "key", "value")]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        properties(*EVERYTHING),
        properties("print.key=true", "key.separator=|", "line.separator=<>\n", "null.literal=NULL"),
        properties("print.headers=true", "headers.separator=;", "print.value=false"),
        properties("print.value=false"),
        properties("print.offset=true", "print.value=false"),
        ["--property", "print.partition=TRUE "],
        ["--key-deserializer", f"{SERIALIZATION}.StringDeserializer", *properties("print.key=true")],
        properties(f"headers.deserializer={SERIALIZATION}.StringDeserializer", "print.headers=true"),
        ["--formatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter"],
    ],
    ids=" ".join,
)
def test_the_consumer_prints_the_same(pair: Pair, arguments: list[str]) -> None:
    words = ("--topic", "read", "--from-beginning", "--max-messages", str(len(RECORDS)), *arguments)
    for broker, theirs in zip(pair.brokers, pair.run(CONSUMER, *words), strict=True):
        told = b"Option --property is deprecated and will be removed in a future version. Use --formatter-property instead.\n"
        assert odradek(broker, "kafka-console-consumer.sh", *words) == theirs.stdout.removeprefix(told)
        assert b"Processed a total of 5 messages" in theirs.stderr


def test_the_consumer_starts_and_stops_at_the_same_record(pair: Pair) -> None:
    for words in (
        ("--partition", "0", "--offset", "2", "--max-messages", "2"),
        ("--partition", "0", "--offset", "earliest", "--timeout-ms", "2000"),
        ("--partition", "0", "--offset", "latest", "--timeout-ms", "2000"),
        ("--partition", "0", "--timeout-ms", "2000"),
        ("--timeout-ms", "2000"),
        ("--from-beginning", "--timeout-ms", "2000", "--isolation-level", "read_committed"),
    ):
        for broker, theirs in zip(pair.brokers, pair.run(CONSUMER, "--topic", "read", *words), strict=True):
            assert odradek(broker, "kafka-console-consumer", "--topic", "read", *words) == theirs.stdout, words


def test_a_group_goes_on_where_the_other_has_stopped(pair: Pair) -> None:
    for broker in pair.brokers:
        words = ("--topic", "read", "--group", "shared", "--from-beginning", "--max-messages")
        shown = properties("print.offset=true", "print.value=false")
        assert odradek(broker, "kafka-console-consumer", *words, "2", *shown) == b"Offset:0\nOffset:1\n"
        theirs = pair.tools.run(CONSUMER, "--bootstrap-server", broker.bootstrap, *words, "1", *shown)
        assert theirs.stdout == b"Offset:2\n"
        assert odradek(broker, "kafka-console-consumer", *words, "2", *shown) == b"Offset:3\nOffset:4\n"


def test_included_topics_are_the_same(pair: Pair) -> None:
    for pattern, count in (("rea.", 5), ("r|.*d|x", 5)):
        words = ("--include", pattern, "--from-beginning", "--max-messages", str(count))
        for broker, theirs in zip(pair.brokers, pair.run(CONSUMER, *words), strict=True):
            assert odradek(broker, "kafka-console-consumer", *words) == theirs.stdout != b""


def test_numbers_are_decoded_alike(pair: Pair) -> None:
    words = ("--topic", "numbers", "--from-beginning", "--max-messages", "6", "--skip-message-on-error")
    for name in ("Integer", "Long", "Short"):
        decoding = ("--value-deserializer", f"{SERIALIZATION}.{name}Deserializer")
        for broker, theirs in zip(pair.brokers, pair.run(CONSUMER, *words, *decoding), strict=True):
            assert odradek(broker, "kafka-console-consumer", *words, *decoding) == theirs.stdout, name


BOTH = ("parse.key=true", "parse.headers=true")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ((), b"a\r\nb\rc\n\nlast"),
        ((), "Grüße\n".encode()),
        (("null.marker=NULL",), b"NULL\nNULLS\n"),
        (("parse.key=true",), b"k\tv\tw\n\t\nk\t\n"),
        (("parse.key=true", "key.separator=::"), b"k:a::v\n"),
        (BOTH, b"a:1,b:2:3,c:\tk\tv\nd:4,,\t\t\n"),
        ((*BOTH, "null.marker=N"), b"N\tN\tN\na:N\tk\tv\n"),
        ((*BOTH, "ignore.error=true"), b"bare\nbare\tv\na:1\tk\tv\n"),
        (("parse.headers=true", "headers.separator=[;|]", "headers.delimiter=@", "headers.key.separator=="), b"a=1;b=2|@v\n"),
        (("parse.headers=true", "headers.separator=;"), b"a:1;;b:2\tv\n"),
        (("parse.key=true",), b"a\tone\nbare\nb\ttwo\n"),
        (BOTH, b"a:1\tk\tv\n\tk\tv\n"),
    ],
)
def test_the_producer_writes_the_same(pair: Pair, settings: tuple[str, ...], text: bytes, request: pytest.FixtureRequest) -> None:
    words = [word for each in settings for word in ("--reader-property", each)]
    index = request.node.callspec.indices["settings"]
    for broker in pair.brokers:
        found = []
        for author in ("ours", "theirs"):
            topic = f"wrote-{index}-{author}"
            create(broker, **{topic: 1})
            if author == "ours":
                done = subprocess.run(
                    [
                        sys.executable,
                        "-m",
                        "odradek.cli.main",
                        "kafka-console-producer.sh",
                        "--topic",
                        topic,
                        *words,
                        "-b",
                        broker.bootstrap,
                    ],
                    input=text,
                    capture_output=True,
                    timeout=PATIENCE_S,
                    check=False,
                )
            else:
                done = pair.tools.run(PRODUCER, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--sync", *words, stdin=text)
            found.append((done.returncode, records(broker, topic)))
        assert found[0] == found[1]
        assert found[0][1] or found[0][0] == 1


def test_configurations_of_the_producer_reach_it(pair: Pair) -> None:
    words = (
        *("--compression-codec", "zstd", "--request-required-acks", "1", "--batch-size", "1000", "--timeout", "5"),
        *("--message-send-max-retries", "2", "--retry-backoff-ms", "50", "--request-timeout-ms", "3000", "--metadata-expiry-ms", "9000"),
        *("--max-block-ms", "5000", "--max-memory-bytes", "1000000", "--max-partition-memory-bytes", "500", "--socket-buffer-size", "9000"),
        *("--command-property", "client.id=me", "--sync"),
    )
    for broker in pair.brokers:
        create(broker, configured=1)
        assert odradek(broker, "kafka-console-producer", "--topic", "configured", *words, stdin=b"ours\n") == b""
        pair.tools.run(PRODUCER, "--bootstrap-server", broker.bootstrap, "--topic", "configured", *words, stdin=b"theirs\n")
        assert [value for _, value, _ in records(broker, "configured")] == [b"ours", b"theirs"]


def records(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    from odradek.base.ids import TopicPartition

    where = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        found: list[ConsumerRecord] = []
        while consumer.position(where) < end:
            found += consumer.poll(1000)
    return [(record.key, record.value, record.headers) for record in found]
