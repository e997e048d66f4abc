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

from interop.peers import BrokerProcess, both
from interop.tools import JvmTools
from interop.waiting import becomes
from tests.cli.pages import FOLDER, normal, played
from tests.client.certificates import Certificates
from tests.interop.conftest import PAIR_CONFIG
from tests.interop.group_tool_support import CLASSIC, CONSUMER, NEW, OLD, SIMPLE, T0, prepare
from tests.interop.pair import CONSUMER_GROUPS, GROUPS, PATIENCE_S, TRANSACTIONS, Pair, commit, create
from tests.interop.secured import SecuredBroker, plain_line
from tests.interop.transaction_tool_support import HANGING, OPEN, OPEN_2, STATES, TOPIC, UNKNOWN
from tests.interop.transaction_tool_support import transactions as transactions

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"
METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
OF_JVM = ("quotas", "acls", "client-metrics", "delegation-tokens")
"""Pages of what Odradek's broker does not support yet."""
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
def pair(tmp_path_factory: pytest.TempPathFactory, jvm_tools: JvmTools) -> Iterator[Pair]:
    """Two brokers of this module's own."""
    with both(tmp_path_factory.mktemp("clia"), PAIR_CONFIG) as (ours, theirs):
        yield Pair(ours, theirs, jvm_tools)


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


# -- kafka-transactions -------------------------------------------------------------------------------------------------------------------


def lines_of(said: str) -> list[list[str]]:
    """The words of each line below the header."""
    return sorted(line.split() for line in said.splitlines()[1:] if line.strip())


def test_transactions_list(transactions: Pair) -> None:
    for broker in transactions.brokers:
        for options in ("", "--duration-filter 0", "--duration-filter 3600000", "--transactional-id-pattern x-c.*"):
            theirs = lines_of(official(transactions, broker, TRANSACTIONS, "list", *options.split()))
            found = rows(broker, "transactions", "list", *options.split())
            names = ("transactional_id", "coordinator", "producer_id", "transaction_state")
            assert sorted([str(row[name]) for name in names] for row in found) == theirs
            assert (OPEN in {row["transactional_id"] for row in found}) == (options in ("", "--duration-filter 0"))


@pytest.mark.parametrize("transactional_id", [*STATES, UNKNOWN])
def test_transactions_describe(transactions: Pair, transactional_id: str) -> None:
    known = transactional_id != UNKNOWN
    for broker in transactions.brokers:
        said = official(transactions, broker, TRANSACTIONS, "describe", "--transactional-id", transactional_id)
        found = rows(broker, "transactions", "describe", transactional_id, status=0 if known else 1) if known else []
        if not known:
            assert "TRANSACTIONAL_ID_NOT_FOUND" in odradek(broker, "transactions", "describe", transactional_id, status=1).stderr
            continue
        (line,) = [line.split() for line in said.splitlines() if transactional_id in line.split()]
        (row,) = found
        assert [str(row[name]) for name in list(row)[:6]] == line[:6]
        begun = row["current_transaction_start_time_ms"]
        assert str(begun if begun is not None else "None") == line[6]
        assert begun is not None or transactional_id not in (OPEN, OPEN_2)
        assert row["topic_partitions"] == (line[8].split(",") if len(line) > 8 else [])


@pytest.mark.parametrize("where", [(TOPIC, "0"), (HANGING, "0"), (HANGING, "1")])
@pytest.mark.parametrize("options", ["", "--broker-id 1"])
def test_transactions_describe_producers(transactions: Pair, where: tuple[str, str], options: str) -> None:
    arguments = ("describe-producers", "--topic", where[0], "--partition", where[1], *options.split())
    for broker in transactions.brokers:
        theirs = lines_of(official(transactions, broker, TRANSACTIONS, *arguments))
        ours = [list(row.values()) for row in rows(broker, "transactions", *arguments)]
        spelled = [[*map(str, line[:2]), str(-1 if line[2] is None else line[2]), *map(str, line[3:])] for line in ours]
        assert sorted(spelled) == theirs
        assert theirs


def test_transactions_find_and_end_hanging_ones(transactions: Pair) -> None:
    search = ("find-hanging", "--max-transaction-timeout", "0", "--topic", HANGING)
    for broker in transactions.brokers:
        for scope in (("--topic", HANGING), ("--topic", HANGING, "--partition", "1"), ("--broker-id", "1"), ("--topic", TOPIC)):
            arguments = ("find-hanging", "--max-transaction-timeout", "0", *scope)
            theirs = [line[:6] for line in lines_of(official(transactions, broker, TRANSACTIONS, *arguments))]
            ours = [list(row.values())[:6] for row in rows(broker, "transactions", *arguments)]
            assert sorted([str(-1 if each is None else each) for each in line] for line in ours) == theirs
            assert bool(ours) == (scope != ("--topic", TOPIC))
        found = rows(broker, "transactions", *search)
        assert len(found) == 3
        for execute in ((), ("--execute",)):
            assert len(lines_of(official(transactions, broker, TRANSACTIONS, *search))) == 3
            for row in found:
                where = ("--topic", str(row["topic"]), "--partition", str(row["partition"]), "--start-offset", str(row["start_offset"]))
                done = odradek(broker, "transactions", "abort", *where, *execute)
                assert f" the transaction of producer {row['producer_id']} " in done.stdout
        assert lines_of(official(transactions, broker, TRANSACTIONS, *search)) == []
        where = ("--topic", HANGING, "--partition", "1", "--start-offset", "0")
        words = f"Could not find any open transactions starting at offset 0 on partition {HANGING}-1"
        assert words in odradek(broker, "transactions", "abort", *where, status=1).stderr
        assert words in official(transactions, broker, TRANSACTIONS, "abort", *where)


def test_transactions_force_terminate(transactions: Pair) -> None:
    def state(broker: BrokerProcess) -> str:
        return next(line[3] for line in lines_of(official(transactions, broker, TRANSACTIONS, "list")) if line[0] == OPEN)

    for broker in transactions.brokers:
        told = odradek(broker, "transactions", "force-terminate", OPEN)
        assert told.stdout == f"Would end the transaction of {OPEN} (Ongoing) and fence its producer.\n"
        assert state(broker) == "Ongoing"
        odradek(broker, "transactions", "force-terminate", "--transactionalId", OPEN, "--execute")
        assert state(broker) != "Ongoing"


# -- kafka-configs ------------------------------------------------------------------------------------------------------------------------


def configured(said: str) -> set[tuple[str, str]]:
    """Keys and values of "  key=value sensitive=false synonyms={...}"."""
    return set(re.findall(r"^  (\S+?)=(.*?) sensitive=", said, re.MULTILINE))


def settled(broker: BrokerProcess, entity: list[str], key: str, *, there: bool) -> None:
    """Asks until the broker has heard of a change."""
    for _ in range(100):
        if (key in {row["name"] for row in rows(broker, "configs", "describe", *entity)}) == there:
            return
    raise AssertionError(f"{broker.name} has not heard of {key} of {entity}")


@pytest.mark.parametrize(
    ("entity", "added", "deleted"),
    [
        ("--topic k-topic", "retention.ms=1000,cleanup.policy=[compact,delete]", "retention.ms"),
        ("--broker 1", "log.cleaner.threads=2", "log.cleaner.threads"),
        ("--entity-type brokers --entity-default", "log.cleaner.threads=2", "log.cleaner.threads"),
        ("--group k-group", "consumer.session.timeout.ms=50000", "consumer.session.timeout.ms"),
    ],
)
def test_configs(pair: Pair, entity: str, added: str, deleted: str) -> None:
    """What ours sets Kafka's shows and takes away."""
    where = entity.split()
    for broker in pair.brokers:
        if "topic" in entity:
            create(broker, **{"k-topic": 1})
        odradek(broker, "kafka-configs.sh", "--alter", *where, "--add-config", added)
        settled(broker, where, deleted, there=True)
        for all_ in ([], ["--all"]):
            theirs = configured(official(pair, broker, CONFIGS, "--describe", *where, *all_))
            found = rows(broker, "configs", "describe", *where, *all_)
            assert {(str(row["name"]), "null" if row["value"] is None else str(row["value"])) for row in found} == theirs
            assert deleted in {name for name, _ in theirs}
        official(pair, broker, CONFIGS, "--alter", *where, "--delete-config", deleted)
        settled(broker, where, deleted, there=False)
        if "default" not in entity:  # Kafka's tool deletes what there is not; ours takes it for a slip
            refused = odradek(broker, "configs", "alter", *where, "--delete-config", "no.such.key", status=1)
            assert "Invalid config(s): no.such.key" in refused.stderr


