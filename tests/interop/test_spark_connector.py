"""Batch queries of our source and sink beside those of Spark's Kafka connector, on the same topics: rows, tasks, and kinds of error."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interop.peers import both
from odradek.client import Admin, NewTopic, Producer
from tests.interop import spark_direct
from tests.interop.secured import SCRAM_PASSWORD, USER, SecuredBroker, plain_line, secured
from tests.interop.spark_differences import DIFFERENCES, difference_of
from tests.interop.spark_options import READS
from tests.interop.spark_sessions import Answer, Session, by_partition, kind_of, tasks
from tests.interop.spark_sinks import WRITES, SinkCase
from tests.interop.spark_topics import CONFIG, Topics

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

BROKERS = ("odradek", "jvm")
ALL_NAMES = [*(case.name for case in READS), *(case.name for case in WRITES)]


class Sides:
    """Both connectors, and topics on Odradek's broker and on JVM Kafka."""

    def __init__(self, folder: Path, topics: Mapping[str, Topics]) -> None:
        self.topics = topics
        self.theirs, self.ours = Session(folder / "their-spark", "kafka"), Session(folder / "our-spark", "odradek")
        for session in (self.theirs, self.ours):
            session.ready()

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("sides")
    with both(folder, CONFIG) as brokers, contextlib.ExitStack() as stack:
        topics = {broker.name: Topics(broker.bootstrap) for broker in brokers}
        for each in topics.values():
            stack.callback(each.close)
        made = Sides(folder, topics)
        stack.callback(made.close)
        yield made


Answers = dict[tuple[str, str], tuple[Answer, Answer]]


@pytest.fixture(scope="module")
def answers(sides: Sides) -> Answers:
    """What both say to each case, the connector's first, by the name of the case and of the broker."""
    asked = [(case, broker) for case in READS for broker in (BROKERS if case.both_brokers else BROKERS[:1])]
    options = [sides.topics[broker].options(case.options) for case, broker in asked]
    sides.theirs.ask([{"job": "read", "options": each} for each in options])
    with ThreadPoolExecutor(4) as pool:
        ours = pool.map(spark_direct.read, options)
        theirs = sides.theirs.answers(len(options))
        return {(case.name, broker): pair for (case, broker), pair in zip(asked, zip(theirs, ours, strict=True), strict=True)}


def outcome(answer: Answer) -> str:
    """`rows`, `nothing`, or the kind of the error."""
    if "error" in answer:
        return kind_of(answer["error"])
    return "rows" if answer["rows"] else "nothing"


@pytest.mark.parametrize("case", READS, ids=lambda case: case.name)
def test_a_batch_query_reads_what_the_connector_reads(answers: Answers, case: Any) -> None:
    for broker in BROKERS if case.both_brokers else BROKERS[:1]:
        theirs, ours = answers[case.name, broker]
        said = f"{broker}\ntheirs: {theirs.get('error', '')[:600]}\nours: {ours.get('error', '')[:600]}"
        difference = difference_of(case.name)
        expected = (difference.theirs, difference.ours) if difference is not None else (outcome(theirs),) * 2
        assert (outcome(theirs), outcome(ours)) == expected, said
        if outcome(theirs) == outcome(ours) == "rows":
            same_rows = by_partition(theirs["rows"]) == by_partition(ours["rows"])
            same_tasks = tasks(theirs["rows"]) == tasks(ours["rows"])
            about = None if difference is None else difference.about
            assert same_rows == (about != "rows"), f"{broker}: {by_partition(theirs['rows'])}\n{by_partition(ours['rows'])}"
            assert about == "rows" or same_tasks == (about != "tasks"), f"{broker}: {tasks(theirs['rows'])}\n{tasks(ours['rows'])}"


def test_an_error_is_a_line_and_names_the_option(answers: Answers) -> None:
    wrong = []
    for (name, broker), (_, ours) in answers.items():
        error = ours.get("error", "")
        options = re.findall(r"(?:^|[ ,:])([A-Za-z.]+)=", name)
        named = any(option.lower().removeprefix("kafka.") in error.lower() for option in options) or "Exactly one of" in error
        if "\n" in error or (error.startswith("ConfigError") and not named):
            wrong.append(f"{name} ({broker}): {error}")
    assert wrong == []


def test_every_difference_is_one_of_a_case() -> None:
    for difference in DIFFERENCES:
        for pattern in difference.cases:
            assert any(re.fullmatch(pattern, name) for name in ALL_NAMES) or pattern.startswith("stream"), f"no case is {pattern}"


def test_spark_brings_the_rows_that_the_source_gives(sides: Sides, answers: Answers) -> None:
    """That our source was asked without Spark above makes no difference; the schema is the connector's."""
    wanted = [
        case
        for case in READS
        if case.name
        in (
            "selection: subscribe=plain,skewed",
            "reading: subscribe=plain, includeHeaders=true",
            "reading: subscribe=transactions, kafka.isolation.level=read_committed",
            "tasks: subscribe=skewed, minPartitions=7",
            "selection: subscribe=missing",
            "elsewhere: subscribe=names-a, startingOfsets=latest",
        )
    ]
    assert len(wanted) == 6
    jobs = [{"job": "read", "options": sides.topics["odradek"].options(case.options)} for case in wanted]
    sides.ours.ask(jobs)
    for case, answer in zip(wanted, sides.ours.answers(len(jobs)), strict=True):
        theirs, direct = answers[case.name, "odradek"]
        assert outcome(answer) == outcome(direct), answer
        if "rows" in answer:
            assert sorted(answer["rows"]) == sorted(direct["rows"])
            assert answer["schema"] == theirs["schema"]


