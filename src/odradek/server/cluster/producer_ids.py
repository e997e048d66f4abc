"""Producer ids for idempotent producers, in blocks from the controller (RPCProducerIdManager, KIP-730).

A block is a record in the metadata log before its use, so no id is assigned twice, even after a crash. The next block is requested when
nine tenths of the current block are used.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.server.cluster.channel import InterBrokerChannel

if TYPE_CHECKING:
    from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
    from odradek.protocol.schema import Message

logger = logging.getLogger(__name__)

PREFETCH_AT = 0.9
_LONGEST_QUEUE = 10_000


class ProducerIdManager:
    """Producer ids of one broker."""

    def __init__(self, channel: InterBrokerChannel, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next: int = 0
        self._end: int = 0  # exclusive
        self._prefetch_at: int = 0
        self._next_block: tuple[int, int] | None = None
        self._asking = False
        self._waiting: deque[Deferred[int]] = deque()

    def next_id(self) -> Deferred[int]:
        """Return an unused id. The Deferred fails with COORDINATOR_LOAD_IN_PROGRESS (clients retry it) when the controller assigns no
        block.
        """
        result: Deferred[int] = Deferred()
        if not self._waiting and self._take(result):
            return result
        if len(self._waiting) >= _LONGEST_QUEUE:
            result.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "too many producers wait for an id"))
            return result
        self._waiting.append(result)
        self._ask()
        return result

    def _take(self, result: Deferred[int]) -> bool:
        if self._next == self._end:
            if self._next_block is None:
                return False
            start, end = self._next_block
            self._next, self._end = start, end
            self._prefetch_at = self._next + int((self._end - self._next) * PREFETCH_AT)
            self._next_block = None
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_at and self._next_block is None:
            self._ask()
        result.complete(producer_id)
        return True

    def _ask(self) -> None:
        if self._asking:
            return
        from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

        self._asking = True
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        self._channel.send(TO_CONTROLLER, request.API_KEY, request, 0).add_callback(self._answered)

    def _answered(self, done: Deferred[Message]) -> None:
        self._asking = False
        problem: object = done.error
        if done.error is None:
            response = cast("AllocateProducerIdsResponse", done.result())
            start, length = response.producer_id_start, response.producer_id_len
            if response.error_code == ErrorCode.NONE and length > 0:
                self._next_block = (start, start + length)
                # `_take` requests the next block before this block is used up; the remaining requests get ids of that block.
                while self._waiting and self._take(self._waiting[0]):
                    self._waiting.popleft()
                return
            problem = code_of(response.error_code).name
        logger.warning("the controller did not allocate a block of producer ids: %s", problem)
        waiting, self._waiting = self._waiting, deque()
        for result in waiting:
            result.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are available yet; retry"))