def test_configs_of_log_levels(pair: Pair) -> None:
    for broker in pair.brokers:
        there = rows(broker, "configs", "describe", "--broker-logger", "1")
        name = next(str(row["name"]) for row in there if row["name"] != "root")
        odradek(broker, "configs", "alter", "--broker-logger", "1", "--add-config", f"{name}=TRACE")
        assert (name, "TRACE") in configured(official(pair, broker, CONFIGS, "--describe", "--broker-logger", "1"))
        refused = odradek(broker, "configs", "alter", "--broker-logger", "1", "--add-config", "no.such=INFO", status=1)
        assert "no.such" in refused.stderr


def test_configs_of_quotas_and_credentials(guarded: SecuredBroker, jvm_tools: JvmTools) -> None:
    """Of JVM Kafka; tests/interop/test_quotas.py has Kafka's command ask Odradek."""

    def kafka(*arguments: str) -> str:
        done = jvm_tools.run(CONFIGS, "--bootstrap-server", guarded.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    for entity, shown in (
        ("--user bob", "user-principal 'bob'"),
        ("--user-defaults", "the default user-principal"),
        ("--client app", "client-id 'app'"),
        ("--user bob --client-defaults", "user-principal 'bob', the default client-id"),
        ("--entity-type users --entity-name bob --entity-type clients --entity-name app", "user-principal 'bob', client-id 'app'"),
        ("--entity-type users --entity-default --entity-type clients --entity-name app", "the default user-principal, client-id 'app'"),
    ):
        where = entity.split()
        odradek(guarded, "configs", "alter", *where, "--add-config", "producer_byte_rate=1000,request_percentage=12.5")
        becomes(lambda where=where: len(rows(guarded, "configs", "describe", *where)), 2)
        said = kafka("--describe", *where)
        (line,) = [line for line in said.splitlines() if line.startswith("Quota")]
        assert line.startswith(f"Quota configs for {shown} are ")
        assert set(line.rpartition(" are ")[2].split(", ")) == {"producer_byte_rate=1000.0", "request_percentage=12.5"}
        found = rows(guarded, "configs", "describe", *where)
        assert [(row["name"], row["value"]) for row in found] == [("producer_byte_rate", 1000), ("request_percentage", 12.5)]
        kafka("--alter", *where, "--delete-config", "producer_byte_rate")
        becomes(lambda where=where: [row["name"] for row in rows(guarded, "configs", "describe", *where)], ["request_percentage"])
        odradek(guarded, "configs", "alter", *where, "--delete-config", "request_percentage")
        becomes(lambda where=where: rows(guarded, "configs", "describe", *where), [])
    controllers = ("--bootstrap-controller", f"127.0.0.1:{guarded.controller_port}")
    odradek(guarded, "configs", "alter", "--user", "carol", "--add-config", "producer_byte_rate=5", *controllers)
    becomes(lambda: "producer_byte_rate=5.0" in kafka("--describe", "--user", "carol"), True)
    odradek(guarded, "configs", "alter", "--user", "carol", "--delete-config", "producer_byte_rate", *controllers)
    odradek(guarded, "configs", "alter", "--ip", "127.0.0.9", "--add-config", "connection_creation_rate=5")
    becomes(lambda: "127.0.0.9" in kafka("--describe", "--ip", "127.0.0.9"), True)
    odradek(guarded, "configs", "alter", "--user", "bob", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=a,b]")
    words = "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=8192"
    becomes(lambda: words in kafka("--describe", "--user", "bob"), True)
    (row,) = rows(guarded, "configs", "describe", "--user", "bob")
    assert (row["user"], row["name"], row["value"]) == ("bob", "SCRAM-SHA-256", "iterations=8192")
    odradek(guarded, "configs", "alter", "--user", "bob", "--delete-config", "SCRAM-SHA-256")
    becomes(lambda: rows(guarded, "configs", "describe", "--user", "bob"), [])


def test_what_there_is_not_without_security_is_one_line(pair: Pair) -> None:
    for arguments in (
        ("acls", "list"),
        ("acls", "add", "--topic", "t", "--allow-principal", "User:bob"),
        ("delegation-tokens", "create"),
    ):
        refused = odradek(pair.brokers[0], *arguments, status=1)
        assert len(refused.stderr.splitlines()) == 1
        assert refused.stderr.startswith(f"odradek {arguments[0]}: ")


# -- kafka-client-metrics, kafka-acls, kafka-delegation-tokens ----------------------------------------------------------------------------


class GuardedBroker(SecuredBroker):
    """With rules and tokens; whoever comes unnamed, and alice, may do everything."""

    name = "guarded"

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder, certificates)
        self.overrides |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "delegation.token.secret.key": "a-secret",
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    folder = tmp_path_factory.mktemp("guarded")
    broker = GuardedBroker(folder / "broker", Certificates(folder / "certificates"))
    try:
        broker.start(120)
        yield broker
    finally:
        broker.kill()


