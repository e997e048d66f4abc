"""CreateTopics (API key 19): creates topics, by counts or with given replicas.

Versions: 2-7. ACL: CREATE on Cluster or on Topic. Quota: controller mutations.
Known gaps: ACLs and quotas are not enforced yet; there are no creation policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.CREATE_TOPICS, versions=(2, 7), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: CreateTopicsRequest, services: Services) -> Deferred[CreateTopicsResponse]:
    return services.kraft.submit(lambda core: core.create_topics(request), "createTopics")


def error_response(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Every topic of the request with the same error."""
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message, configs=[])
            for topic in request.topics
        ]
    )
