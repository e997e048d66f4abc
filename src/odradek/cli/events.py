"""What the verifiable clients tell, and how they are told to stop."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError

_PACKAGE: Final = "org.apache.kafka.common.errors."
_NAMES: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
}
"""Classes of what a producer may meet whose names are not those of their errors (org.apache.kafka.common.protocol.Errors)."""


def tell(name: str, **fields: object) -> None:
    """Prints an event at once, in one line, as Jackson writes it."""
    event = {"timestamp": int(time.time() * 1000), "name": name, **fields}
    sys.stdout.buffer.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n")
    sys.stdout.buffer.flush()


def java_class(error: BaseException) -> str:
    """What Java's client would raise for an error, as Java writes it: `class org.apache.kafka.common.errors.TimeoutException`."""
    if not isinstance(error, KafkaError):
        return "class org.apache.kafka.common.KafkaException"
    if error.code is ErrorCode.INVALID_RECORD:
        return "class org.apache.kafka.common.InvalidRecordException"
    name = _NAMES.get(error.code) or "".join(word.capitalize() for word in error.code.name.split("_")) + "Exception"
    return f"class {_PACKAGE}{name}"


class Stop(BaseException):
    """Raised in the main thread where it waits, when a signal asks to stop."""


class Stopping:
    """Whether SIGTERM or SIGINT has come; a second one ends the process at once."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake()` is called within the signal handler."""
        self.signal = 0
        self._wake = wake
        self._interruptible = False

    @property
    def status(self) -> int:
        """The exit status: as a shell tells of a process that a signal ended."""
        return 128 + self.signal if self.signal else 0

    @contextmanager
    def interruptible(self) -> Generator[None]:
        """Within it the signal raises Stop, also one that came before."""
        self._interruptible = True
        try:
            if self.signal:
                raise Stop
            yield
        finally:
            self._interruptible = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """The signal handler."""
        self.signal = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        self._wake()
        if self._interruptible:
            raise Stop


@contextmanager
def stoppable(wake: Callable[[], None] = lambda: None) -> Generator[Stopping]:
    """Takes SIGTERM and SIGINT for the time of the block."""
    stopping = Stopping(wake)
    before = {each: signal.signal(each, stopping.handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
