"""Records handed out: the definition that position, commit, seek, pause, rebalances and every way of reading share.

1. The loop puts one chunk at a time here, and decodes it. The chunk's records are *at hand*.
2. A record counts as handed out when the application has it: poll() returns it, or `for record in consumer` reaches it. A chunk or an Arrow
   batch counts when next_chunk() or next_batch() returns it. Handing out is the last step of the call, in the application's thread or task.
   A call that is interrupted or cancelled before that step has handed out nothing.
3. Records at hand are not handed out. The position of their partition is the first record at hand; without one, the end of the chunk that
   was handed out last. seek(), pause(), a revocation or a new leader take back the records at hand, which are fetched again where needed.

An interrupt may come between any two instructions, even between the step that hands out and the return to the caller. Therefore a call that
hands out in a thread of the application first takes a `mark`, and goes `back_to` the mark after an exception.

Threads: the application draws the records from one list iterator, and the loop takes them back from the same iterator. Each draw is one
call of C code, so that every record goes to one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.core.fetcher import epoch_before
from odradek.client.core.positions import Chunk
from odradek.client.core.validation import Unread
from odradek.client.types import ConsumerRecord


class Mark(NamedTuple):
    """State of a HandOut: `left` records of `records` are at hand."""

    changes: int
    chunk: Chunk | None
    records: list[ConsumerRecord] | None
    left: int


class HandOut:
    """Chunk at hand of one consumer, and its records once they are decoded."""

    __slots__ = ("_changes", "_cursor", "_records", "chunk")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        """Last chunk that was put here, until it is handed out completely."""
        self._records: list[ConsumerRecord] | None = None
        self._cursor: Iterator[ConsumerRecord] = iter(())
        self._changes = 0
        """Number of times that the loop has put something at hand or taken something back."""

    def put(self, chunk: Chunk) -> None:
        """Put a chunk at hand, undecoded. Call this only while nothing is at hand."""
        self.chunk, self._records = chunk, None
        self._changes += 1

    def decoded(self, records: list[ConsumerRecord]) -> None:
        """Set the records of the chunk at hand."""
        self._records, self._cursor = records, iter(records)
        self._changes += 1

    def mark(self) -> Mark:
        """Return the state for `back_to`."""
        return Mark(self._changes, self.chunk, self._records, length_hint(self._cursor))

    def back_to(self, mark: Mark) -> None:
        """Take back the records handed out since the mark.

        Does nothing if the loop has put something at hand or taken something back in the meantime.
        """
        if mark.changes == self._changes:
            self.chunk, self._records = mark.chunk, mark.records
            self._cursor = iter(() if mark.records is None else mark.records[len(mark.records) - mark.left :])

    @property
    def is_decoded(self) -> bool:
        """Return whether the chunk at hand has been decoded."""
        return self._records is not None

    @property
    def has_records(self) -> bool:
        """Return whether a decoded record is at hand."""
        return self._records is not None and bool(length_hint(self._cursor))

    @property
    def is_empty(self) -> bool:
        """Return whether neither a record nor an undecoded chunk is at hand."""
        return self.chunk is None or (self._records is not None and not length_hint(self._cursor))

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first record of `partition` at hand, None without one."""
        chunk, records = self.chunk, self._records
        if chunk is None or chunk.topic_partition != partition:
            return None
        if records is None:
            return chunk.offset
        left = length_hint(self._cursor)
        return records[len(records) - left].offset if left else None

    def unread(self, partition: TopicPartition) -> Unread | None:
        """Return where the records of `partition` at hand begin, None without any."""
        offset, chunk = self.next_offset(partition), self.chunk
        return None if offset is None or chunk is None else Unread(offset, epoch_before(chunk, offset))

    def take(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None = None) -> list[ConsumerRecord]:
        """Hand out up to `limit` records; an empty list when none is at hand.

        `through` (interceptors) gets the records first and returns the records to hand out. An exception of `through`, or a Ctrl-C before
        the call returns, leaves the records at hand.
        """
        mark = self.mark()
        try:
            taken = list(islice(self._cursor, limit))
            return taken if through is None or not taken else through(taken)
        except BaseException:
            self.back_to(mark)
            raise

    def draw(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None = None) -> Iterator[ConsumerRecord]:
        """Return an iterator that hands out up to `limit` records, each when it is drawn; `through` gets them one by one."""
        return islice(self._cursor, limit) if through is None else self._draw_through(limit, through)

    def _draw_through(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]]) -> Iterator[ConsumerRecord]:
        for _ in range(limit):
            if self.is_empty:
                return
            yield from self.take(1, through)

    def take_chunk(self) -> Chunk | None:
        """Hand out the rest of the current chunk as a whole; None without a chunk."""
        chunk = self.rest()
        self._let_go()
        return chunk

    def finish(self, chunk: Chunk) -> bool:
        """Hand out the rest of the chunk in another form; return False if the chunk was taken back."""
        if self.chunk is not chunk:
            return False
        self._let_go()
        return True

    def rest(self) -> Chunk | None:
        """Return the part of the chunk at hand that is not handed out, None without one."""
        chunk = self.chunk
        if chunk is None or self._records is None:
            return chunk
        unread = self.unread(chunk.topic_partition)
        return None if unread is None else chunk._replace(offset=unread.offset, previous_epoch=unread.previous_epoch)

    def take_back(self, partition: TopicPartition) -> Unread | None:
        """Take the records of `partition` at hand away from the application; return where they began, None without any.

        Draws all records, so that an iteration under way in another thread comes to its end.
        """
        chunk = self.chunk
        if chunk is None or chunk.topic_partition != partition:
            return None
        if self._records is None:
            offset = chunk.offset
        else:
            drawn = list(self._cursor)
            if not drawn:
                return None
            offset = drawn[0].offset
        self.clear()
        return Unread(offset, epoch_before(chunk, offset))

    def abandon(self) -> None:
        """Hand out nothing any more, not even to iterations under way: in a forked child, because the parent hands out the records."""
        if self.chunk is not None:
            self.take_back(self.chunk.topic_partition)

    def clear(self) -> None:
        """Skip the rest of the chunk, which has nothing to hand out."""
        self._changes += 1
        self._let_go()

    def _let_go(self) -> None:
        self.chunk, self._records, self._cursor = None, None, iter(())
