"""UpdateFeatures (API key 57): finalizes feature levels for the whole cluster (KIP-584, KIP-1022).

Versions: 0-2 (version 1 brought downgrade types and validate_only, version 2 has no results by feature). ACL: ALTER on Cluster.
Quota: controller mutations.
Known gaps: levels that Odradek does not serve (`odradek.metadata.features.SERVED_LEVELS`) and kraft.version are not upgraded.
ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.UPDATE_FEATURES, versions=(0, 2), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: UpdateFeaturesRequest, services: Services) -> Deferred[UpdateFeaturesResponse]:
    kraft = services.kraft
    return kraft.submit(lambda core: core.update_features(request, context.api_version, kraft.kraft_version), "updateFeatures")


def error_response(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    """The response as a whole, in every version."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
