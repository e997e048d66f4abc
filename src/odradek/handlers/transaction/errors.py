"""Error codes of transactions as clients of different ages know them."""

from __future__ import annotations

import logging

from odradek.base.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


def code_for(error: BaseException, version: int, fenced_since: int) -> ErrorCode:
    """The code of a failure. Before version `fenced_since` of the API there was no PRODUCER_FENCED: those clients take
    INVALID_PRODUCER_EPOCH for the same.
    """
    if not isinstance(error, KafkaError):
        logger.error("a request of a transaction failed", exc_info=error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
