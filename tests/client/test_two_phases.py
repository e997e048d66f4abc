"""Two-phase commit (KIP-939): transactions that never time out, where the broker allows them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.waiting import until
from odradek.base.errors import ErrorCode
from odradek.client import Admin, PreparedTransaction, Producer, TransactionError
from odradek.client.admin.transactions import end_request
from odradek.client.admin.types.transactions import TransactionState
from odradek.testing.kit.embedded import EmbeddedBroker, unique_name
from tests.client.conftest import CONFIG

_ALLOWED = {
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


@pytest.fixture(scope="module", params=[OdradekBroker, pytest.param(JvmBroker, marks=pytest.mark.jvm)], ids=lambda kind: kind.name)
def bootstrap(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    broker: BrokerProcess = request.param(tmp_path_factory.mktemp("broker"), {**CONFIG, **_ALLOWED})
    broker.start()
    yield broker.bootstrap
    broker.stop()


def prepared(bootstrap: str, topic: str, **settings: str) -> PreparedTransaction:
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": unique_name("id"), **settings}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x", partition=0)
        found = producer.prepare_transaction()
    assert found is not None
    return found


def test_a_transaction_of_two_phases_outlives_all_timeouts(bootstrap: str, topic: str) -> None:
    # The other one is younger, and times out: the coordinator had its chance to end the first.
    lasting = prepared(bootstrap, topic, **{"transaction.two.phase.commit.enable": "true"})
    short = prepared(bootstrap, topic, **{"transaction.timeout.ms": "300"})
    with Admin(bootstrap_servers=bootstrap) as admin:

        def state(of: PreparedTransaction) -> TransactionState:
            return admin.describe_transactions([of.transactional_id])[of.transactional_id].state

        until(lambda: state(short) is TransactionState.COMPLETE_ABORT, "a transaction that timed out", 30)
        assert admin.describe_transactions([lasting.transactional_id])[lasting.transactional_id].transaction_timeout_ms == 2**31 - 1
        assert state(lasting) is TransactionState.ONGOING
        admin.end_transactions([lasting], commit=True)
        until(lambda: state(lasting) is TransactionState.COMPLETE_COMMIT, "a transaction that has ended", 30)


@pytest.mark.parametrize(("transaction_version", "at_most"), [(1, 4), (2, None)])
def test_a_transaction_is_ended_in_its_own_version(transaction_version: int, at_most: int | None) -> None:
    request, limit = end_request(PreparedTransaction("id", 7, 3, transaction_version), commit=False)
    assert limit == at_most
    assert (request.transactional_id, request.producer_id, request.producer_epoch, request.committed) == ("id", 7, 3, False)


def two_phases(broker: EmbeddedBroker) -> Producer:
    settings = {"transactional.id": "x", "transaction.two.phase.commit.enable": "true"}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})


def test_a_broker_that_does_not_allow_it_says_so() -> None:
    with EmbeddedBroker({"unstable.api.versions.enable": "true"}, memory=True) as broker, two_phases(broker) as producer:
        with pytest.raises(TransactionError) as raised:
            producer.init_transactions()
        assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert not raised.value.abortable


def test_a_broker_that_does_not_know_it_says_so() -> None:
    settings = {"transactional.id": "x", "transaction.two.phase.commit.enable": "true"}
    with (
        EmbeddedBroker(memory=True, version="3.7") as broker,
        Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer,
    ):
        with pytest.raises(TransactionError) as raised:
            producer.init_transactions()
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert "transaction.two.phase.commit.enable" in str(raised.value)
