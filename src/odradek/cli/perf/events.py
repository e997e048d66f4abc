"""Events that the verifiable clients print."""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError

_PACKAGE: Final = "org.apache.kafka.common.errors."
NAMES: Final[dict[ErrorCode, str]] = {
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
"""Java classes of producer errors, where the name of the class does not follow from the error (org.apache.kafka.common.protocol.Errors)."""


def print_event(name: str, **fields: object) -> None:
    """Print an event as one line of JSON in Jackson's format, and flush standard output."""
    event = {"timestamp": int(time.time() * 1000), "name": name, **fields}
    sys.stdout.buffer.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n")
    sys.stdout.buffer.flush()


def java_class(error: BaseException) -> str:
    """Return the exception class of Java's client for an error, such as `class org.apache.kafka.common.errors.TimeoutException`."""
    if not isinstance(error, KafkaError):
        return "class org.apache.kafka.common.KafkaException"
    if error.code is ErrorCode.INVALID_RECORD:
        return "class org.apache.kafka.common.InvalidRecordException"
    name = NAMES.get(error.code) or "".join(word.capitalize() for word in error.code.name.split("_")) + "Exception"
    return f"class {_PACKAGE}{name}"
