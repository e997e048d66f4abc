"""DeleteTopics (API key 20): deletes topics by name, from version 6 also by id.

Versions: 1-6. ACL: DELETE on Topic. Quota: controller mutations.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.DELETE_TOPICS, versions=(1, 6), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: DeleteTopicsRequest, services: Services) -> Deferred[DeleteTopicsResponse]:
    return services.kraft.submit(lambda core: core.delete_topics(request, context.api_version), "deleteTopics")


def error_response(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Every topic of the request with the same error."""
    result = DeleteTopicsResponse.DeletableTopicResult
    by_state = [result(name=t.name, topic_id=t.topic_id, error_code=error.code, error_message=error.message) for t in request.topics]
    by_name = [result(name=name, error_code=error.code, error_message=error.message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=by_state + by_name)
