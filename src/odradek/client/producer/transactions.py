"""Transactions of a producer: requests to coordinators, one call of the application at a time. Belongs to the event loop.

An operation goes on when its caller leaves (`client.calls.ongoing`). A caller waits for at most max.block.ms. After that:

- init_transactions, commit_transaction, prepare_transaction and abort_transaction may be called again and join the operation. Any other of
  these calls is refused.
- send_offsets_to_transaction never joins: each call sends its own offsets, one call after the other. A commit waits for offsets that are
  being sent, and fails if one of them fails. An abort gives them up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError, OdradekError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.calls.ongoing import Ongoing, begun, waited
from odradek.client.core.outgoing import checked_offsets
from odradek.client.core.sender import Sender
from odradek.client.core.transactions import (
    IllegalTransactionState,
    PreparedTransaction,
    State,
    TransactionAborted,
    TransactionError,
    Transactions,
    Verdict,
    judge,
    judge_offsets,
    judge_partition,
)
from odradek.client.network.cluster import Cluster, as_kafka_error
from odradek.client.network.coordinators import Coordinator, CoordinatorKind
from odradek.client.settings.producer_keys import MAX_BLOCK_MS, TRANSACTION_TIMEOUT_MS, TRANSACTION_TWO_PHASE_COMMIT_ENABLE
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.protocol.schema import Message

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)

_FEATURE = "transaction.version"
_IMPLICIT_SINCE = 2
_LAST_INIT_VERSION = 5
_TWO_PHASE_INIT_VERSION = 6
_LAST_VERSION_FOR_PRODUCERS = 3
"""Last version of AddPartitionsToTxn for producers; later versions are for brokers."""
_LAST_EXPLICIT_VERSION: dict[type[Message], int] = {EndTxnRequest: 4, TxnOffsetCommitRequest: 4}
"""Last versions that a producer of transaction version 1 may send: later ones mean transaction version 2."""
_SHORT_PAUSE_MS = 20
_NO_EPOCH = -1
_SENDING_OFFSETS = "send_offsets_to_transaction"

Judge = Callable[[ErrorCode], Verdict]
GivenOffsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class TransactionManager:
    """Transactions of one producer; `lock` guards `core` and the sender."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        core: Transactions,
        lock: AbstractContextManager[object],
        flush: Callable[[], Awaitable[None]],
        landed: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the manager: `flush` waits until every record has its outcome, `landed` until no request is under way."""
        config = cluster.config
        self.core = core
        self._cluster = cluster
        self._sender = sender
        self._lock = lock
        self._flush = flush
        self._landed = landed
        self._timeout_ms = config[TRANSACTION_TIMEOUT_MS]
        self._two_phase = config[TRANSACTION_TWO_PHASE_COMMIT_ENABLE]
        self._max_block_ms = config[MAX_BLOCK_MS]
        self._coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, core.transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._call = Ongoing()
        self._sending: set[asyncio.Task[None]] = set()
        """Tasks that send offsets."""
        self._turn = asyncio.Lock()
        """Lock that lets offsets be sent one call after the other."""
        self._adding = asyncio.Lock()
        self._giving_up = False
        """True while an abort waits for the requests that send offsets to stop."""

    # -- calls of the application -------------------------------------------------------------------------------------------------------

    async def initialize(self) -> None:
        """Get a producer id and epoch. The coordinator fences producers with the same transactional.id and ends their transactions."""
        await self._only("init_transactions", self._initialize)

    def begin(self) -> None:
        """Begin a transaction.

        Raises IllegalTransactionState while a call is under way or a transaction is open, else the last transaction's error.
        """
        with self._lock:
            self._check_no_call("begin_transaction")
            self.core.begin(implicit=self._is_implicit())
            self._call.forget()

    async def begin_block(self) -> None:
        """Begin a transaction.

        First wait for the call that the last block left under way, and call `initialize` if the application has not.
        """
        await self._call.settled(self._max_block_ms)
        if self.core.state is State.ABORTABLE:
            logger.warning("the last transaction of %s will be aborted: %s", self.core.transactional_id, self.core.error)
            await self.abort()
        if self.core.state in (State.UNINITIALIZED, State.INITIALIZING):
            await self.initialize()
        self.begin()

    async def send_offsets(self, offsets: GivenOffsets, group: ConsumerGroupMetadata) -> None:
        """Make a group's offsets part of the transaction. Raises TypeError or ValueError for invalid offsets, before any is sent."""
        taken = checked_offsets(offsets)
        if not taken:
            return
        with self._lock:
            self._check_no_call(_SENDING_OFFSETS)
            self.core.take()
        task = begun(self._send_offsets_in_turn(taken, group))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        await waited(_SENDING_OFFSETS, task, self._max_block_ms)
        task.result()

    async def commit(self) -> None:
        """Send all queued records and commit."""
        await self._only("commit_transaction", self._commit)

    async def prepare(self) -> PreparedTransaction | None:
        """Send all queued records and leave the transaction open. Return None when the transaction is empty."""
        await self._only("prepare_transaction", self._prepare)
        if not self.core.started:
            return None
        version = _IMPLICIT_SINCE if self.core.implicit else _IMPLICIT_SINCE - 1
        return PreparedTransaction(self.core.transactional_id, self._sender.producer_id, self._sender.producer_epoch, version)

    async def abort(self) -> None:
        """Drop unsent records and abort. Requests that are sending offsets are given up: the abort waits only for their current attempt."""
        await self._only("abort_transaction", self._abort)

    async def _only(self, name: str, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._check_no_call(name)
        await self._call.run(name, action, self._max_block_ms)

    def _check_no_call(self, name: str) -> None:
        under_way = self._call.name
        if under_way is not None and under_way != name:
            raise IllegalTransactionState(f"{name}: {under_way} did not end in time and must be called again first")

    # -- what they do ---------------------------------------------------------------------------------------------------------------------

    async def _initialize(self) -> None:
        with self._lock:
            if self.core.state is not State.INITIALIZING:
                self.core.initialize()
        await self._new_epoch()
        with self._lock:
            # Remember the version for a transaction that begins while the coordinator's connection is down.
            self.core.implicit = self._is_implicit()
            self.core.end()

    async def _new_epoch(self) -> None:
        """Request the next epoch of the producer id, or a new id and epoch."""

        def request() -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=self.core.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=self._sender.producer_id,
                producer_epoch=self._sender.producer_epoch,
                enable2_pc=self._two_phase,
            )

        if self._two_phase:
            least, most = _TWO_PHASE_INIT_VERSION, _TWO_PHASE_INIT_VERSION
        else:
            least, most = 0, _LAST_INIT_VERSION
        answer = await self._ask(self._coordinator, request, InitProducerIdResponse, _error_code, judge, at_most=most, at_least=least)
        with self._lock:
            self._sender.on_producer_id(answer.producer_id, answer.producer_epoch)

    async def _commit(self) -> None:
        await self._send_the_rest()
        await self._end(committed=True)

    async def _prepare(self) -> None:
        await self._send_the_rest()
        with self._lock:
            self.core.prepare()

    async def _send_the_rest(self) -> None:
        with self._lock:
            self.core.commit()
            self._sender.close_open_batches()
        await self._flush()
        if self._sending:
            await asyncio.wait(self._sending)
        with self._lock:
            if self.core.error is not None:
                raise self.core.error

    async def _abort(self) -> None:
        if self._sending:
            self._giving_up = True
            await asyncio.wait(self._sending)
            self._giving_up = False
        with self._lock:
            self.core.abort()
            self._sender.abort(TransactionAborted("its transaction was aborted"))
        await self._flush()
        # A record that has timed out may still reach the broker. The record must not arrive after the end of its transaction.
        await self._landed()
        async with self._adding:
            pass  # The AddPartitionsToTxn request under way has ended now, with a response or without.
        if self.core.error is None or self.core.error.code is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        core, sender = self.core, self._sender
        if core.started:

            def request() -> EndTxnRequest:
                return EndTxnRequest(
                    transactional_id=core.transactional_id,
                    producer_id=sender.producer_id,
                    producer_epoch=sender.producer_epoch,
                    committed=committed,
                )

            answer = await self._ask(self._coordinator, request, EndTxnResponse, _error_code, judge)
            if core.implicit:
                with self._lock:
                    sender.on_producer_id(answer.producer_id, answer.producer_epoch)
        if core.needs_epoch and not core.implicit:
            await self._new_epoch()
        with self._lock:
            core.end()

    async def _send_offsets_in_turn(self, offsets: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        async with self._turn:
            if not self._is_wanted():
                raise self._end_of_transaction()
            try:
                await self._send_offsets(offsets, group)
            except (TransactionError, TransactionAborted):
                raise
            except Exception as error:
                # The caller may have left and not see the error: a commit without these offsets must not succeed.
                with self._lock:
                    raise self.core.fail(ErrorCode.UNKNOWN_SERVER_ERROR, f"{_SENDING_OFFSETS}: {error}", abortable=True) from error

    async def _send_offsets(self, offsets: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        core = self.core
        if not core.implicit:

            def adding() -> AddOffsetsToTxnRequest:
                return AddOffsetsToTxnRequest(
                    transactional_id=core.transactional_id,
                    producer_id=self._sender.producer_id,
                    producer_epoch=self._sender.producer_epoch,
                    group_id=group.group_id,
                )

            await self._ask(self._coordinator, adding, AddOffsetsToTxnResponse, _error_code, judge_offsets, wanted=self._is_wanted)
            with self._lock:
                core.started = True
        coordinator = self._groups.setdefault(group.group_id, Coordinator(self._cluster, CoordinatorKind.GROUP, group.group_id))

        def committing() -> TxnOffsetCommitRequest:
            return _offsets_request(core.transactional_id, self._sender, group, offsets)

        await self._ask(
            coordinator, committing, TxnOffsetCommitResponse, _worst_offset, judge_offsets, wanted=self._is_wanted, may_be_lost=True
        )

    async def add_partitions(self) -> None:
        """Add the wanted partitions to the transaction at the coordinator. The core keeps the outcome."""
        async with self._adding:
            with self._lock:
                partitions = self.core.wanted
            if partitions:
                await self._add(partitions)

    async def _add(self, partitions: list[TopicPartition]) -> None:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(partition)

        def request() -> AddPartitionsToTxnRequest:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.core.transactional_id,
                v3_and_below_producer_id=self._sender.producer_id,
                v3_and_below_producer_epoch=self._sender.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
                ],
            )

        try:
            await self._ask(
                self._coordinator,
                request,
                AddPartitionsToTxnResponse,
                _worst_partition,
                judge_partition,
                at_most=_LAST_VERSION_FOR_PRODUCERS,
                wanted=self._is_wanted,
            )
        except (TransactionAborted, TransactionError):
            return
        with self._lock:
            self.core.added(partitions)

    # -- asking -----------------------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        coordinator: Coordinator,
        request: Callable[[], Message],
        response: type[R],
        error_code: Callable[[R], int],
        judged: Judge,
        *,
        at_most: int | None = None,
        at_least: int = 0,
        wanted: Callable[[], bool] | None = None,
        may_be_lost: bool = False,
    ) -> R:
        """Send a request, with retries, until the response is a success, and return the response.

        Raises TransactionError, which the core has noted, for an error that ends the transaction. Once `wanted` returns False, raises after
        the next response: the error that the transaction has failed with, else TransactionAborted. A request without a response is sent
        again, as the coordinator may not have received it, unless `may_be_lost`.
        """
        failures = 0
        while True:
            pause_ms = self._cluster.backoff.delay_ms(failures + 1)
            asked = request()
            limit = at_most
            if limit is None and not self.core.implicit:
                limit = _LAST_EXPLICIT_VERSION.get(type(asked))
            try:
                answer = await coordinator.call(asked, response, at_most=limit, at_least=at_least)
                code, message, lost = code_of(error_code(answer)), None, False
            except (ConnectionLost, KafkaError) as failure:
                error = as_kafka_error(failure)
                code, message, lost = error.code, error.message, isinstance(failure, ConnectionLost)
                if at_least and code is ErrorCode.UNSUPPORTED_VERSION:
                    message = f"{message} for transaction.two.phase.commit.enable"
                verdict = Verdict.AGAIN if code.retriable or code is ErrorCode.BROKER_NOT_AVAILABLE else judged(code)
            else:
                verdict = judged(code)
                if verdict is Verdict.DONE:
                    return answer
            self._sender.trouble = f"{type(asked).__name__.removesuffix('Request')}: {message or code.name}"
            if verdict in (Verdict.ABORTABLE, Verdict.FATAL):
                with self._lock:
                    failed = self.core.fail(code, message or self._sender.trouble, abortable=verdict is Verdict.ABORTABLE)
                    self._sender.abort(failed)
                    raise failed
            if verdict is Verdict.MOVED:
                coordinator.forget()
            if wanted is not None and not wanted() and (may_be_lost or not lost):
                raise self._end_of_transaction()
            failures += 1
            await asyncio.sleep((_SHORT_PAUSE_MS if verdict is Verdict.SOON else pause_ms) / 1000)

    def _is_wanted(self) -> bool:
        return self.core.is_sending and not self._giving_up

    def _end_of_transaction(self) -> TransactionError | TransactionAborted:
        """Return why the transaction accepts nothing more: the error that it has failed with, else TransactionAborted."""
        return self.core.error or TransactionAborted("the transaction has ended")

    def _is_implicit(self) -> bool:
        node_id = self._coordinator.node_id
        node = None if node_id is None else self._cluster.open_node(node_id, "coordinator")
        if node is None:
            return self.core.implicit
        return node.versions.features.get(_FEATURE, 0) >= _IMPLICIT_SINCE

    async def abandon(self, *, waiting: bool = False) -> None:
        """Abort an open transaction, if the coordinator allows it. While a call is under way, do nothing unless `waiting` for its end.

        Takes up to twice max.block.ms. Logs errors instead of raising them.
        """
        try:
            if waiting:
                await self._call.settled(self._max_block_ms)
            if self._call.name is None and self.core.state in (State.IN_TRANSACTION, State.ABORTABLE):
                await self.abort()
        except OdradekError as error:
            logger.warning("the open transaction of %s could not be aborted: %s", self.core.transactional_id, error)

    async def close(self) -> None:
        """Cancel all operations and close the connections to coordinators."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)
        await self._call.close()
        await self._coordinator.close()
        for coordinator in self._groups.values():
            await coordinator.close()


def _error_code(answer: InitProducerIdResponse | EndTxnResponse | AddOffsetsToTxnResponse) -> int:
    return answer.error_code


def _worst(codes: Iterable[int], judged: Judge) -> int:
    """Return the most severe error code: fatal, then abortable, then retriable."""
    return max(codes, key=lambda code: judged(code_of(code)).value, default=0)


def _worst_partition(answer: AddPartitionsToTxnResponse) -> int:
    codes = [each.partition_error_code for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition]
    # The code of partitions that were not tried does not say why.
    return _worst([code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes, judge_partition)


def _worst_offset(answer: TxnOffsetCommitResponse) -> int:
    return _worst([each.error_code for topic in answer.topics for each in topic.partitions], judge_offsets)


def _offsets_request(
    transactional_id: str, sender: Sender, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> TxnOffsetCommitRequest:
    topics: defaultdict[str, list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        topics[topic].append(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=_NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=sender.producer_id,
        producer_epoch=sender.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