# -- the sink -----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(sides: Sides) -> dict[str, dict[str, tuple[Answer, Any]]]:
    """What both say to each case, and what stands in the topic then, by the name of the case and of the side. On Odradek's broker."""
    topics = sides.topics["odradek"]
    sessions = {"kafka": sides.theirs, "odradek": sides.ours}
    names = {side: [f"sink-{number}-{side}" for number in range(len(WRITES))] for side in sessions}
    topics.admin.create_topics([NewTopic(name, 2, 1) for each in names.values() for name in each])
    for side, session in sessions.items():
        session.ask([_write(topics, case, name) for case, name in zip(WRITES, names[side], strict=True)])
    output: dict[str, dict[str, tuple[Answer, Any]]] = {case.name: {} for case in WRITES}
    for side, session in sessions.items():
        for case, name, answer in zip(WRITES, names[side], session.answers(len(WRITES)), strict=True):
            output[case.name][side] = (answer, topics.contents(name))
    return output


def _write(topics: Topics, case: SinkCase, topic: str) -> dict[str, Any]:
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, **case.options}
    given = {name: value.replace("{topic}", topic) for name, value in options.items() if value is not None}
    return {"job": "write", "sql": case.sql.replace("{topic}", topic), "options": given, "mode": case.mode}


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.name)
def test_a_batch_query_writes_what_the_connector_writes(written: dict[str, dict[str, tuple[Answer, Any]]], case: SinkCase) -> None:
    (theirs, their_records), (ours, our_records) = written[case.name]["kafka"], written[case.name]["odradek"]

    def kind(answer: Answer, records: Sequence[Any]) -> str:
        return kind_of(answer["error"]) if "error" in answer else "rows" if records else "nothing"

    said = f"theirs: {theirs.get('error', '')[:600]}\nours: {ours.get('error', '')[:600]}"
    difference = difference_of(case.name)
    kinds = (kind(theirs, their_records), kind(ours, our_records))
    assert kinds == ((difference.theirs, difference.ours) if difference is not None else (kinds[0],) * 2), said
    if difference is None:
        # What a query that failed has written before is a matter of time.
        assert our_records == their_records or "error" in theirs, said
    else:
        assert difference.about == "kind"


# -- brokers that ask who one is ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured(tmp_path_factory.mktemp("secured")) as broker:
        with (
            Admin(bootstrap_servers=broker.address["PLAINTEXT"]) as admin,
            Producer(bootstrap_servers=broker.address["PLAINTEXT"]) as producer,
        ):
            admin.create_topics([NewTopic("guarded", 1)])
            producer.send("guarded", b"v", key=b"k")
        yield broker


def test_keys_of_the_client_reach_a_broker_that_asks_who_one_is(sides: Sides, guarded: SecuredBroker) -> None:
    """The same words, Java's lines of login modules among them, and the same answers, also for wrong ones."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(guarded.certificates.authority)}
    key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(guarded.certificates.client)}
    scram = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{{}}";'
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    settings: list[tuple[str, dict[str, str], str]] = [
        ("TLS", {"security.protocol": "SSL", **trust}, "rows"),
        ("MUTUAL", {"security.protocol": "SSL", **trust, **key}, "rows"),
        ("SASL", {**plain, "sasl.jaas.config": plain_line()}, "rows"),
        ("SASL", {**plain, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": scram.format(SCRAM_PASSWORD)}, "rows"),
        ("SASLTLS", {**plain, "security.protocol": "SASL_SSL", "sasl.jaas.config": plain_line(), **trust}, "rows"),
        ("SASL", {**plain, "sasl.jaas.config": plain_line("wrong-secret")}, "not let in"),
        ("TLS", {"security.protocol": "SSL"}, "not let in"),
        ("SASL", {**plain}, "refused"),
        ("SASL", {**plain, "sasl.jaas.config": "nonsense"}, "refused"),
        ("TLS", {"security.protocol": "SSL", **trust, "ssl.truststore.location": "/no/such/file"}, "refused"),
    ]
    options = [
        {
            "kafka.bootstrap.servers": guarded.address[listener],
            "subscribe": "guarded",
            "fetchOffset.numRetries": "1",
            "kafka.request.timeout.ms": "20000",
            **{f"kafka.{name}": value for name, value in keys.items()},
        }
        for listener, keys, _ in settings
    ]
    sides.theirs.ask([{"job": "read", "options": each} for each in options])
    theirs = sides.theirs.answers(len(options))
    ours = [spark_direct.read(each) for each in options]
    wrong = [
        f"{listener} {keys}: {expected}\n{(outcome(one), outcome(other))}\n{one.get('error', '')[:2500]}\n{other.get('error', '')[:500]}"
        for (listener, keys, expected), one, other in zip(settings, theirs, ours, strict=True)
        if not outcome(one) == outcome(other) == expected
    ]
    assert wrong == [], "\n".join(wrong)
    assert all(by_partition(one["rows"]) == by_partition(other["rows"]) for one, other in zip(theirs, ours, strict=True) if "rows" in one)
    assert not [each for each in ours if "wrong-secret" in each.get("error", "")]
