"""Errors of the network client, and the error codes of failed requests."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.network.transport import ConnectionLost, RequestTimedOut


class ClientClosed(OdradekError):
    """Use of a closed client."""


class WakeupError(OdradekError):
    """End of a poll by `wakeup` (org.apache.kafka.common.errors.WakeupException); the consumer can go on."""


class NoBrokersAvailable(KafkaError):
    """Failure to reach any known broker."""

    def __init__(self, reasons: list[str]) -> None:
        tried = "; ".join(dict.fromkeys(reasons))
        super().__init__(
            ErrorCode.BROKER_NOT_AVAILABLE, f"no broker can be reached ({tried}); is one running, and is bootstrap.servers right?"
        )


class AuthenticationFailed(KafkaError):
    """Failed authentication of the client or of the broker. Final: another attempt would fail in the same way.

    For SASL the code is SASL_AUTHENTICATION_FAILED or another code of Kafka's. A TLS failure has no code (UNKNOWN_SERVER_ERROR), as Java's
    SslAuthenticationException.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, message)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.args = (message,)


def as_kafka_error(error: BaseException) -> KafkaError:
    """Return the KafkaError that stands for a lost connection or another failure of a request."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, RequestTimedOut):
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    if isinstance(error, ConnectionLost):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
    if isinstance(error, ClientClosed):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
