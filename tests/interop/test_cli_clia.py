"""`odradek groups`, `offsets` and their neighbours beside Kafka's own tools, against the same brokers: the same facts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from interop.peers import BrokerProcess
from tests.interop.pair import CONSUMER_GROUPS, GROUPS, PATIENCE_S, Pair, commit
from tests.interop.test_group_tools import CLASSIC, CONSUMER, NEW, OLD, SIMPLE, T0, prepare

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
_FIGURES = frozenset({"partition", "current_offset", "log_end_offset", "lag", "members", "partitions", "leader_epoch", "coordinator_id"})


def odradek(broker: BrokerProcess, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Our command line, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", arguments[0], *arguments[1:], "-b", broker.bootstrap],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done


def rows(broker: BrokerProcess, *arguments: str, status: int = 0) -> list[dict[str, object]]:
    return list(json.loads(odradek(broker, *arguments, "-J", status=status).stdout))


def table(text: str) -> list[dict[str, object]]:
    """The rows of Kafka's tables in our names and values; other lines are left out."""
    found: list[dict[str, object]] = []
    columns: list[str] = []
    for line in text.splitlines():
        line = re.sub(r"(\S+:\d+) +\((\d+)\)", r"\1 \2", line.replace("COORDINATOR (ID)", "COORDINATOR COORDINATOR-ID"))
        words = line.split()
        if words and (words[0] in ("GROUP", "TOPIC", "TransactionalId", "ProducerId", "CoordinatorId", "Topic")):
            columns = [_column(word) for word in words]
        elif columns and len(words) == len(columns):
            found.append({name: _value(name, word) for name, word in zip(columns, words, strict=True)})
        elif words and not found:
            columns = []
    return found


def _column(word: str) -> str:
    return word.lstrip("#").lower().replace("-", "_")


def _value(name: str, word: str) -> object:
    return None if word == "-" else int(word) if name in _FIGURES else word


def sorted_rows(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=str)


@pytest.fixture(scope="module")
def groups(pair: Pair) -> Iterator[Pair]:
    """As test_group_tools.py has them: groups of both protocols, with and without members."""
    living: list[Consumer] = []
    with ThreadPoolExecutor() as threads:
        for members in threads.map(prepare, pair.brokers):
            living += members
    yield pair
    for each in living:
        each.close()


def official(pair: Pair, broker: BrokerProcess, main_class: str, *arguments: str) -> str:
    done = pair.tools.run(main_class, "--bootstrap-server", broker.bootstrap, *arguments)
    return done.stdout.decode() + done.stderr.decode()


# -- kafka-groups, kafka-consumer-groups --------------------------------------------------------------------------------------------------


def test_groups_list(groups: Pair) -> None:
    for broker in groups.brokers:
        theirs = {tuple(line.split()) for line in official(groups, broker, GROUPS, "--list").splitlines()[1:] if line.strip()}
        ours = {
            (str(row["group"]), str(row["type"]), *([str(row["protocol"])] if row["protocol"] else []))
            for row in rows(broker, "groups", "list")
        }
        assert ours == theirs
        assert len(ours) >= 5
        said = official(groups, broker, CONSUMER_GROUPS, "--list", "--state", "Stable").splitlines()[1:]
        stable = {line.split()[0] for line in said if line.strip()}
        assert {row["group"] for row in rows(broker, "groups", "list", "--state", "Stable", "--consumer")} == stable == {CLASSIC, CONSUMER}


@pytest.mark.parametrize("group", [CLASSIC, CONSUMER, OLD, NEW, SIMPLE])
@pytest.mark.parametrize("what", ["--offsets", "--offsets --verbose", "--members", "--state", "--state --verbose"])
def test_groups_describe(groups: Pair, group: str, what: str) -> None:
    for broker in groups.brokers:
        theirs = table(official(groups, broker, CONSUMER_GROUPS, "--describe", "--group", group, *what.split()))
        ours = rows(broker, "groups", "describe", group, *what.split())
        if what == "--members":
            for row in ours:
                assert row.pop("group_instance_id") if "live" in group else True
            for row in theirs:
                row.pop("group_instance_id", None)
        if what.startswith("--state"):
            for row in theirs:
                row["coordinator_id"] = 1
                for name in ("group_epoch", "target_assignment_epoch"):
                    if row.get(name) is not None:
                        row[name] = int(str(row[name]))
        assert sorted_rows(ours) == sorted_rows(theirs)


