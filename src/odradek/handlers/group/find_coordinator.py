"""FindCoordinator (10), versions 0-6: which broker coordinates a group, a transactional id or a share partition.

- ACL: DESCRIBE on the group or transactional id.
- Advertised from version 0 because librdkafka keys LZ4 on its presence.
- Gap: there are no coordinators yet, so every valid key is answered COORDINATOR_NOT_AVAILABLE, which clients retry. Key types that the
  version does not know are answered INVALID_REQUEST, as in Kafka (share partitions need version 6, KIP-932).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.registration import BROKER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

GROUP, TRANSACTION, SHARE = 0, 1, 2
_NOBODY = -1


@handler(ApiKey.FIND_COORDINATOR, versions=(0, 6), listeners=(BROKER,))
def handle(context: RequestContext, request: FindCoordinatorRequest, services: Services) -> FindCoordinatorResponse:
    known = (GROUP, TRANSACTION, SHARE) if context.api_version >= 6 else (GROUP, TRANSACTION)
    if request.key_type not in known:
        error = KafkaError(ErrorCode.INVALID_REQUEST, f"there is no key type {request.key_type} in version {context.api_version}")
    else:
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker has no coordinators yet")
    return _answer(request, error, batched=context.api_version >= 4)


def error_response(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    return _answer(request, error, batched=bool(request.coordinator_keys))


def _answer(request: FindCoordinatorRequest, error: KafkaError, *, batched: bool) -> FindCoordinatorResponse:
    if not batched:
        return FindCoordinatorResponse(error_code=error.code, error_message=error.message, node_id=_NOBODY, host="", port=_NOBODY)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=_NOBODY, host="", port=_NOBODY, error_code=error.code, error_message=error.message
            )
            for key in request.coordinator_keys
        ]
    )
