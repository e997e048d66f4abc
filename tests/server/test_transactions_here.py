"""What a transaction asks of its own node."""

from __future__ import annotations

from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.state import Transaction, TransactionState
from odradek.handlers.transaction.write_txn_markers import Ending
from odradek.server.cluster.transactions_here import TransactionsHere

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
METADATA, REPLICAS, COORDINATORS = (cast(Any, name) for name in ("metadata", "replicas", "coordinators"))


def transaction(state: TransactionState) -> Transaction:
    return Transaction("x", 1000, 4, 60_000, state, frozenset({P0, P1}), client_version=2)


@pytest.mark.parametrize(("state", "committed"), [(TransactionState.PREPARE_COMMIT, True), (TransactionState.PREPARE_ABORT, False)])
def test_a_marker_says_how_the_transaction_ends(monkeypatch: pytest.MonkeyPatch, state: TransactionState, committed: bool) -> None:
    asked: list[Any] = []

    def write(*arguments: Any) -> list[Deferred[Any]]:
        asked.append(arguments)
        return [Deferred.of({P1: ErrorCode.NONE})]

    monkeypatch.setattr("odradek.server.cluster.transactions_here.write", write)
    [written] = TransactionsHere(3, METADATA, REPLICAS, COORDINATORS).write_markers(transaction(state), 7, [P1])
    assert written.result() == {P1: ErrorCode.NONE}
    assert asked == [(REPLICAS, COORDINATORS, Ending(1000, 4, 7, committed, 2), [P1])]


def test_a_coordinator_is_asked_as_by_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def decide(*arguments: Any) -> Deferred[Any]:
        asked.append(arguments)
        return Deferred.of({P0: ErrorCode.NONE})

    monkeypatch.setattr("odradek.server.cluster.transactions_here.decide", decide)
    here = TransactionsHere(3, METADATA, REPLICAS, COORDINATORS)
    assert here.ask("x", 1000, 4, [P0], verify_only=True).result() == {P0: ErrorCode.NONE}
    assert asked == [(METADATA, COORDINATORS, 5, "x", 1000, 4, True, [P0])]
    assert here.node_id == 3


def test_what_fails_unexpectedly_is_logged_and_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("out of paper")

    for name in ("decide", "write"):
        monkeypatch.setattr(f"odradek.server.cluster.transactions_here.{name}", broken)
    here = TransactionsHere(3, METADATA, REPLICAS, COORDINATORS)
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert here.ask("x", 1000, 4, [P0, P1], verify_only=False).result() == unknown
    [written] = here.write_markers(transaction(TransactionState.PREPARE_COMMIT), 7, [P0])
    assert written.result() == {P0: unknown}
    assert len(caplog.records) == 2