def test_client_metrics(guarded: GuardedBroker, jvm_tools: JvmTools) -> None:
    def kafka(*arguments: str) -> str:
        return jvm_tools.run(METRICS, "--bootstrap-server", guarded.bootstrap, *arguments).stdout.decode()

    options = ("--interval", "1000", "--metrics", "a.,b.", "--match", "client_id=x.*")
    done = odradek(guarded, "kafka-client-metrics.sh", "--alter", "--name", "basic", *options)
    assert done.stdout == "Altered client metrics config for basic.\n"
    becomes(lambda: kafka("--list").split(), ["basic"])
    assert rows(guarded, "client-metrics", "list") == [{"name": "basic"}]
    theirs = set(re.findall(r"^  (\S+?)=(.*)$", kafka("--describe", "--name", "basic"), re.MULTILINE))
    ours = {(str(row["key"]), str(row["value"])) for row in rows(guarded, "client-metrics", "describe", "basic")}
    assert ours == theirs == {("interval.ms", "1000"), ("metrics", "a.,b."), ("match", "client_id=x.*")}
    odradek(guarded, "client-metrics", "alter", "basic", "--interval", "")
    becomes(lambda: {row["key"] for row in rows(guarded, "client-metrics", "describe", "basic")}, {"metrics", "match"})
    odradek(guarded, "client-metrics", "delete", "basic")
    assert kafka("--list").split() == ["basic"]
    odradek(guarded, "client-metrics", "delete", "basic", "--execute")
    becomes(lambda: kafka("--list").split(), [])
    named = odradek(guarded, "client-metrics", "alter", "--generate-name", "--metrics", "*").stdout.split()[-1].rstrip(".")
    becomes(lambda: kafka("--list").split(), [named])
    odradek(guarded, "client-metrics", "delete", named, "--execute")
    becomes(lambda: kafka("--list").split(), [])


def rules(said: str) -> set[tuple[str, ...]]:
    """The rules that Kafka's tool lists."""
    found: set[tuple[str, ...]] = set()
    resource: tuple[str, ...] = ()
    for line in said.splitlines():
        if seen := re.search(r"resourceType=(\w+), name=(.*?), patternType=(\w+)", line):
            resource = seen.groups()
        elif seen := re.search(r"principal=(.*?), host=(.*?), operation=(\w+), permissionType=(\w+)", line):
            found.add((*resource, *seen.groups()))
    return found


def our_rules(found: list[dict[str, object]]) -> set[tuple[str, ...]]:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host")
    return {
        (
            *(str(row[name]) for name in names),
            re.sub(r"(?<!^)(?=[A-Z])", "_", str(row["operation"])).upper(),
            str(row["permission"]),
        )
        for row in found
    }


