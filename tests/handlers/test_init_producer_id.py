"""InitProducerId at handler level."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.transaction import init_producer_id
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.handlers.support import Broker, Ids


def ask(version: int = 4, ids: Any = None, **fields: Any) -> tuple[int, int, int]:
    broker = Broker(producer_ids=ids or Ids())
    request = InitProducerIdRequest(**({"transactional_id": None, "transaction_timeout_ms": 60_000} | fields))
    response = broker.call(init_producer_id.handle, request, version)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(7))
def test_an_idempotent_producer_gets_a_new_id_in_every_version(version: int) -> None:
    assert ask(version) == (0, 4001, 0)


def test_an_old_id_without_transactional_id_is_replaced() -> None:
    assert ask(producer_id=77, producer_epoch=3) == (0, 4001, 0)


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}, {"transactional_id": ""}])
def test_requests_that_make_no_sense(fields: dict[str, Any]) -> None:
    assert ask(**fields) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_a_transactional_id_that_another_broker_coordinates() -> None:
    assert ask(transactional_id="t") == (ErrorCode.NOT_COORDINATOR, -1, -1)


def test_without_a_block_of_ids_the_client_is_told_to_retry() -> None:
    class Empty:
        def next_id(self) -> Deferred[int]:
            return Deferred.failed(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    assert ask(ids=Empty()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
