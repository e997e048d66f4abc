"""Errors of the network client, and how failures of requests become error codes."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.network.transport import ConnectionLost, RequestTimedOut


class ClientClosed(OdradekError):
    """The client was closed."""


class WakeupError(OdradekError):
    """`wakeup` has ended a poll (org.apache.kafka.common.errors.WakeupException); the consumer can go on."""


class NoBrokersAvailable(KafkaError):
    """None of the known brokers could be reached."""

    def __init__(self, reasons: list[str]) -> None:
        tried = "; ".join(dict.fromkeys(reasons))
        super().__init__(
            ErrorCode.BROKER_NOT_AVAILABLE, f"no broker can be reached ({tried}); is one running, and is bootstrap.servers right?"
        )


class AuthenticationFailed(KafkaError):
    """A broker does not accept who we are, or we do not accept who it is. Final: trying again would fail the same way.

    For SASL the code is SASL_AUTHENTICATION_FAILED or another of Kafka's; what fails in TLS has none of its own (UNKNOWN_SERVER_ERROR), as
    Java's SslAuthenticationException.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, message)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.args = (message,)


def as_kafka_error(error: BaseException) -> KafkaError:
    """A lost connection or other failure of a request as the error code it stands for."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, RequestTimedOut):
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    if isinstance(error, ConnectionLost):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
    if isinstance(error, ClientClosed):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
