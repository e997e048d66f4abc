"""Exactly-once writes of batches: each task writes in its own transaction, and the driver commits all transactions or none.

1. A task sends its rows in a transaction and leaves it open (prepared). An attempt that fails aborts its transaction.
2. The driver initializes the sink's transactional id (`Sink.owner`). The coordinator then fences earlier drivers of the sink.
3. The driver reads the last decision. If the decision is of this batch, an earlier driver ended before Spark recorded the commit: the new
   transactions are aborted and the decided ones committed. If this batch cannot follow (`Sink.repeats`), the new transactions are aborted
   and SinkConflict is raised.
4. The driver aborts transactions of abandoned attempts, and checks that all transactions of this batch are still open.
5. The driver writes the decision (`decisions`), in a transaction of `Sink.owner`. From then on the batch counts as written.
6. The driver commits the transactions of the tasks. The next driver can repeat this step: it finds the transactions in the decision.

Between 5 and 6 the tasks' transactions must not time out. A driver that returns after `transaction.timeout.ms` finds some of them aborted,
and raises HalfWritten. If the broker allows two-phase commit (`kafka.transaction.two.phase.commit.enable`, KIP-939), these transactions do
not time out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.admin.types.transactions import TransactionState
from odradek.client.core.transactions import PreparedTransaction
from odradek.client.producer.aio import AsyncProducer
from odradek.client.settings.config import Setting, settings_of_admin
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.spark.decisions import Decision, Sink, SinkConflict, open_ones

logger = logging.getLogger(__name__)

_TRANSACTION_TIMEOUT_MS = 900_000
"""transaction.timeout.ms unless the user sets it: the maximum that a broker allows by default (transaction.max.timeout.ms)."""


class HalfWritten(OdradekError):
    """Error for a decided batch of which some transactions were aborted before they could be committed."""


class PreparedRows(NamedTuple):
    """Rows of one task in an open transaction."""

    topic: str
    """A topic to which the task has written. The offset of the decision names one of its partitions."""
    transaction: PreparedTransaction


def transactional_settings(settings: Mapping[str, Setting], transactional_id: str) -> dict[str, Setting]:
    """Return the settings of a task's producer."""
    made: dict[str, Setting] = {**settings, "transactional.id": transactional_id}
    if str(made.get("transaction.two.phase.commit.enable", "false")).lower() != "true":
        made.setdefault("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
    return made


def commit(settings: Mapping[str, Setting], sink: Sink, batch: int, prepared: Sequence[PreparedRows]) -> None:
    """Commit the batch. When this function returns, the batch is written exactly once, after any number of attempts.

    An error before the decision means that no row of these attempts is written. After a later error the next driver completes the batch.
    Raises KafkaError, HalfWritten, SinkConflict.
    """
    _run(_commit(settings, sink, batch, prepared) if prepared else _complete_decided(settings, sink, batch))


def abort(settings: Mapping[str, Setting], sink: Sink, batch: int, prepared: Sequence[PreparedRows]) -> None:
    """Abort the transactions of these attempts, unless the batch is decided: then complete it. Raises KafkaError, HalfWritten."""
    if prepared:
        _run(_abort(settings, sink, batch, prepared))


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(work)


async def _commit(settings: Mapping[str, Setting], sink: Sink, batch: int, prepared: Sequence[PreparedRows]) -> None:
    mine = [each.transaction for each in prepared]
    async with _admin(settings) as admin, _owner(settings, sink) as owner:
        await owner.init_transactions()
        before = await _last_decision(admin, sink)
        try:
            is_repeated = sink.repeats(batch, before)
        except SinkConflict:
            await _give_up(admin, mine)
            raise
        if before is not None and is_repeated:
            await _give_up(admin, mine)
            logger.warning("Batch %d of %s has already been written; it is not written again", batch, sink.app_id)
            await _complete(admin, sink, before)
            return
        ongoing = [each.transactional_id for each in await admin.list_transactions(states=[TransactionState.ONGOING])]
        late, strays = open_ones(sink, ongoing, mine, before)
        await admin.end_transactions(late, commit=True)
        await admin.fence_producers(strays)
        await _check_open(admin, sink, batch, mine)
        partition = TopicPartition(min(each.topic for each in prepared), 0)
        owner.begin_transaction()
        for number, chunk in enumerate(sink.encode(mine)):
            offset = OffsetAndMetadata(batch, metadata=chunk)
            await owner.send_offsets_to_transaction({partition: offset}, ConsumerGroupMetadata(sink.group(number)))
        await owner.commit_transaction()
        await _complete(admin, sink, Decision(batch, tuple(mine)))


async def _complete_decided(settings: Mapping[str, Setting], sink: Sink, batch: int) -> None:
    """Complete a batch without rows, if an earlier driver has decided it with rows."""
    async with _admin(settings) as admin:
        decided = await _last_decision(admin, sink)
        if decided is not None and _is_of(decided, sink, batch):
            await _complete(admin, sink, decided)


async def _abort(settings: Mapping[str, Setting], sink: Sink, batch: int, prepared: Sequence[PreparedRows]) -> None:
    async with _admin(settings) as admin, _owner(settings, sink) as owner:
        await owner.init_transactions()  # From here on a decision with unknown outcome is made or not made, and no longer changes.
        decided = await _last_decision(admin, sink)
        left: set[str] = set()
        if decided is not None and _is_of(decided, sink, batch):
            await _complete(admin, sink, decided)
            left = {each.transactional_id for each in decided.transactions}
        await _give_up(admin, [each.transaction for each in prepared if each.transaction.transactional_id not in left])


def _is_of(decided: Decision, sink: Sink, batch: int) -> bool:
    try:
        return sink.repeats(batch, decided)
    except SinkConflict:
        return False


async def _last_decision(admin: AsyncAdmin, sink: Sink) -> Decision | None:
    first = await _offsets(admin, sink.group(0))
    if not first:
        return None
    partition, offset = max(first.items(), key=lambda item: item[1].offset)
    chunks = [offset.metadata]
    for number in range(1, sink.chunk_count(offset.metadata)):
        more = (await _offsets(admin, sink.group(number))).get(partition)
        if more is None or more.offset != offset.offset:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {sink.group(number)} has lost its part of batch {offset.offset}")
        chunks.append(more.metadata)
    return sink.decode(offset.offset, chunks)


async def _offsets(admin: AsyncAdmin, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    found = (await admin.list_consumer_group_offsets([group], require_stable=True))[group]
    return {partition: offset for partition, offset in found.items() if offset is not None}


async def _check_open(admin: AsyncAdmin, sink: Sink, batch: int, mine: Iterable[PreparedTransaction]) -> None:
    wanted = {each.transactional_id: each for each in mine}
    for transactional_id, found in (await admin.describe_transactions(wanted)).items():
        own = wanted[transactional_id]
        if (found.state, found.producer_id, found.producer_epoch) != (TransactionState.ONGOING, own.producer_id, own.producer_epoch):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"nothing of batch {batch} of {sink.app_id} is written: the transaction of a task ended before the last task did "
                f"({transactional_id}: {found.state}); kafka.transaction.timeout.ms must be longer than the duration of a batch",
            )


async def _complete(admin: AsyncAdmin, sink: Sink, decision: Decision) -> None:
    outcomes = await admin.try_end_transactions(decision.transactions, commit=True)
    lost = {each.transactional_id: error for each, error in outcomes.items() if isinstance(error, KafkaError) and not error.retriable}
    if lost:
        name, error = next(iter(lost.items()))
        raise HalfWritten(
            f"batch {decision.batch} of {sink.app_id} was decided, but {len(lost)} of its {len(decision.transactions)} "
            f"transactions were aborted before their commit, such as {name} ({error}): their rows are missing. The driver was away "
            "for longer than kafka.transaction.timeout.ms; with another txnAppId the whole batch is written again"
        )
    for outcome in outcomes.values():
        if isinstance(outcome, KafkaError):
            raise outcome


async def _give_up(admin: AsyncAdmin, mine: Iterable[PreparedTransaction]) -> None:
    """Abort the transactions. A transaction that has ended, or whose id another producer has taken, is ignored."""
    for error in (await admin.try_end_transactions(mine, commit=False)).values():
        if isinstance(error, KafkaError) and error.retriable:
            raise error


def _admin(settings: Mapping[str, Setting]) -> AsyncAdmin:
    return AsyncAdmin(settings_of_admin(settings))


def _owner(settings: Mapping[str, Setting], sink: Sink) -> AsyncProducer:
    kept = {name: value for name, value in settings.items() if not name.startswith("transaction.")}
    return AsyncProducer(kept | {"transactional.id": sink.owner})
