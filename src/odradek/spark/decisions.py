"""State of an exactly-once sink at the broker: the last decided batch and its transactions.

A decision is the committed offset of a group without members. The offset is the number of the batch. Its metadata name query and
transactions as JSON, `{"of": chunks, "q": query, "t": [[transactional id, producer id, epoch, transaction version], ...]}`. Transactional
ids are without the sink's common prefix. `q` is absent if the query is unknown.

A batch is skipped only as a repetition: the same number of the same query. A smaller number, or another query, is a SinkConflict.

Metadata are limited (`offset.metadata.max.bytes`, 4096), so further chunks are committed for further groups, all in one transaction. Pure:
no IO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from odradek.base.errors import OdradekError
from odradek.client.core.transactions import PreparedTransaction

OUTSIDE_OF_QUERIES: Final = "none"
"""`Sink.query` of a batch that is not written by a streaming query."""
_CHUNK_BYTES: Final = 4000
_SLOTS: Final = 4
"""Number of batches with different transactional ids: a late task of an old batch then does not disturb the next batch."""


class BadDecision(OdradekError):
    """Error for a committed offset of the sink's group that the sink did not commit."""


class SinkConflict(OdradekError):
    """Error for a batch that cannot follow the last batch of its sink: its number is smaller, or another query has the same txnAppId."""


class TaskId(NamedTuple):
    """Attempt to write one partition of a batch."""

    run: str
    """First 8 characters of the id of the query's run, or of the job."""
    batch: int
    partition: int
    attempt: int


class Decision(NamedTuple):
    """Decision that all of these transactions are to be committed, and that the batch is never written again."""

    batch: int
    transactions: tuple[PreparedTransaction, ...]
    query: str = ""
    """Query of the batch; see `Sink.query`."""


class Sink(NamedTuple):
    """Names that a sink uses at the broker."""

    app_id: str
    query: str = ""
    """Spark's id of the query, which its checkpoint keeps, or OUTSIDE_OF_QUERIES; empty if unknown."""

    @property
    def owner(self) -> str:
        """Transactional id of the deciding driver, which is also the group of the decision."""
        return f"odradek-spark/{self.app_id}"

    def transactional_id(self, task: TaskId) -> str:
        """Return the transactional id of a task. Ids are reused, a few for each partition: a coordinator remembers each id for a week."""
        return f"{self.owner}/{task.run}/{task.batch % _SLOTS}/{task.partition}.{task.attempt}"

    def is_own(self, transactional_id: str) -> bool:
        """Return whether the id belongs to a task of this sink."""
        return re.fullmatch(re.escape(self.owner) + r"/[^/]+/[0-9]+/[0-9]+\.[0-9]+", transactional_id) is not None

    def group(self, chunk: int) -> str:
        """Return the group that holds a chunk of the decision."""
        return self.owner if chunk == 0 else f"{self.owner}/{chunk}"

    def encode(self, transactions: Iterable[PreparedTransaction]) -> list[str]:
        """Return the metadata of the groups, one text per chunk; at least one."""
        chunks: list[list[str]] = [[]]
        query = f'"q":{json.dumps(self.query)},' if self.query else ""
        size, limit = 0, _CHUNK_BYTES - 30 - len(query)
        for each in transactions:
            text = json.dumps([each.transactional_id.removeprefix(self.owner + "/"), *each[1:]], separators=(",", ":"))
            if chunks[-1] and size + len(text) > limit:
                chunks.append([])
                size = 0
            chunks[-1].append(text)
            size += len(text) + 1
        return [f'{{"of":{len(chunks)},{query}"t":[{",".join(chunk)}]}}' for chunk in chunks]

    def decode(self, batch: int, chunks: Sequence[str]) -> Decision:
        """Return the decision that `encode` has written. Raises BadDecision."""
        found: list[PreparedTransaction] = []
        for chunk in chunks:
            for name, producer_id, epoch, version in self._parsed(chunk)["t"]:
                found.append(PreparedTransaction(f"{self.owner}/{name}", producer_id, epoch, version))
        return Decision(batch, tuple(found), str(self._parsed(chunks[0]).get("q", "")))

    def repeats(self, batch: int, before: Decision | None) -> bool:
        """Return whether the batch was decided already. Raises SinkConflict for a batch that may not follow `before`."""
        if before is None:
            return False
        if self.query and before.query and self.query != before.query:
            raise SinkConflict(
                f"batch {batch} of {self.app_id} is not written: this txnAppId belongs to {_who(before.query)}, whose last batch "
                f"is {before.batch}, and this is {_who(self.query)}. Give each query, and each new checkpoint, a different "
                f"txnAppId; or, if the other query has ended for good, delete the group {self.owner}"
            )
        if batch < before.batch:
            raise SinkConflict(
                f"batch {batch} of {self.app_id} is not written: the last batch is {before.batch}, and batch numbers must "
                "increase. Choose another txnAppId for a query with a new checkpoint or an older copy of it, and for a txnVersion "
                f"that starts again; or delete the group {self.owner}"
            )
        return batch == before.batch

    def chunk_count(self, first: str) -> int:
        """Return the number of chunks, which the first chunk contains. Raises BadDecision."""
        return int(self._parsed(first)["of"])

    def _parsed(self, chunk: str) -> dict[str, Any]:
        try:
            parsed: dict[str, Any] = json.loads(chunk)
            if int(parsed["of"]) < 1 or any(len(each) != 4 for each in parsed["t"]):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise BadDecision(f"group {self.owner} has an offset that was not committed by an exactly-once sink: {chunk[:100]!r}") from None
        return parsed


def _who(query: str) -> str:
    return "a batch outside of queries" if query == OUTSIDE_OF_QUERIES else f"query {query}"


def open_ones(
    sink: Sink, ongoing: Iterable[str], mine: Iterable[PreparedTransaction], before: Decision | None
) -> tuple[list[PreparedTransaction], list[str]]:
    """Return two groups of this sink's open transactions, without `mine`.

    The first are the transactions of the last decision, to be committed. The second are ids of abandoned attempts, to be aborted.
    """
    keep = {each.transactional_id for each in mine}
    decided = {each.transactional_id: each for each in (before.transactions if before is not None else ())}
    own = [each for each in ongoing if sink.is_own(each) and each not in keep]
    return [decided[each] for each in own if each in decided], [each for each in own if each not in decided]
