"""ApiVersions (18), on every listener: APIs that this listener serves, and features of the cluster.

- The list is derived from `handlers.table` for the listener's scope. Produce is listed from version 0 and served from 3, for old librdkafka
  (KAFKA-18659).
- Versions below 4 do not contain supported features whose lowest level is 0 (KAFKA-17492).
- A version that is too new does not reach this handler: the dispatcher answers it (error 35 in version 0).
- From version 3 on the client's software name and version must match Kafka's pattern; otherwise the response is INVALID_REQUEST (KIP-511).

ACL: none; the request comes before authentication. Quota: request time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.features import KRAFT_VERSION, supported_features
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import Parts

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_LONGEST_SOFTWARE = 512
"""Longest accepted software name and version in characters. Odradek's own limit, checked before the pattern."""


def handle(context: RequestContext, request: ApiVersionsRequest, parts: Parts) -> ApiVersionsResponse:
    version = context.api_version
    if version >= 3 and not (_is_valid(request.client_software_name) and _is_valid(request.client_software_version)):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if version >= 3 and context.services.telemetry is not None:
        context.services.telemetry.introduced(context.connection_id, request.client_software_name, request.client_software_version)
    image = context.services.metadata.image
    # The quorum's control records, not the metadata image, contain the level of kraft.version.
    finalized = {**image.features.finalized, KRAFT_VERSION: parts.kraft.kraft_version}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=api.api_key, min_version=api.min_version, max_version=api.max_version)
            for api in context.services.api_ranges[context.listener_scope]
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=levels.minimum, max_version=levels.maximum)
            for name, levels in supported_features().items()
            if version >= 4 or levels.minimum > 0
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.items()
            if level
        ],
    )


def _is_valid(text: str) -> bool:
    return len(text) <= _LONGEST_SOFTWARE and _SOFTWARE.fullmatch(text) is not None
