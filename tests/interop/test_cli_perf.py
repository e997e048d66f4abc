"""`odradek perf` and `odradek verifiable` beside Kafka's own tools, against the same brokers: the same lines, the same events, the same
records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as Librdkafka

from interop.peers import BrokerProcess, both, jvm_command, run_jvm_tool
from interop.tools import JvmTools
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.perf.events import NAMES, java_class
from odradek.client import Admin, Consumer
from odradek.client.types import ConsumerRecord
from tests.interop.conftest import PAIR_CONFIG
from tests.interop.pair import PATIENCE_S, Pair, commit, create, write

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOOLS = "org.apache.kafka.tools."
READ = 300


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, jvm_tools: JvmTools) -> Iterator[Pair]:
    """Two brokers of this module's own, each with the topic `read`, which has the same records."""
    with both(tmp_path_factory.mktemp("perf"), PAIR_CONFIG) as (ours, theirs):
        pair = Pair(ours, theirs, jvm_tools)
        for broker in pair.brokers:
            create(broker, read=2)
            producer = Librdkafka({"bootstrap.servers": broker.bootstrap})
            for number in range(READ):
                producer.produce("read", b"v" * 100, b"key" if number % 3 else None, number % 2)
            producer.flush()
        yield pair


def odradek(*arguments: str, status: int = 0) -> list[str]:
    """The lines of our command, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout.splitlines()


def jvm(pair: Pair, tool: str, *arguments: str, status: int = 0) -> list[str]:
    """The lines of Kafka's."""
    done = pair.tools.run(TOOLS + tool, *arguments)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout.decode().splitlines()


def shape(line: str) -> str:
    """A line without its figures: how many digits follow a point is left."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", "(time)", line)
    return re.sub(r"-?\d+(\.\d+)?", lambda found: "n" if found[1] is None else f"n.{'n' * (len(found[1]) - 1)}", line)


def records(broker: BrokerProcess, topic: str, count: int = 0) -> list[ConsumerRecord]:
    """All there are, and so many at least: a transaction's last markers are written after its commit is answered."""
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        while len(found) < count or any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(1000)
    return found


# -- perf ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "--record-size 100 --throughput -1",
        "--payload-monotonic --throughput 1000 --reporting-interval 100 --warmup-records 200",
        "--payload-file {payloads} --payload-delimiter \\d --throughput -1 --transaction-duration-ms 100",
    ],
)
def test_the_producer_prints_the_same_lines(pair: Pair, words: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "payloads").write_text("a1bb22ccc3")
    topic = f"perf-{request.node.callspec.indices['words']}"
    line = ["--num-records", "600", *words.format(payloads=tmp_path / "payloads").split()]
    for broker in pair.brokers:
        written = []
        said = []
        for author in ("ours", "theirs"):
            name = f"{topic}-{author}"
            create(broker, **{name: 1})
            where = ["--topic", name, *line, "--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all"]
            said.append(odradek("kafka-producer-perf-test.sh", *where) if author == "ours" else jvm(pair, "ProducerPerformance", *where))
            written.append(records(broker, name, 600))
        ours, theirs = ([shape(line) for line in each if not line.startswith(("Option --", "Reading", "Number of"))] for each in said)
        # How many windows there are depends on how busy the machine is.
        assert list(dict.fromkeys(ours)) == list(dict.fromkeys(theirs))
        assert ours[-1] == theirs[-1]
        assert [line.split(" records sent")[0] for line in said[0][-1:]] == [line.split(" records sent")[0] for line in said[1][-1:]]
        assert len(written[0]) == len(written[1]) == 600
        assert {each.key for each in written[0]} == {each.key for each in written[1]} == {None}
        if "monotonic" in words:
            assert [each.value for each in written[0]] == [each.value for each in written[1]]
        elif "file" in words:
            assert {each.value for each in written[0]} == {each.value for each in written[1]} == {b"a", b"bb", b"", b"ccc"}
        else:
            assert all(re.fullmatch(rb"[A-Z]{100}", each.value) for run in written for each in run)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("--topic read --num-records 300", 1),
        ("--include rea. --messages 300 --hide-header --date-format yyyy", 0),
        ("--topic read --num-records 300 --show-detailed-stats --reporting-interval 1 --command-property max.poll.records=5", 1),
        ("--topic read --num-records 301 --timeout 1000", 1),
    ],
)
def test_the_consumer_prints_the_same_lines(pair: Pair, words: str, same: int) -> None:
    short = "301" in words
    for broker in pair.brokers:
        where = ["--bootstrap-server", broker.bootstrap, *words.split()]
        ours = odradek("kafka-consumer-perf-test.sh", *where, status=1 if short else 0)
        theirs = [line for line in jvm(pair, "ConsumerPerformance", *where) if not line.startswith("Warning: --messages")]
        assert ours[:same] == theirs[:same]
        assert {shape(line) for line in ours} == {shape(line) for line in theirs}
        columns = [line.split(", ") for lines in (ours, theirs) for line in (lines[-1],)]
        if "detailed" not in words:
            # What was read: megabytes and records.
            assert [(each[2], each[4]) for each in columns] == [(f"{(READ * 100 + 200 * 3) / 1_048_576:.4f}", "300")] * 2