@pytest.mark.parametrize(
    "arguments",
    [
        "--topic t --allow-principal User:a",
        "--topic t --allow-principal User:a --operation Read --operation write --allow-host 10.0.0.1 --allow-host 10.0.0.2",
        "--topic t --topic u --deny-principal User:a --deny-principal User:b --operation DescribeConfigs",
        "--topic t --allow-principal User:* --deny-principal User:b --deny-host 10.0.0.1",
        "--topic p --resource-pattern-type prefixed --allow-principal User:a --operation All",
        "--cluster --allow-principal User:a --operation ClusterAction",
        "--group g --transactional-id x --delegation-token d --allow-principal User:a --operation Describe",
        "--user-principal User:b --allow-principal User:a --operation CreateTokens",
        "--producer --topic t --allow-principal User:a",
        "--producer --idempotent --topic t --transactional-id x --allow-principal User:a",
        "--consumer --topic t --group g --allow-principal User:a",
        "--producer --consumer --topic t --group g --allow-principal User:a",
        "--consumer --topic t --group g --resource-pattern-type prefixed --allow-principal User:a",
    ],
)
def test_acls(guarded: GuardedBroker, jvm_tools: JvmTools, arguments: str) -> None:
    """The same words make the same rules; either lists and removes what the other made."""

    def kafka(*words: str) -> set[tuple[str, ...]]:
        done = jvm_tools.run(ACLS, "--bootstrap-server", guarded.bootstrap, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return rules(done.stdout.decode())

    def listed(*words: str) -> set[tuple[str, ...]]:
        return our_rules(rows(guarded, "acls", "list", *words))

    words = arguments.split()
    ours = our_rules(rows(guarded, "kafka-acls.sh", "--add", *words))
    assert ours
    becomes(listed, ours)
    assert kafka("--list") == ours
    assert our_rules(rows(guarded, "acls", "remove", *words)) == ours == listed()
    kafka("--remove", "--force", *words)
    becomes(listed, set())
    kafka("--add", *words)
    becomes(listed, ours)
    assert listed("--topic", "t") == {rule for rule in ours if rule[:3] == ("TOPIC", "t", "LITERAL")}
    matching = ("--topic", "pt", "--resource-pattern-type", "match")
    assert listed(*matching) == kafka("--list", *matching)
    assert listed("--principal", "User:a") == {rule for rule in ours if rule[3] == "User:a"}
    odradek(guarded, "acls", "remove", *words, "--force")
    becomes(listed, set())


def alice(folder: Path) -> Path:
    """Who alice is to the listener SASL."""
    config = folder / "alice.properties"
    line = plain_line().replace("\\", "\\\\")
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n")
    return config


@pytest.mark.parametrize("name", OF_JVM)
def test_a_page_shows_what_is_printed(guarded: GuardedBroker, tmp_path: Path, name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    alice(tmp_path)
    where = guarded.address["SASL"] if name == "delegation-tokens" else guarded.bootstrap
    assert normal(played(text, where, tmp_path)) == normal(text)


def test_delegation_tokens(guarded: GuardedBroker, jvm_tools: JvmTools, tmp_path: Path) -> None:
    config = alice(tmp_path)
    where = guarded.address["SASL"]

    def kafka(*words: str) -> list[str]:
        done = jvm_tools.run(TOKENS, "--bootstrap-server", where, "--command-config", str(config), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode().splitlines()

    def ours(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "odradek.cli.main",
            "kafka-delegation-tokens",
            *words,
            "-b",
            where,
            "--command-config",
            str(config),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def described(*words: str) -> list[dict[str, object]]:
        return list(json.loads(ours("--describe", *words, "-J")))

    (made,) = json.loads(ours("--create", "--renewer-principal", "User:bob", "--max-life-time-period", "3600000", "-J"))
    assert (made["owner"], made["renewers"], made["max_date"] - made["issue_date"]) == ("User:alice", ["User:bob"], 3_600_000)
    becomes(lambda: len(described()), 1)
    theirs = kafka("--describe", "--owner-principal", "User:alice")[-1].split()
    assert theirs[:4] == [made["token_id"], made["hmac"], "User:alice", "User:alice"]
    assert described("--owner-principal", "User:alice") == [made]
    assert described("--owner-principal", "User:carol") == []
    renewed = ours("--renew", "--renew-time-period", "60000", "--hmac", made["hmac"])
    expiry = int(renewed.removeprefix("Completed renew operation. New expiry timestamp: "))
    assert expiry < made["expiry_date"]
    becomes(lambda: [row["expiry_date"] for row in described()], [expiry])
    ended = ours("--expire", "--expiry-time-period", "-1", "--hmac", made["hmac"])
    assert ended.startswith("Completed expire operation. New expiry timestamp: ")
    becomes(described, [])
    hmac = next(word for line in kafka("--create", "--max-life-time-period", "-1") for word in line.split() if word.endswith("="))
    becomes(lambda: [row["hmac"] for row in described()], [hmac])
    kafka("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    becomes(described, [])