SCENARIOS = [
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 7",
    "--to-offset 1000",
    "--to-offset -5",
    "--to-datetime 2023-11-14T22:13:25.000",
    "--to-datetime 2023-11-14T22:13:24.500Z",
    "--to-datetime 2099-01-01T00:00:00.000",
    "--by-duration P0D",
    "--by-duration P9999D",
    "--shift-by 2",
    "--shift-by -2",
    "--shift-by 1000",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_groups_reset_offsets(groups: Pair, scenario: str) -> None:
    """The same plan; then ours is executed, and Kafka's tool sees it done."""
    arguments = ("--reset-offsets", "--group", SIMPLE, *scenario.split(), "--topic", "t-orders:0,2")
    for broker in groups.brokers:
        commit(broker, SIMPLE, **{"t-orders": (1, 2, 3), "t-returns": (4,)})
        planned = table(official(groups, broker, CONSUMER_GROUPS, *arguments, "--dry-run"))
        theirs = sorted((str(row["topic"]), int(str(row["partition"])), int(str(row["new_offset"]))) for row in planned)
        ours = rows(broker, "kafka-consumer-groups.sh", *arguments, "--execute")
        assert [(row["topic"], row["partition"], row["new_offset"]) for row in ours] == theirs
        assert len(theirs) == 2
        seen = table(official(groups, broker, CONSUMER_GROUPS, "--describe", "--group", SIMPLE))
        now = {row["partition"]: row["current_offset"] for row in seen if row["topic"] == "t-orders"}
        assert now == {0: theirs[0][2], 1: 2, 2: theirs[1][2]}


def test_groups_plans_are_exchanged(groups: Pair, tmp_path: Path) -> None:
    """What Kafka's tool exports ours reads, and the other way round."""
    for broker in groups.brokers:
        plan = tmp_path / f"{broker.name}.csv"
        arguments = ("--reset-offsets", "--group", SIMPLE, "--to-offset", "5", "--topic", "t-orders")
        exported = groups.tools.run(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, *arguments, "--export", "--dry-run")
        plan.write_bytes(exported.stdout)
        ours = rows(broker, "groups", "reset-offsets", SIMPLE, "--from-file", str(plan))
        assert sorted((row["partition"], row["new_offset"]) for row in ours) == [(0, 5), (1, 5), (2, 5), (3, 0)]
        plan.write_text(odradek(broker, "groups", "reset-offsets", SIMPLE, "--to-offset", "6", "--topic", "t-orders", "--export").stdout)
        said = official(groups, broker, CONSUMER_GROUPS, "--reset-offsets", "--group", SIMPLE, "--from-file", str(plan), "--dry-run")
        assert sorted(int(str(row["new_offset"])) for row in table(said)) == [0, 6, 6, 6]


def test_groups_with_members_stay(groups: Pair) -> None:
    words = re.compile(r"Assignments can only be reset if the group '.*' is inactive, but the current state is Stable")
    for broker in groups.brokers:
        arguments = ("--reset-offsets", "--group", CLASSIC, "--to-latest", "--all-topics", "--execute")
        theirs = words.search(official(groups, broker, CONSUMER_GROUPS, *arguments))
        ours = words.search(odradek(broker, "kafka-consumer-groups", *arguments, status=1).stderr)
        assert ours is not None
        assert theirs is not None
        assert ours[0] == theirs[0]


def test_groups_delete(groups: Pair) -> None:
    for broker in groups.brokers:
        commit(broker, "t-first", **{"t-orders": (1, 2)})
        odradek(broker, "kafka-consumer-groups", "--delete-offsets", "--group", "t-first", "--topic", "t-orders:1")
        (row,) = table(official(groups, broker, CONSUMER_GROUPS, "--describe", "--group", "t-first"))
        assert (row["partition"], row["current_offset"]) == (0, 1)
        refused = odradek(broker, "groups", "delete", "--execute", "t-first", CLASSIC, status=1)
        assert "NON_EMPTY_GROUP" in refused.stderr
        listed = official(groups, broker, CONSUMER_GROUPS, "--list").split()
        assert CLASSIC in listed
        assert "t-first" not in listed


# -- kafka-get-offsets --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--topic t-.*",
        "--topic t-orders --partitions 0,2",
        "--topic-partitions t-orders:1-3,t-returns",
        "--topic-partitions :-1",
        "--exclude-internal-topics --time -2",
        "--topic t-orders --time max-timestamp",
        "--topic t-orders --time -4",
        "--topic t-orders --time -5",
        "--topic t-orders --time -6",
        f"--topic t-orders --time {T0 + 4_500}",
        f"--topic t-orders --time {T0 + 15_000}",
    ],
)
def test_offsets(groups: Pair, options: str) -> None:
    for broker in groups.brokers:
        theirs = official(groups, broker, OFFSETS, *options.split()).split()
        # Kafka's own topics grow meanwhile.
        ours = [
            f"{row['topic']}:{row['partition']}:{row['offset']}"
            for row in rows(broker, "kafka-get-offsets", *options.split())
            if row["offset"] is not None
        ]
        assert [_plain(line) for line in ours] == [_plain(line) for line in theirs]
        assert ours or "-5" in options or "-6" in options


def _plain(line: str) -> str:
    return line.rpartition(":")[0] if line.startswith("__") else line
