"""Incremental fetch sessions as both sides number them, and the state of the requesting side.

Source: KIP-227, org.apache.kafka.common.requests.FetchMetadata, org.apache.kafka.clients.FetchSessionHandler.

1. The first request is full: it names all partitions, with session epoch 0, and asks for a session.
2. When the broker grants a session, each further request names the changes since the last: partitions to be read at another offset, new
   partitions, and partitions to be removed. Its epoch is one higher each time. The cost of a request follows the changes, not the
   partitions read.
3. After a session error (the broker evicted the session, restarted, or expects another epoch) and after a lost request the next request is
   full again. It names the old session where that may still exist, so that the broker closes it.
4. A broker that grants no session (its cache is full) gets full requests.
5. Epoch -1 closes the session.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TypeVar

from odradek.base.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_INT32 = 0x7FFF_FFFF

K = TypeVar("K")


def next_epoch(epoch: int) -> int:
    """Return the epoch that a session expects after `epoch`; wraps to 1, because 0 opens a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_INT32 else epoch + 1


class AskerSession:
    """Session as the requesting side knows it; one request at a time."""

    __slots__ = ("_denied", "_session_epoch", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._denied = False
        """True if the broker had no space for a session at the last request."""

    @property
    def is_full(self) -> bool:
        """Return whether the next request names all partitions."""
        return self._session_epoch == INITIAL_EPOCH

    def refused(self, error: ErrorCode) -> None:
        """Note that the whole request was answered with an error."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH

    def granted(self, session_id: int, answered: AbstractSet[K], members: AbstractSet[K]) -> bool:
        """Process a response about the partitions `answered`, when the session has `members`.

        Returns False when the response is about other partitions than requested: its content must then be ignored.
        """
        if answered != members if self.is_full else not answered <= members:
            if self.is_full:
                self._session_id = NO_SESSION
            self._session_epoch = INITIAL_EPOCH
            return False
        self._session_id = session_id
        self._denied = session_id == NO_SESSION
        self._session_epoch = INITIAL_EPOCH if session_id == NO_SESSION else next_epoch(self._session_epoch)
        return True

    def lost(self) -> None:
        """Note that no response came, so that the broker may or may not have seen the request."""
        self._session_epoch = INITIAL_EPOCH
