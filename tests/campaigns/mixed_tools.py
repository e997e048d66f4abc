"""JVM Kafka's tools against a cluster of both kinds: they print the same through every broker, and print the actual state."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import Future

from interop.cluster import ask
from interop.tools import Done, JvmTools
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.campaigns.mixed_cluster import BROKERS, PATIENCE_S, MixedBrokers

TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONFIGS = "kafka.admin.ConfigCommand"


AGREED_IN_S = 10.0
Command = tuple[str, ...]
"""Class of a tool, and its arguments without the server."""


def start_tool(cluster: MixedBrokers, tools: JvmTools, command: Command) -> list[Future[Done]]:
    """Start a call through each living broker, all at the same time."""
    main_class, *arguments = command
    return [tools.start(main_class, "--bootstrap-server", cluster.nodes[broker].bootstrap, *arguments) for broker in cluster.living()]


def each_says(cluster: MixedBrokers, tools: JvmTools, *commands: Command, hide: str = "") -> list[list[str]]:
    """Return each command's output lines, sorted. The lines must be equal through every living broker.

    `hide`: pattern of the parts that differ each time. Brokers learn of a new leader one after the other, and in between some do not list
    its groups. Therefore commands with different output are repeated, for up to `AGREED_IN_S` seconds.
    """
    said = []
    for command, calls in [(command, start_tool(cluster, tools, command)) for command in commands]:
        deadline = time.monotonic() + AGREED_IN_S
        while True:
            spoken = [_lines(call.result(PATIENCE_S), hide) for call in calls]
            if all(lines == spoken[0] for lines in spoken):
                break
            assert time.monotonic() < deadline, f"{command}: {spoken}"
            calls = start_tool(cluster, tools, command)
        said.append(spoken[0])
    return said


def _lines(done: Done, hide: str) -> list[str]:
    assert done.returncode == 0, (done.args, done.stdout.decode(), done.stderr.decode())
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines() if line.strip()]
    return sorted(re.sub(hide, "(hidden)", line) if hide else line for line in lines)


def elect_preferred(cluster: MixedBrokers, tools: JvmTools, through: int) -> None:
    """Run kafka-leader-election for all partitions."""
    chosen = ("--election-type", "preferred", "--all-topic-partitions")
    done = tools.run(ELECTION, "--bootstrap-server", cluster.nodes[through].bootstrap, *chosen)
    assert done.returncode == 0, (done.stdout.decode(), done.stderr.decode())
    cluster.wait_for_preferred_leaders()


def tools_agree(cluster: MixedBrokers, tools: JvmTools) -> None:
    """Raise AssertionError when tools disagree. All partitions must be whole, preferred replicas must lead, and no client may write."""
    partitions = cluster.states(cluster.living()[0])
    topics, not_whole, offsets, groups, positions, _, transactions, *hanging = each_says(
        cluster,
        tools,
        (TOPICS, "--describe"),
        (TOPICS, "--describe", "--under-replicated-partitions"),
        (OFFSETS,),
        (GROUPS, "--list"),
        (CONSUMER_GROUPS, "--describe", "--all-groups", "--offsets"),
        (CONSUMER_GROUPS, "--describe", "--all-groups", "--state"),
        (TRANSACTIONS, "list"),
        *((TRANSACTIONS, "find-hanging", "--broker-id", str(broker), "--max-transaction-timeout", "1") for broker in BROKERS),
    )
    assert len([line for line in topics if "Leader:" in line]) == len(partitions)
    assert not_whole == []
    ends = {(words[0], int(words[1])): int(words[2]) for words in (line.split(":") for line in offsets)}
    assert {place for place in partitions if not place[0].startswith("__")} <= ends.keys() <= partitions.keys()
    assert {line.split()[0] for line in groups} - {"GROUP"} == {line.split()[0] for line in positions} - {"GROUP"}
    assert all(len(lines) == 1 for lines in hanging), "the head alone"
    _transactions_agree(cluster, tools, [line.split() for line in transactions if "TransactionalId" not in line])
    _log_directories_agree(cluster, tools)
    _quorum_agrees(cluster, tools)
    each_says(
        cluster,
        tools,
        *((TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", str(number)) for topic, number in ends if number == 1),
        *((CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", topic) for topic, number in partitions if number == 1),
    )


def _transactions_agree(cluster: MixedBrokers, tools: JvmTools, listed: list[list[str]]) -> None:
    """Check kafka-transactions: all transactions have ended, and each is known to the broker that leads its id's partition."""
    assert listed
    commands = [(TRANSACTIONS, "describe", "--transactional-id", name) for name, *_ in listed]
    told = each_says(cluster, tools, *commands, hide=r"(?<=\d{13} )\d+")
    for (name, coordinator, _, state), lines in zip(listed, told, strict=True):
        assert state in ("CompleteCommit", "CompleteAbort")
        assert cluster.coordinated_by(int(coordinator), name.rsplit("-", 1)[0]) == name
        assert any(f"{name} " in line and f" {state} " in line for line in lines), lines


def _quorum_agrees(cluster: MixedBrokers, tools: JvmTools) -> None:
    """Check kafka-metadata-quorum, and that kafka-features does not finalize a feature that Odradek's brokers do not serve, unless JVM
    Kafka formatted so.
    """
    hide = r"(?<=MaxFollowerLagTimeMs:).*|(?<=HighWatermark:).*|(?<=MaxFollowerLag:).*|(?<=\d )\S+( -?\d+){4}(?= [LFO])"
    commands = ((QUORUM, "describe", "--status"), (QUORUM, "describe", "--replication"))
    status, replication = each_says(cluster, tools, *commands, hide=hide)
    assert f"LeaderId: {cluster.leader()}" in status
    assert {int(line.split()[0]) for line in replication if "NodeId" not in line} == set(cluster.members)
    versions = ask(
        cluster.nodes[cluster.of_kind("jvm")].port, ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4
    )
    assert isinstance(versions, ApiVersionsResponse)
    if any(each.name == "share.version" for each in versions.finalized_features):
        return
    for call in start_tool(cluster, tools, (FEATURES, "upgrade", "--feature", "share.version=1")):
        done = call.result(PATIENCE_S)
        assert done.returncode == 1, done.stdout.decode()
        assert b"Could not upgrade share.version to 1" in done.stdout, (done.stdout, done.stderr)


def _log_directories_agree(cluster: MixedBrokers, tools: JvmTools) -> None:
    """Check kafka-log-dirs through every broker: all replicas are listed equally, and replicas of one partition have equal sizes."""
    said = []
    for call in start_tool(cluster, tools, (LOG_DIRS, "--describe")):
        done = call.result(PATIENCE_S)
        assert done.returncode == 0, done.stderr.decode()
        sizes: dict[str, dict[int, int]] = {}
        for broker in json.loads(done.stdout.decode().splitlines()[-1])["brokers"]:
            for directory in broker["logDirs"]:
                assert directory["error"] is None
                for partition in directory["partitions"]:
                    sizes.setdefault(partition["partition"], {})[broker["broker"]] = partition["size"]
        said.append(sizes)
    assert all(sizes == said[0] for sizes in said)
    expected = {f"{topic}-{partition}": set(state.replicas) for (topic, partition), state in cluster.states(cluster.living()[0]).items()}
    assert {place: set(sizes) for place, sizes in said[0].items()} == expected
    assert all(len(set(sizes.values())) == 1 for sizes in said[0].values()), said[0]
