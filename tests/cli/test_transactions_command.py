"""`odradek transactions`: open transactions, those that hang, and ending them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from odradek.base.ids import TopicPartition
from odradek.cli.transactions.hanging import Suspect, candidates, hanging
from odradek.client import Admin, NewTopic
from odradek.client.admin.types.transactions import ProducerState
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command

T, U = TopicPartition("t", 0), TopicPartition("t", 1)

NOBODY = "transactional id nobody; `odradek transactions list` shows all transactional ids"


def producer(producer_id: int, start: int | None, last: int = 100) -> ProducerState:
    return ProducerState(producer_id, 0, 0, last, 0, start)


def test_suspects_are_open_and_old() -> None:
    found = candidates({U: [producer(3, 7)], T: [producer(2, 0, 99), producer(1, None, 5), producer(0, 4, 100)]}, 100)
    assert found == [Suspect(T, producer(2, 0, 99))]
    assert [each.partition for each in candidates({U: [producer(3, 7)], T: [producer(2, 0)]}, 101)] == [T, U]


def test_what_a_coordinator_will_end_does_not_hang() -> None:
    suspects = [Suspect(T, producer(1, 0)), Suspect(U, producer(1, 0)), Suspect(T, producer(2, 0)), Suspect(T, producer(3, 0))]
    found = hanging(suspects, {1: "one", 3: "three"}, {"one": {T}})
    assert found == [suspects[1], suspects[2], suspects[3]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the topic `orders`, in which the transaction of `transfer` is open."""
    with EmbeddedBroker({"transaction.state.log.num.partitions": "1"}) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1)])
        for name in ("transfer", "ending"):
            other = Producer({"bootstrap.servers": servers, "transactional.id": name})
            other.init_transactions(20)
            other.begin_transaction()
            other.produce("orders", b"x", partition=0 if name == "transfer" else 1)
            assert other.flush(20) == 0
        yield servers


def test_an_open_transaction_is_shown(bootstrap: str, command: Command) -> None:
    at = ("-J", "-b", bootstrap)
    (row,) = json.loads(command("transactions", "list", "--transactional-id-pattern", "trans.*", *at).out)
    assert (row["transactional_id"], row["coordinator"], row["transaction_state"]) == ("transfer", 1, "Ongoing")
    answer = command("transactions", "describe", "transfer", "nobody", *at)
    (described,) = json.loads(answer.out)
    assert (answer.status, answer.err) == (
        1,
        f"odradek transactions: nobody: TRANSACTIONAL_ID_NOT_FOUND: {NOBODY}\n",
    )
    assert (described["topic_partitions"], described["producer_id"]) == (["orders-0"], row["producer_id"])
    assert 0 <= described["transaction_duration_ms"] < 60_000
    (wrote,) = json.loads(command("transactions", "describe-producers", "--topic", "orders", "--partition", "0", *at).out)
    assert (wrote["producer_id"], wrote["current_transaction_start_offset"]) == (row["producer_id"], 0)
    assert command("transactions", "find-hanging", "--topic", "orders", "--max-transaction-timeout", "0", *at).out == "[]\n"
    assert command("transactions", "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0", *at).out == "[]\n"


def test_the_script_has_its_options_before_its_words(bootstrap: str, command: Command) -> None:
    answer = command("kafka-transactions.sh", "--bootstrap-server", bootstrap, "describe", "--transactional-id", "transfer")
    assert (answer.status, "Ongoing" in answer.out) == (0, True)


def test_a_transaction_is_ended_when_told_to(bootstrap: str, command: Command) -> None:
    def state() -> str:
        return str(json.loads(command("transactions", "describe", "ending", "-J", "-b", bootstrap).out)[0]["transaction_state"])

    told = command("transactions", "abort", "--topic", "orders", "--partition", "1", "--start-offset", "0", "-b", bootstrap)
    assert (told.status, told.err) == (0, "odradek transactions: nothing was changed; add --execute to make the changes\n")
    assert told.out.startswith("Would abort the transaction of producer ")
    assert command("transactions", "force-terminate", "ending", "-b", bootstrap).out.startswith(
        "Would end the transaction of ending (Ongoing)"
    )
    assert state() == "Ongoing"
    done = command("transactions", "force-terminate", "ending", "--execute", "-b", bootstrap)
    assert done == (0, "Ended the transaction of ending and fenced its producer.\n", "")
    assert state() != "Ongoing"
    missing = command("transactions", "force-terminate", "nobody", "--execute", "-b", bootstrap)
    assert missing == (
        1,
        "",
        f"odradek transactions: TRANSACTIONAL_ID_NOT_FOUND: {NOBODY}\n",
    )


def test_a_transaction_of_a_partition_is_aborted_when_told_to(bootstrap: str, command: Command) -> None:
    where = ("--topic", "orders", "--partition", "0", "--start-offset", "0", "-b", bootstrap)
    assert command("transactions", "abort", *where, "--execute").out.startswith("Aborted the transaction of producer ")
    again = command("transactions", "abort", *where, "--execute")
    assert again.status == 1
    assert again.err.startswith("odradek transactions: Could not find any open transactions starting at offset 0 on partition orders-0; ")
