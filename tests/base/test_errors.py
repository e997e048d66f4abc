"""Error codes as Kafka numbers them, and which of them a client may try again."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode


@pytest.mark.parametrize(
    ("name", "number"),
    [("UNKNOWN_SERVER_ERROR", -1), ("NONE", 0), ("CORRUPT_MESSAGE", 2), ("REQUEST_TIMED_OUT", 7), ("INVALID_RECORD", 87)],
)
def test_codes_have_kafkas_numbers(name: str, number: int) -> None:
    assert ErrorCode[name] == number


def test_what_passes_may_be_tried_again() -> None:
    """Subclasses of RetriableException, among them those that our own clients meet."""
    for code in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.CORRUPT_MESSAGE,
    ):
        assert code.retriable, code.name
    for code in (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ):
        assert not code.retriable, code.name
