"""kafka-transactions, every verb, on transactions in every state and on hanging ones: it says of Odradek what it says of the JVM broker."""

from __future__ import annotations

import pytest

from tests.interop.pair import TRANSACTIONS, Pair
from tests.interop.transaction_tool_support import ABORTED, HANGING, LATE, NO_ID, OPEN, OPEN_2, STATES, TOPIC, UNKNOWN
from tests.interop.transaction_tool_support import transactions as transactions

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


SINCE = r"\d{13}\s+\d+"
"""When a transaction began or a producer last wrote, and how long ago that is."""

MARKED = r"\b(?!179000000000)\d{13}\b"
"""When a marker was written; records have 1790000000000 and a little more."""


def test_list(transactions: Pair) -> None:
    said = transactions.same(TRANSACTIONS, "list", status=0)
    assert f"{OPEN} 1 (producer of {OPEN}) Ongoing" in said
    assert f"{ABORTED} 1 (producer of {ABORTED}) CompleteAbort" in said
    for options in ("--duration-filter -1", "--duration-filter 0", "--duration-filter 3600000", "--transactional-id-pattern x-c.*"):
        said = transactions.same(TRANSACTIONS, "list", *options.split(), status=0)
        assert any(OPEN in line for line in said) == options.endswith((" -1", " 0"))
    transactions.same(TRANSACTIONS, "list", "--transactional-id-pattern", "x-[", status=1)


@pytest.mark.parametrize("transactional_id", [*STATES, LATE, UNKNOWN, ""])
def test_describe(transactions: Pair, transactional_id: str) -> None:
    known = transactional_id not in (UNKNOWN, "")
    said = transactions.same(TRANSACTIONS, "describe", "--transactional-id", transactional_id, hide=[SINCE], status=0 if known else 1)
    if transactional_id in (OPEN, OPEN_2):
        assert any(f"{TOPIC}-0" in line and "Ongoing" in line for line in said)


@pytest.mark.parametrize("where", [f"{TOPIC} 0", f"{TOPIC} 1", f"{HANGING} 0", f"{HANGING} 1"])
@pytest.mark.parametrize("options", ["", "--broker-id 1"])
def test_describe_producers(transactions: Pair, where: str, options: str) -> None:
    topic, partition = where.split()
    arguments = ("--topic", topic, "--partition", partition, *options.split())
    said = transactions.same(TRANSACTIONS, "describe-producers", *arguments, hide=[MARKED], status=0)
    if topic == HANGING:
        assert any(line.startswith(f"{NO_ID} 3 -1 1 ") for line in said)


def test_hanging_transactions_are_found_and_aborted(transactions: Pair) -> None:
    def find(*options: str) -> list[str]:
        said = transactions.same(TRANSACTIONS, "find-hanging", *options, hide=[SINCE], status=0)
        return [line for line in said if not line.startswith("Topic Partition")]

    def abort(*options: str, status: int = 0, partition: int = 0) -> list[str]:
        return transactions.same(TRANSACTIONS, "abort", "--topic", HANGING, "--partition", str(partition), *options, status=status)

    transactions.same(TRANSACTIONS, "find-hanging", status=1)
    transactions.same(TRANSACTIONS, "find-hanging", "--partition", "0", status=1)
    unknown = f"{HANGING} 0 {NO_ID} 3 -1 2 (hidden)"
    late = f"{HANGING} 0 (producer of {LATE}) 0 -1 0 (hidden)"
    other = f"{HANGING} 1 {NO_ID} 3 -1 0 (hidden)"
    assert find("--broker-id", "1") == sorted([unknown, late, other])
    assert find("--topic", HANGING, "--max-transaction-timeout", "1") == sorted([unknown, late, other])
    assert find("--topic", HANGING, "--partition", "1") == [other]
    assert find("--topic", HANGING, "--max-transaction-timeout", "100000000") == []
    assert find("--topic", TOPIC) == []
    abort(status=1)
    abort("--start-offset", "1", status=1)
    abort("--producer-id", str(NO_ID), status=1)
    abort("--producer-id", str(NO_ID), "--producer-epoch", "2", "--coordinator-epoch", "0", status=1)
    abort("--start-offset", "0")
    abort("--producer-id", str(NO_ID), "--producer-epoch", "3", "--coordinator-epoch", "-1")
    assert find("--topic", HANGING) == [other]
    abort("--start-offset", "0", partition=1)
    assert find("--topic", HANGING) == []
    for partition in ("0", "1"):
        transactions.same(TRANSACTIONS, "describe-producers", "--topic", HANGING, "--partition", partition, hide=[MARKED], status=0)
    offsets = transactions.same("org.apache.kafka.tools.GetOffsetShell", "--topic", HANGING, status=0)
    assert offsets == [f"{HANGING}:0:6", f"{HANGING}:1:3", f"{HANGING}:2:0"]


def test_an_open_transaction_is_terminated(transactions: Pair) -> None:
    transactions.same(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", OPEN_2, status=0)
    transactions.same(TRANSACTIONS, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0", status=0)
    transactions.same(TRANSACTIONS, "describe-producers", "--topic", TOPIC, "--partition", "0", hide=[MARKED], status=0)
