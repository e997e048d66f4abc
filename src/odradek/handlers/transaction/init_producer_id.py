"""InitProducerId (API key 22): a producer id for idempotent producers.

Versions: 0-6 (6 is unstable, KIP-939). ACL: IDEMPOTENT_WRITE on Cluster or WRITE on any Topic; WRITE on TransactionalId with a
transactional id.
Quota: request time.
Known gaps: there is no transaction coordinator yet, so a request with a transactional id is answered COORDINATOR_NOT_AVAILABLE, as by a
broker whose coordinator is not up; clients retry. ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.registration import BROKER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@handler(ApiKey.INIT_PRODUCER_ID, versions=(0, 6), listeners=(BROKER,))
def handle(
    context: RequestContext, request: InitProducerIdRequest, services: Services
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _error(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        # Without a transactional id there is nothing to go on with: a producer that names its old id gets a new one as well.
        result: Deferred[InitProducerIdResponse] = Deferred()
        services.producer_ids.next_id().add_callback(lambda producer_id: _complete(result, producer_id))
        return result
    if request.transactional_id == "":
        return _error(ErrorCode.INVALID_REQUEST)
    return _error(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def error_response(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """The response's own error code."""
    return _error(error.code)


def _complete(result: Deferred[InitProducerIdResponse], producer_id: Deferred[int]) -> None:
    error = producer_id.error
    if error is None:
        result.complete(InitProducerIdResponse(producer_id=producer_id.result(), producer_epoch=0))
    else:
        # No block of ids could be had from the controller; the client tries again.
        result.complete(_error(error.code if isinstance(error, KafkaError) else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


def _error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
