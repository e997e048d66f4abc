"""InitProducerId (API key 22): a producer id for idempotent and transactional producers.

Version 6, with two-phase commit, is unstable in Kafka 4.3 (KIP-939).
ACL: IDEMPOTENT_WRITE on Cluster or WRITE on any Topic; WRITE on TransactionalId with a transactional id; with two-phase commit also
TWO_PHASE_COMMIT on it. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.access import INIT_ANY_TOPIC, INIT_IDEMPOTENCE, INIT_TRANSACTION, INIT_TWO_PHASE_COMMIT
from odradek.handlers.transaction.errors import code_for
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.coordinator.transaction.state import Transaction
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

_FENCED_SINCE = 4
"""First version whose clients know PRODUCER_FENCED; older ones know only INVALID_PRODUCER_EPOCH."""


def handle(
    context: RequestContext, request: InitProducerIdRequest, broker: BrokerParts
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    if request.transactional_id is not None:
        context.require(INIT_TRANSACTION, request.transactional_id)
        if request.enable2_pc:
            context.require(INIT_TWO_PHASE_COMMIT, request.transactional_id)
    elif not context.allows(INIT_IDEMPOTENCE) and not context.allows_any(INIT_ANY_TOPIC):
        raise KafkaError(INIT_ANY_TOPIC.error)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _error(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        # Without a transactional id there is no state to continue, so a producer that names its old id gets a new one too.
        return broker.producer_ids.next_id().then(
            lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0), _not_allocated
        )
    expected = None if request.producer_id == NO_PRODUCER_ID else (request.producer_id, request.producer_epoch)
    version = context.api_version
    decided = broker.transactions.initialize(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    return decided.then(_initialized, lambda error: _error(code_for(error, version, _FENCED_SINCE)))


def error_response(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """Return a response with the error at the top level."""
    return _error(error.code)


def _not_allocated(error: BaseException) -> InitProducerIdResponse:
    """Return the response when the controller allocates no block of ids; the client tries again."""
    return _error(error.code if isinstance(error, KafkaError) else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _initialized(transaction: Transaction) -> InitProducerIdResponse:
    producer_id, producer_epoch = transaction.owner
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer_epoch)
    if transaction.kept:
        response.ongoing_txn_producer_id = transaction.producer_id
        response.ongoing_txn_producer_epoch = transaction.producer_epoch
    return response


def _error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
