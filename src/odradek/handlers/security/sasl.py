"""SaslHandshake (17) and SaslAuthenticate (36): authentication of a connection (KIP-43, KIP-152).

On SASL listeners these requests come before all others, and `server.security.authentication` answers them. Requests that reach these
handlers are misplaced: they come on another listener, or from a client whose authentication does not expire. The response is
ILLEGAL_SASL_STATE, without mechanisms (kafka.server.KafkaApis).

ACL: none; these requests come before authorization. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import Parts


def handshake(context: RequestContext, request: SaslHandshakeRequest, parts: Parts) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest, parts: Parts) -> SaslAuthenticateResponse:
    message = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