def test_metrics_have_the_same_form(pair: Pair) -> None:
    for broker in pair.brokers:
        where = ["--bootstrap-server", broker.bootstrap, "--topic", "read", "--num-records", "300", "--hide-header", "--print-metrics"]
        _, blank, title, *lines = odradek("kafka-consumer-perf-test.sh", *where)
        _, their_blank, their_title, *theirs = jvm(pair, "ConsumerPerformance", *where)
        assert blank == their_blank == ""
        assert title.split() == their_title.split()
        form = re.compile(r"[\w-]+:[\w-]+:\{([\w-]+=[^,}]*(, )?)+\} +: (\d+\.\d{3}|NaN|-?Infinity)")
        assert all(form.fullmatch(line) for line in lines)
        names = {line.split(":{")[0] for line in lines} & {line.split(":{")[0] for line in theirs}
        assert len(names) > 10


def test_latency_is_told_in_the_same_lines(pair: Pair) -> None:
    for broker in pair.brokers:
        sizes = ["--record-key-size", "3", "--num-headers", "2", "--record-header-key-size", "4", "--record-header-size", "-1"]
        for author in ("ours", "theirs"):
            named = ["--bootstrap-server", broker.bootstrap, "--topic", f"latency-{author}", "--num-records", "30"]
            words = [*named, "--producer-acks", "all", "--record-size", "7", *sizes]
            lines = odradek("kafka-e2e-latency.sh", *words) if author == "ours" else jvm(pair, "EndToEndLatency", *words)
            first, progress, *rest = lines
            assert first == f'Topic "latency-{author}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
            assert re.fullmatch(r"0\t\d+\.\d+(E-?\d+)?", progress)
            assert list(map(shape, rest)) == ["Avg latency: n.nnnn ms", "Percentiles: nth = n, nth = n, n.nth = n"]
            found = records(broker, f"latency-{author}")
            assert len(found) == 30
            for record in found:
                assert (len(record.key), len(record.value)) == (3, 7)
                assert [(len(name), value) for name, value in record.headers] == [(4, None), (4, None)]
        old = [broker.bootstrap, "latency-ours", "5", "1", "10"]
        ours, theirs = odradek("kafka-e2e-latency.sh", *old), jvm(pair, "EndToEndLatency", *old)
        assert list(map(shape, ours[-2:])) == list(map(shape, theirs[-2:]))


# -- verifiable ---------------------------------------------------------------------------------------------------------------------------


def plain(lines: list[str]) -> list[dict[str, Any]]:
    """Events in their order, without what is another each time."""
    found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    for event in found:
        assert event.pop("timestamp") > 0
        event.pop("avg_throughput", None)
        event.pop("message", None)
    return found


@pytest.mark.parametrize(
    "words",
    [
        "--max-messages 20",
        "--max-messages 20 --repeating-keys 3 --value-prefix 7 --acks 1",
        "--max-messages 3 --acks 0 --message-create-time 1700000000000 --throughput 50",
    ],
)
def test_the_verifiable_producer_tells_the_same(pair: Pair, words: str, request: pytest.FixtureRequest) -> None:
    for broker in pair.brokers:
        told = []
        written = []
        topic = f"told-{request.node.callspec.indices['words']}"
        for author in ("ours", "theirs"):
            name = f"{topic}-{author}"
            create(broker, **{name: 1})
            where = ["--bootstrap-server", broker.bootstrap, "--topic", name, *words.split()]
            # It says goodbye when its JVM ends, and so has one of its own.
            lines = (
                odradek("kafka-verifiable-producer.sh", *where)
                if author == "ours"
                else run_jvm_tool(f"{TOOLS}VerifiableProducer", *where).stdout.decode().splitlines()
            )
            told.append([{**event, **({"topic": topic} if "topic" in event else {})} for event in plain(lines)])
            assert next(list(json.loads(line)) for line in lines if "success" in line) == [
                *("timestamp", "name", "key", "value", "offset", "topic", "partition")
            ]
            written.append([(each.key, each.value) for each in records(broker, name)])
            if "create-time" in words:
                assert records(broker, name)[0].timestamp == 1_700_000_000_000
        assert told[0] == told[1]
        assert written[0] == written[1]


def test_a_record_that_is_refused_is_told_the_same(pair: Pair) -> None:
    for broker in pair.brokers:
        where = ["--bootstrap-server", broker.bootstrap, "--topic", "no/topic", "--max-messages", "1"]
        theirs = run_jvm_tool(f"{TOOLS}VerifiableProducer", *where).stdout.decode().splitlines()
        assert plain(odradek("kafka-verifiable-producer.sh", *where)) == plain(theirs)


