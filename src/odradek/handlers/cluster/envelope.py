"""Envelope (58): a client's request, forwarded by the broker that received it (KIP-590).

- Content: a request header and body without the size; DefaultPrincipalData after its version (int16); the client's IP address.
- Errors of the envelope itself: PRINCIPAL_DESERIALIZATION_FAILURE, UNSUPPORTED_VERSION (a request that this controller does not support),
  INVALID_REQUEST (an API that brokers do not forward), NOT_CONTROLLER (another node is the controller). All other errors are in the
  enclosed response.

ACL: CLUSTER_ACTION on Cluster (the broker's principal); the enclosed request is authorized for the client's own principal. Quota: none.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from odradek.base.addresses import host_address
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.scopes import CONTROLLER
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import API_INFO
from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.default_principal import DefaultPrincipalData
from odradek.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.security.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts
    from odradek.network.chunks import Chunk

FORWARDED = frozenset([int(api.api_key) for api in APIS if api.forwarded])
"""Keys of the APIs that may come in an envelope."""
UNSUPPORTED = frozenset([int(key) for key, api in API_INFO.items() if CONTROLLER in api.listeners]).difference(
    int(api.api_key) for api in APIS if api.is_served_on(CONTROLLER)
)
"""Keys of APIs of Kafka's controllers that this controller does not support yet."""


def handle(context: RequestContext, request: EnvelopeRequest, parts: ControllerParts) -> EnvelopeResponse | Deferred[EnvelopeResponse]:
    principal = _principal(request.request_principal)
    try:
        client_host = host_address(str(ip_address(request.client_host_address)))
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address in the envelope is not an IP address") from None
    try:
        header, _ = decode_request_header(request.request_data)
        if header.api_key in UNSUPPORTED:
            raise ProtocolError(f"API key {header.api_key} is not supported")
        if header.api_key not in FORWARDED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"API key {header.api_key} must not be sent in an envelope")
        _, answer = parts.dispatcher.handle_embedded(
            request.request_data,
            scope=CONTROLLER,
            listener_name=context.listener_name,
            peer_host=client_host,
            principal=principal,
            connection_id=context.connection_id,
            forwarded=True,
        )
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
    return answer.then(_wrap) if isinstance(answer, Deferred) else _wrap(answer)


def _principal(data: bytes | None) -> Principal:
    try:
        if data is None or len(data) < 2:
            raise ProtocolError("no principal")
        principal, _ = DefaultPrincipalData.decode_prefix(data, int.from_bytes(data[:2], "big", signed=True), 2)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"the principal in the envelope is malformed: {error}") from None
    return Principal(principal.type, principal.name, principal.token_authenticated)


def _wrap(answer: Sequence[Chunk] | None) -> EnvelopeResponse:
    """Return an envelope with the response, without the response's size field, which the envelope's own field replaces."""
    whole = b"".join([chunk for chunk in answer or () if isinstance(chunk, (bytes, bytearray, memoryview))])
    return EnvelopeResponse(response_data=whole[4:])
