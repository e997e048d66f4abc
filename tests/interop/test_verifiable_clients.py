"""The JVM's console consumer and verifiable clients in groups of both protocols: what they say, event by event, is what they say of JVM
Kafka; and tools of group types that are not supported yet end with a plain error."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interop.peers import BrokerProcess, run_jvm_tool
from tests.interop.pair import Pair, commit, create, write

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PROTOCOLS = ("classic", "consumer")
COUNT = 40
T0 = 1_700_000_000_000


def events(done: Any) -> list[dict[str, Any]]:
    """The JSON objects that a verifiable client printed."""
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]


def produced(pair: Pair, topic: str) -> list[list[dict[str, Any]]]:
    """This producer says goodbye when its JVM ends, and so has one of its own."""

    def run(broker: BrokerProcess) -> list[dict[str, Any]]:
        where = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
        return events(run_jvm_tool("org.apache.kafka.tools.VerifiableProducer", *where, "--max-messages", str(COUNT)))

    with ThreadPoolExecutor() as threads:
        return list(threads.map(run, pair.brokers))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_console_consumer_goes_on_where_its_group_was(pair: Pair, protocol: str) -> None:
    topic, group = f"v-console-{protocol}", f"v-console-group-{protocol}"
    for broker in pair.brokers:
        create(broker, **{topic: 1})
        write(broker, topic, {0: COUNT}, T0)
    found: list[bytes] = []
    for count in (COUNT // 4, COUNT // 2):
        ours, theirs = pair.run(
            CONSOLE,
            *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"),
            *("--command-property", f"group.protocol={protocol}", "--formatter-property", "print.offset=true"),
        )
        assert ours.stdout == theirs.stdout
        found += ours.stdout.splitlines()
    assert found == [b"Offset:%d\t%d" % (number, number) for number in range(COUNT * 3 // 4)]


def test_verifiable_clients(pair: Pair) -> None:
    topic = "v-verifiable"
    for broker in pair.brokers:
        create(broker, **{topic: 2})
    sent = produced(pair, topic)
    for each in sent:
        assert Counter(event["name"] for event in each) == {
            "startup_complete": 1,
            "producer_send_success": COUNT,
            "shutdown_complete": 1,
            "tool_data": 1,
        }
    placed = [sorted((event["partition"], event["offset"]) for event in each if event["name"] == "producer_send_success") for each in sent]
    for each in placed:
        assert each == [(partition, offset) for partition in (0, 1) for offset in range(sum(found == partition for found, _ in each))]
    for protocol in PROTOCOLS:
        outcomes = pair.run(
            "org.apache.kafka.tools.VerifiableConsumer",
            *("--topic", topic, "--group-id", f"{topic}-{protocol}", "--group-protocol", protocol, "--max-messages", str(COUNT)),
            *("--reset-policy", "earliest", "--verbose"),
        )
        for done, wanted in zip(outcomes, placed, strict=True):
            assert_consumed(events(done), wanted)


def assert_consumed(found: list[dict[str, Any]], wanted: list[tuple[int, int]]) -> None:
    """Each record once, and committed."""
    names = list(dict.fromkeys(event["name"] for event in found))
    assert [name for name in names if name != "partitions_revoked"] == [
        "startup_complete",
        "partitions_assigned",
        "record_data",
        "records_consumed",
        "offsets_committed",
        "shutdown_complete",
    ]
    assert sorted((event["partition"], event["offset"]) for event in found if event["name"] == "record_data") == wanted
    assert all(event["success"] for event in found if event["name"] == "offsets_committed")


def test_internal_topics_and_deleted_records(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The internal topics are there for one tool, and left out by the other; deleting records moves the first offset."""
    for broker in pair.brokers:
        create(broker, **{"v-deleted": 2})
        write(broker, "v-deleted", {0: 10, 1: 5}, T0)
    said = pair.same(OFFSETS, "--topic", "v-deleted|__consumer_offsets", "--exclude-internal-topics", status=0)
    assert said == ["v-deleted:0:10", "v-deleted:1:5"]
    every = [done.stdout.decode() for done in pair.run(OFFSETS, "--topic", "__consumer_offsets", "--time", "earliest")]
    assert every[0] == every[1]
    plan = tmp_path_factory.mktemp("plan") / "delete.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "v-deleted", "partition": 0, "offset": 4}], "version": 1}))
    pair.same("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(plan), status=0)
    for time in ("earliest", "latest", "-1", "max-timestamp", str(T0 + 5_000)):
        pair.same(OFFSETS, "--topic", "v-deleted", "--time", time, status=0)
    said = pair.same(OFFSETS, "--topic", "v-deleted", "--time", "earliest", "--partitions", "0", status=0)
    assert said == ["v-deleted:0:4"]
    plan.write_text(json.dumps({"partitions": [{"topic": "v-deleted", "partition": 0, "offset": 99}], "version": 1}))
    pair.same("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(plan))


def test_log_directories_with_internal_topics(pair: Pair) -> None:
    """The same partitions, none of them lagging or on its way; sizes are each broker's own."""
    for broker in pair.brokers:
        commit(broker, "v-commits", **{"v-deleted": (1, 2)})
    found = []
    for done in pair.run("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "__consumer_offsets,v-deleted"):
        (line,) = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
        (broker,) = json.loads(line)["brokers"]
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        assert any(each["size"] > 0 for each in directory["partitions"] if each["partition"].startswith("__consumer_offsets"))
        found.append({(each["partition"], each["offsetLag"], each["isFuture"]) for each in directory["partitions"]})
    assert found[0] == found[1]
    assert {name for name, *_ in found[0]} == {f"__consumer_offsets-{number}" for number in range(3)} | {"v-deleted-0", "v-deleted-1"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("org.apache.kafka.tools.streams.StreamsGroupCommand", "--list"),
        ("org.apache.kafka.tools.streams.StreamsGroupCommand", "--describe --group s"),
        ("org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--list"),
        ("org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--describe --group s"),
    ],
)
def test_groups_of_types_to_come(pair: Pair, tool: str, arguments: str) -> None:
    """They do not hang, and say what the matter is: the JVM has the API and finds no group, we have not got the API."""
    ours, theirs = (done.stdout.decode() + done.stderr.decode() for done in pair.run(tool, *arguments.split()))
    if arguments == "--list":
        assert ours == theirs == ""
    else:
        assert "UnsupportedVersionException: The node does not support" in ours
        assert "GroupIdNotFoundException" in theirs