@pytest.mark.parametrize(
    "words",
    [
        "--max-messages 300 --verbose --command-config {settings}",
        "--max-messages 300 --group-protocol consumer --group-remote-assignor uniform --group-instance-id me --command-config {settings}",
        "--max-messages 300 --enable-autocommit --assignment-strategy org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    ],
)
def test_the_verifiable_consumer_tells_the_same(pair: Pair, words: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "settings").write_text("max.poll.records=1000\nfetch.min.bytes=20000\nfetch.max.wait.ms=3000\n")
    group = f"told-{request.node.callspec.indices['words']}"
    for broker in pair.brokers:
        found = []
        for author in ("ours", "theirs"):
            where = ["--bootstrap-server", broker.bootstrap, "--topic", "read", "--group-id", f"{group}-{author}"]
            line = [*where, *words.format(settings=tmp_path / "settings").split()]
            lines = (
                odradek("kafka-verifiable-consumer.sh", *line)
                if author == "ours"
                else run_jvm_tool(f"{TOOLS}VerifiableConsumer", *line).stdout.decode().splitlines()
            )
            found.append(plain(lines))
        ours, theirs = found
        names = [list(dict.fromkeys(event["name"] for event in each)) for each in found]
        assert names[0] == names[1]
        for name in ("record_data", "records_consumed", "offsets_committed"):
            assert _sums(ours, name) == _sums(theirs, name)
        assert [event["name"] for event in ours[-3:]] == [event["name"] for event in theirs[-3:]]
        fields = [{event["name"]: list(event) for event in each} for each in found]
        assert fields[0] == fields[1]


def _sums(events: list[dict[str, Any]], name: str) -> object:
    """What events of a name say together: how records fall into polls is chance."""
    mine = [event for event in events if event["name"] == name]
    if name == "record_data":
        return sorted((event["partition"], event["offset"], str(event["key"]), event["value"]) for event in mine)
    if name == "records_consumed":
        ranges = [each for event in mine for each in event["partitions"]]
        return {
            partition: (
                sum(each["count"] for each in ranges if each["partition"] == partition),
                min(each["minOffset"] for each in ranges if each["partition"] == partition),
                max(each["maxOffset"] for each in ranges if each["partition"] == partition),
            )
            for partition in {each["partition"] for each in ranges}
        }
    return {each["partition"]: each["offset"] for event in mine if event["success"] for each in event["offsets"]}


# -- groups reset-application -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("", 0),
        ("--to-offset 4", 0),
        ("--to-offset 40", 0),
        ("--to-latest", 0),
        ("--shift-by -2", 0),
        ("--to-datetime 2023-11-14T22:13:24.500", 0),
        ("--input-topics {app}-none", 1),
        ("--internal-topics {app}-b-repartition", 0),
        ("--internal-topics {app}-out", 1),
        ("--dry-run --to-latest", 0),
    ],
)
def test_an_application_is_reset_alike(pair: Pair, words: str, status: int, request: pytest.FixtureRequest) -> None:
    for broker in pair.brokers:
        left = []
        for author in ("ours", "theirs"):
            app = f"app-{request.node.callspec.indices['words']}-{author}"
            create(
                broker,
                **{f"{app}-in-changelog": 1, f"{app}-between": 1, f"{app}-a-changelog": 1, f"{app}-b-repartition": 1, f"{app}-out": 1},
            )
            write(broker, f"{app}-in-changelog", {0: 9}, 1_700_000_000_000)
            write(broker, f"{app}-between", {0: 3}, 1_700_000_000_000)
            commit(broker, app, **{f"{app}-in-changelog": (5,)})
            line = [
                *("--bootstrap-server", broker.bootstrap, "--application-id", app, "--input-topics", f"{app}-in-changelog"),
                *("--intermediate-topics", f"{app}-between", *words.format(app=app).split()),
            ]
            if author == "ours":
                odradek("kafka-streams-application-reset.sh", *line, status=status)
            else:
                jvm(pair, "StreamsResetter", *line, status=status)
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                topics = sorted(each.name for each in admin.list_topics() if each.name.startswith(app))
                found = admin.list_consumer_group_offsets([app])[app]
            offsets = {str(each): at.offset for each, at in found.items() if at is not None}
            left.append(json.loads(json.dumps([topics, offsets]).replace(app, "app")))
        # An option that is refused is refused before anything is changed; Kafka's has moved offsets by then.
        assert left[0] == left[1] or (words.endswith("-out") and left[0] == [left[1][0], {"app-in-changelog-0": 5}])


def test_errors_have_the_names_of_javas_classes(tmp_path: Path) -> None:
    program = tmp_path / "Names.java"
    program.write_text(
        "import org.apache.kafka.common.protocol.Errors;\n"
        "public class Names { public static void main(String[] none) {\n"
        '  for (Errors each : Errors.values()) if (each.exception() != null) System.out.println(each.code() + ":" + '
        "each.exception().getClass());\n"
        "} }\n"
    )
    done = subprocess.run(jvm_command(str(program)), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    names = {int(code): name for code, name in (line.split(":") for line in done.stdout.splitlines())}
    for code in [*NAMES, ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]:
        assert java_class(KafkaError(code)) == names[int(code)]
