"""Options shared by all logs of a broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.storage.log import Log

PRODUCER_EXPIRATION_MS = 86_400_000


class LogOptions:
    """Settings of producers, and callbacks for events of a log."""

    __slots__ = (
        "jitter",
        "new_lock",
        "on_io_error",
        "on_roll",
        "on_truncated",
        "producer_expiration_ms",
        "verify_transactions",
        "write_checkpoints",
    )

    def __init__(
        self,
        *,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        verify_transactions: bool = True,
        jitter: Callable[[int], int] = lambda limit: 0,
        on_io_error: Callable[[Log, OSError], None] | None = None,
        on_roll: Callable[[Log], None] | None = None,
        on_truncated: Callable[[Log], None] | None = None,
        write_checkpoints: Callable[[Log], None] | None = None,
        new_lock: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`jitter(limit)` returns 0 <= n < limit for segment.jitter.ms; `new_lock` makes a lock (threading.Lock) where flushes run in other
        threads.

        `write_checkpoints(log)` writes the checkpoints of the log's directory with the log's current offsets, durably and at once.
        """
        self.new_lock = new_lock
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions
        self.jitter = jitter
        self.on_io_error = on_io_error
        self.on_roll = on_roll
        self.on_truncated = on_truncated
        self.write_checkpoints = write_checkpoints
