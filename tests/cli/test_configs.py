"""`odradek configs`: whose configuration is meant, what is set, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.waiting import until
from odradek.cli.configs.config_text import credential, names, pairs
from odradek.cli.configs.entities import Entities, entities, entity_options
from odradek.client import Admin, ConfigResource, NewTopic
from odradek.client.admin.types.security import ScramMechanism, UserScramCredentialUpsertion
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with `orders` and `returns`."""
    with EmbeddedBroker({"log.retention.hours": "99"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 1, 1), NewTopic("returns", 1, 1)])
        yield broker.bootstrap_servers


Set = Callable[..., dict[str, str]]


@pytest.fixture
def shown(bootstrap: str, command: Command) -> Set:
    """Keys and values as `describe` shows them."""

    def describe(*arguments: str) -> dict[str, str]:
        answer = command("configs", "describe", *arguments, "-J", "-b", bootstrap)
        assert answer.status == 0, answer.err
        return {row["name"]: row["value"] for row in json.loads(answer.out)}

    return describe


# -- text ---------------------------------------------------------------------------------------------------------------------------------


def test_pairs() -> None:
    assert pairs("a=1,b=[x,y], c = z ,d=,e==") == {"a": "1", "b": "x,y", "c": "z", "d": "", "e": "="}
    assert pairs("m=[client_id=a,b],n=[[x]]") == {"m": "client_id=a,b", "n": "[x]"}
    assert pairs("m=a],n=b,o=[c") == {"m": "a]", "n": "b", "o": "[c"}
    assert pairs("m=a],n=[b,c],o=]") == {"m": "a]", "n": "b,c", "o": "]"}
    for text in ("a", "", "a=1,", "=1", "a=1,b"):
        with pytest.raises(ValueError, match="expected KEY=VALUE"):
            pairs(text)
    with pytest.raises(ValueError, match="a is given twice"):
        pairs("a=1,a=2")
    assert names("a, b") == ["a", "b"]
    with pytest.raises(ValueError, match="expected KEY,KEY"):
        names("a,")


@given(st.dictionaries(st.from_regex(r"[a-z.]+", fullmatch=True), st.from_regex(r"[a-z0-9,.= ]*", fullmatch=True), min_size=1))
def test_what_stands_in_brackets_stays_together(wanted: dict[str, str]) -> None:
    assert pairs(",".join(f"{key}=[{value}]" for key, value in wanted.items())) == wanted


def test_credentials() -> None:
    assert credential("u", "SCRAM-SHA-256", "password=a,b=c") == UserScramCredentialUpsertion(
        "u", ScramMechanism.SCRAM_SHA_256, "a,b=c", 4096
    )
    assert credential("u", "SCRAM-SHA-512", "iterations=8192,password=x").iterations == 8192
    for text in ("", "password=", "x", "iterations=8192", "iterations=many,password=x", "iterations=,password=x"):
        with pytest.raises(ValueError, match=r"expected SCRAM-SHA-256=\[iterations=N,password=PASSWORD\]"):
            credential("u", "SCRAM-SHA-256", text)


# -- entities -----------------------------------------------------------------------------------------------------------------------------


