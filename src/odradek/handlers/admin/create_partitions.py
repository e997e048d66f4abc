"""CreatePartitions (API key 37): gives topics more partitions.

Versions: 0-3. ACL: ALTER on Topic. Quota: controller mutations.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.CREATE_PARTITIONS, versions=(0, 3), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: CreatePartitionsRequest, services: Services) -> Deferred[CreatePartitionsResponse]:
    return services.kraft.submit(lambda core: core.create_partitions(request), "createPartitions")


def error_response(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Every topic of the request with the same error."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )
