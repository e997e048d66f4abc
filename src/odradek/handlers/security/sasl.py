"""SaslHandshake (17) and SaslAuthenticate (36): authentication of a connection (KIP-43, KIP-152).

They are spoken on SASL listeners before anything else, and answered by `server.authentication`. What comes here is out of turn: on another
listener, or from somebody who has logged in for good. ILLEGAL_SASL_STATE, and no mechanism is named (kafka.server.KafkaApis).

ACL: none; they come before authorization. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


def handshake(context: RequestContext, request: SaslHandshakeRequest, services: Services) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest, services: Services) -> SaslAuthenticateResponse:
    message = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
