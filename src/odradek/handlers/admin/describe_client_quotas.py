"""DescribeClientQuotas (48): quotas whose entity matches a filter (KIP-546; org.apache.kafka.image.ClientQuotasImage).

ACL: DESCRIBE_CONFIGS on Cluster. Quota: request time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""Match types of a filter component: a given name, the default entity, or any name (DescribeClientQuotasRequest)."""

_ANY: Final = object()
_TYPES = ("ip", "user", "client-id")

Entry = DescribeClientQuotasResponse.EntryData
EntityPart = DescribeClientQuotasResponse.EntityData
Value = DescribeClientQuotasResponse.ValueData


def handle(context: RequestContext, request: DescribeClientQuotasRequest, broker: BrokerParts) -> DescribeClientQuotasResponse:
    wanted = _wanted(request.components)
    return DescribeClientQuotasResponse(
        entries=[
            Entry(
                entity=[EntityPart(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[Value(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in context.services.metadata.image.client_quotas.entities.items()
            if _matches(dict(entity), wanted, strict=request.strict)
        ],
    )


def error_response(request: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    """Return the error with null entries, because an empty list would mean that no quota matches."""
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _wanted(components: list[DescribeClientQuotasRequest.ComponentData]) -> dict[str, object]:
    """Return the wanted name by entity type: a name, None for the default entity, or `_ANY`. Raises KafkaError for an invalid filter."""
    wanted: dict[str, object] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type {kind} not supported")
        wanted[kind] = _wanted_name(component)
    if "ip" in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        )
    return wanted


def _wanted_name(component: DescribeClientQuotasRequest.ComponentData) -> object:
    if component.match_type == EXACT:
        if component.match is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return component.match
    if component.match_type not in (DEFAULT, SPECIFIED):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match is not None:
        named = "MATCH_TYPE_DEFAULT" if component.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {named}, but also specified a match string.")
    return None if component.match_type == DEFAULT else _ANY


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, object], *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(kind in entity and name in (_ANY, entity[kind]) for kind, name in wanted.items())
