"""Admin calls for transactions and producers: open transactions, their age, and the end of hanging transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer, one_by_one
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.types.transactions import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from odradek.client.core.admin_items import COORDINATOR_ERRORS, Outcomes, results
from odradek.client.core.admin_terms import known
from odradek.client.core.admin_transactions import (
    abort_request,
    aborted,
    describe_producers_request,
    described_producers,
    described_transactions,
    end_request,
    ended,
    fenced_producer,
    listed_transactions,
)
from odradek.client.core.transactions import PreparedTransaction
from odradek.client.network.coordinators import CoordinatorKind
from odradek.client.settings.common_keys import REQUEST_TIMEOUT_MS
from odradek.protocol.messages.describe_producers import DescribeProducersResponse
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersResponse

_OF_ENDING = COORDINATOR_ERRORS | {ErrorCode.CONCURRENT_TRANSACTIONS}


class TransactionCalls(AdminBase):
    """Part of `AsyncAdmin` for transactions."""

    async def try_describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Outcomes[TopicPartition, list[ProducerState]]:
        """Return the producers that wrote to partitions, as the leaders know them, or the replicas on the broker `broker_id`."""

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, list[ProducerState]]:
            return described_producers(await peer.call(describe_producers_request(asked), DescribeProducersResponse))

        if broker_id is not None:
            return await self._at_brokers(partitions, ask, broker_of=lambda _: broker_id)
        return await self._at_leaders(partitions, ask, partition_of=lambda each: each)

    describe_producers = raising(try_describe_producers)

    async def try_describe_transactions(self, transactional_ids: Iterable[str]) -> Outcomes[str, TransactionDescription]:
        """Return state, producer and partitions of transactional ids. Error of a missing id: TRANSACTIONAL_ID_NOT_FOUND."""

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, TransactionDescription]:
            request = DescribeTransactionsRequest(transactional_ids=list(ids))
            return described_transactions(await peer.call(request, DescribeTransactionsResponse), peer.node_id)

        return await self._at_coordinators(CoordinatorKind.TRANSACTION, transactional_ids, ask, name=_transactional_id)

    describe_transactions = raising(try_describe_transactions)

    async def try_list_transactions(
        self,
        *,
        states: Iterable[TransactionState | str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> Outcomes[int, list[TransactionListing]]:
        """Return the transactional ids that each broker coordinates, by broker id.

        Filters: states; producer ids; transactions open for longer than `duration_ms` milliseconds (KIP-994); a pattern that the whole id
        matches (RE2/J, KIP-1152). A filter that is left out matches all. Raises ValueError for an unknown state.
        """
        request = ListTransactionsRequest(
            state_filters=[known(TransactionState, each) for each in states],
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=transactional_id_pattern,
        )

        async def ask(peer: Peer, brokers: Sequence[int]) -> Outcomes[int, list[TransactionListing]]:
            listed = listed_transactions(await peer.call(request, ListTransactionsResponse))
            return dict.fromkeys(brokers, listed)

        return await self._at_brokers(
            await self._all_brokers(), ask, broker_of=int, retried=COORDINATOR_ERRORS, name=lambda each: f"broker {each}"
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState | str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of the cluster, sorted, with filters as in `try_list_transactions`.

        Raises the KafkaError of the first broker that failed; `try_list_transactions` returns the ids of the others. Raises ValueError for
        an unknown state.
        """
        found = results(
            await self.try_list_transactions(
                states=states, producer_ids=producer_ids, duration_ms=duration_ms, transactional_id_pattern=transactional_id_pattern
            )
        )
        return sorted(each for listed in found.values() for each in listed)

    async def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Write an abort marker to a partition with a hanging transaction that the coordinator does not know.

        Raises KafkaError(INVALID_PRODUCER_EPOCH) or KafkaError(TRANSACTION_COORDINATOR_FENCED) when the partition knows a newer epoch.
        """

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            return aborted(await peer.call(abort_request(spec), WriteTxnMarkersResponse))

        results(await self._at_leaders([spec.topic_partition], ask, partition_of=lambda each: each))

    async def try_fence_producers(self, transactional_ids: Iterable[str]) -> Outcomes[str, ProducerIdAndEpoch]:
        """Fence the producers that use these transactional ids, and abort their open transactions."""
        # This is the timeout of the next transaction, which no producer will begin with the new epoch.
        timeout_ms = self._config[REQUEST_TIMEOUT_MS]

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ProducerIdAndEpoch]:
            async def one(transactional_id: str) -> ProducerIdAndEpoch | KafkaError:
                request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
                return fenced_producer(transactional_id, await peer.call(request, InitProducerIdResponse))

            return await one_by_one(ids, one)

        return await self._at_coordinators(CoordinatorKind.TRANSACTION, transactional_ids, ask, retried=_OF_ENDING, name=_transactional_id)

    fence_producers = raising(try_fence_producers)

    async def try_end_transactions(self, prepared: Iterable[PreparedTransaction], *, commit: bool) -> Outcomes[PreparedTransaction, None]:
        """Commit or abort transactions that `Producer.prepare_transaction` has left open. A repetition with the same `commit` is allowed.

        Errors of a transaction that was ended otherwise: INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED,
        INVALID_PRODUCER_ID_MAPPING. The coordinator may have ended it after its timeout, or another producer may have taken the
        transactional id.
        """

        async def ask(peer: Peer, asked: Sequence[PreparedTransaction]) -> Outcomes[PreparedTransaction, None]:
            async def one(each: PreparedTransaction) -> KafkaError | None:
                request, at_most = end_request(each, commit=commit)
                return ended(each, await peer.call(request, EndTxnResponse, at_most=at_most))

            return await one_by_one(asked, one)

        return await self._at_coordinators(
            CoordinatorKind.TRANSACTION, prepared, ask, id_of=_id_of, retried=_OF_ENDING, name=lambda each: _transactional_id(_id_of(each))
        )

    end_transactions = raising_only(try_end_transactions)

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the transaction of a transactional id, even one that is prepared for two-phase commit (KIP-939)."""
        results(await self.try_fence_producers([transactional_id]))


def _id_of(prepared: PreparedTransaction) -> str:
    return prepared.transactional_id


def _transactional_id(text: str) -> str:
    return f"transactional id {text}"