def parsed(*arguments: str) -> Entities:
    @click.command()
    @entity_options
    def probe() -> Entities:
        return entities()

    return probe.main(list(arguments), standalone_mode=False)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--topic a", {"topics": "a"}),
        ("--broker 1", {"brokers": "1"}),
        ("--broker-defaults", {"brokers": ""}),
        ("--broker-logger 1", {"broker-loggers": "1"}),
        ("--group g", {"groups": "g"}),
        ("--client-metrics m", {"client-metrics": "m"}),
        ("--user u --client c", {"users": "u", "clients": "c"}),
        ("--user-defaults --client-defaults", {"users": "", "clients": ""}),
        ("--ip 1.2.3.4", {"ips": "1.2.3.4"}),
        ("--ip-defaults", {"ips": ""}),
        ("--entity-type topics", {"topics": None}),
        ("--entity-type brokers --entity-default", {"brokers": ""}),
        ("--entity-type users --entity-name u --entity-type clients --entity-default", {"users": "u", "clients": ""}),
        ("--entity-type users --entity-default --entity-type clients --entity-name c", {"users": "", "clients": "c"}),
        ("--entity-type users --entity-type clients", {"users": None, "clients": None}),
        ("--entity-type users --entity-type clients --entity-name u", {"users": "u", "clients": None}),
    ],
)
def test_entities(typed: str, expected: Entities) -> None:
    assert parsed(*typed.split()) == expected


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "At least one entity type must be specified"),
        ("--entity-name a", "each --entity-name and --entity-default requires an --entity-type"),
        ("--entity-type topics --entity-name a --entity-name b", "requires an --entity-type"),
        ("--topic a --broker 1", "only users and clients can be combined, not topics and brokers"),
        ("--user a --ip 1.2.3.4", "only users and clients can be combined"),
        ("--user a --entity-type users", "Duplicate entity type specified: users"),
        ("--user-defaults --user a", "Duplicate entity type specified: users"),
        ("--user a --user-defaults", "Duplicate entity type specified: users"),
        ("--entity-type topics --entity-default", "topics have no default"),
        ("--broker one", "must be a valid integer broker id, but it is: one"),
        ("--broker-logger -1", "must be a valid integer broker id, but it is: -1"),
    ],
)
def test_entities_that_do_not_go(typed: str, said: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(*typed.split())
    assert said in caught.value.format_message()


# -- describe and alter -------------------------------------------------------------------------------------------------------------------


def test_what_is_set_is_shown_and_the_rest_when_asked_for(bootstrap: str, shown: Set, command: Command) -> None:
    done = command("configs", "alter", "--topic", "orders", "-s", "retention.ms=1000,cleanup.policy=[compact,delete]", "-b", bootstrap)
    assert done == (0, "Completed updating topic orders.\n", "")
    assert shown("--topic", "orders") == {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    assert shown("--topic", "returns") == {}
    everything = shown("--topic", "returns", "--all")
    assert everything["retention.ms"] == str(99 * 3_600_000)
    assert len(everything) > 20
    rows = json.loads(command("configs", "describe", "--entity-type", "topics", "-J", "-b", bootstrap).out)
    assert {row["entity_name"] for row in rows} == {"orders"}
    row = next(row for row in rows if row["name"] == "retention.ms")
    assert row["synonyms"][0] == {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"}
    done = command("configs", "alter", "--topic", "orders", "-d", "retention.ms", "-s", "cleanup.policy=compact", "-b", bootstrap)
    assert done.status == 0
    assert shown("--topic", "orders") == {"cleanup.policy": "compact"}


def test_all_or_nothing(bootstrap: str, shown: Set, command: Command) -> None:
    before = shown("--topic", "returns")
    refused = command("configs", "alter", "--topic", "returns", "-s", "segment.ms=5", "-d", "retention.msec", "-b", bootstrap)
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == (
        "odradek configs: INVALID_CONFIG: Invalid config(s): retention.msec; `odradek configs describe --all` shows keys and values\n"
    )
    told = command("configs", "alter", "--topic", "returns", "-s", "segment.ms=5", "--validate-only", "-b", bootstrap)
    assert told == (0, "Would update topic returns.\n", "")
    assert shown("--topic", "returns") == before


def test_brokers_their_defaults_and_groups(bootstrap: str, shown: Set, command: Command) -> None:
    for where, key in (("--broker-defaults", "log.retention.bytes"), ("--broker=1", "log.segment.bytes")):
        assert command("configs", "alter", where, "-s", f"{key}=1048576", "-b", bootstrap).status == 0
    until(lambda: shown("--broker", "1").get("log.segment.bytes") == "1048576")
    until(lambda: shown("--broker-defaults").get("log.retention.bytes") == "1048576")
    assert "log.retention.bytes" not in shown("--broker", "1")
    assert command("configs", "alter", "--broker-defaults", "-d", "log.retention.bytes", "-b", bootstrap).status == 0
    until(lambda: "log.retention.bytes" not in shown("--broker-defaults"))
    assert command("configs", "alter", "--group", "g", "-s", "consumer.session.timeout.ms=50000", "-b", bootstrap).status == 0
    until(lambda: shown("--entity-type", "groups") == {"consumer.session.timeout.ms": "50000"})


def test_log_levels(bootstrap: str, shown: Set, command: Command) -> None:
    level = shown("--broker-logger", "1")["odradek"]
    try:
        assert command("configs", "alter", "--broker-logger", "1", "-s", "odradek=ERROR", "-b", bootstrap).status == 0
        assert shown("--entity-type", "broker-loggers")["odradek"] == "ERROR"
    finally:
        command("configs", "alter", "--broker-logger", "1", "-s", f"odradek={level}", "-b", bootstrap)


def test_a_file_of_configurations(bootstrap: str, shown: Set, command: Command, tmp_path: object) -> None:
    file = f"{tmp_path}/topic.properties"
    with open(file, "w") as out:
        out.write("# of returns\nretention.bytes = 7\ncleanup.policy=compact,delete\n")
    assert command("configs", "--alter", "--topic", "returns", "--add-config-file", file, "-b", bootstrap).status == 0
    assert shown("--topic", "returns") == {"retention.bytes": "7", "cleanup.policy": "compact,delete"}
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = {entry.name: entry.value for entry in admin.describe_configs([ConfigResource("topic", "returns")]).popitem()[1]}
    assert found["retention.bytes"] == "7"


@pytest.mark.parametrize(("name", "value"), [("producer_byte_rate", "1000"), ("SCRAM-SHA-256", "[password=x,iterations=4096]")])
def test_a_user_has_quotas_and_credentials(bootstrap: str, command: Command, name: str, value: str) -> None:
    def shown() -> str:
        answer = command("configs", "describe", "--user", "u", "-b", bootstrap)
        assert (answer.status, answer.err) == (0, "")
        return answer.out

    assert command("configs", "alter", "--user", "u", "--add-config", f"{name}={value}", "-b", bootstrap).status == 0
    assert name in shown()
    assert "password" not in shown()
    assert command("configs", "alter", "--user", "u", "--delete-config", name, "-b", bootstrap).status == 0
    assert name not in shown()


def test_one_of_several_quotas_is_taken_back_and_another_set_at_once(bootstrap: str, command: Command) -> None:
    def quotas(*who: str) -> dict[str, object]:
        answer = command("configs", "describe", *who, "-J", "-b", bootstrap)
        assert (answer.status, answer.err) == (0, "")
        return {row["name"]: row["value"] for row in json.loads(answer.out)}

    for who in (("--client", "some"), ("--client-defaults",)):
        alter = ("configs", "alter", *who, "-b", bootstrap)
        assert command(*alter, "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000").status == 0
        assert command(*alter, "--add-config", "request_percentage=5", "--delete-config", "producer_byte_rate").status == 0
        assert quotas(*who) == {"consumer_byte_rate": 2000, "request_percentage": 5}
        (row, _) = json.loads(command("configs", "describe", *who, "-J", "-b", bootstrap).out)
        assert row["client_id"] == (who[1] if len(who) > 1 else "<default>")
        assert command(*alter, "--delete-config", "consumer_byte_rate,request_percentage").status == 0
        assert quotas(*who) == {}
