"""Error codes of transactions by client version."""

from __future__ import annotations

import logging

from odradek.base.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


def code_for(error: BaseException, version: int, fenced_since: int) -> ErrorCode:
    """Return the error code of a failure for a client version.

    API versions before `fenced_since` have no PRODUCER_FENCED: their clients understand INVALID_PRODUCER_EPOCH in its place.
    """
    if not isinstance(error, KafkaError):
        logger.error("a request of a transaction failed", exc_info=error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
