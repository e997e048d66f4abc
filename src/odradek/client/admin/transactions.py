"""Admin calls for transactions and producers: open transactions, their age, and the end of hanging transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer, one_by_one
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import COORDINATOR_ERRORS, Outcomes, outcome, results
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.terms import by_topic, known, present, word
from odradek.client.admin.types.transactions import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from odradek.client.core.transactions import PreparedTransaction
from odradek.client.network.coordinators import CoordinatorKind
from odradek.client.settings.common_keys import REQUEST_TIMEOUT_MS
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


def describe_producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """Build the request for partitions of one broker."""
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(topics=[topic(name=name, partition_indexes=numbers) for name, numbers in by_topic(partitions).items()])


def described_producers(response: DescribeProducersResponse) -> Outcomes[TopicPartition, list[ProducerState]]:
    """Return the producers, or the error, of every partition."""
    found: Outcomes[TopicPartition, list[ProducerState]] = {}
    for topic in response.topics:
        for part in topic.partitions:
            partition = TopicPartition(topic.name, part.partition_index)
            found[partition] = outcome(part.error_code, part.error_message, f"producers of {partition}") or [
                ProducerState(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    present(each.coordinator_epoch),
                    present(each.current_txn_start_offset),
                )
                for each in part.active_producers
            ]
    return found


def described_transactions(response: DescribeTransactionsResponse, coordinator_id: int) -> Outcomes[str, TransactionDescription]:
    """Return the description, or the error, of every transactional id."""
    return {
        each.transactional_id: outcome(each.error_code, None, f"transactional id {each.transactional_id}")
        or TransactionDescription(
            coordinator_id,
            word(TransactionState, each.transaction_state),
            each.producer_id,
            each.producer_epoch,
            each.transaction_timeout_ms,
            present(each.transaction_start_time_ms),
            frozenset(TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions),
        )
        for each in response.transaction_states
    }


def listed_transactions(response: ListTransactionsResponse) -> list[TransactionListing] | KafkaError:
    """Return the transactions that one broker coordinates, or its error."""
    if response.error_code:
        return KafkaError(code_of(response.error_code), "listing transactions")
    return [
        TransactionListing(each.transactional_id, each.producer_id, word(TransactionState, each.transaction_state))
        for each in response.transaction_states
    ]


def fenced_producer(transactional_id: str, response: InitProducerIdResponse) -> ProducerIdAndEpoch | KafkaError:
    """Return the producer id and epoch that the transactional id now has, or its error."""
    error = outcome(response.error_code, None, f"transactional id {transactional_id}")
    return error or ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


_LAST_END_OF_VERSION_1 = 4
"""Last version of EndTxn for transaction version 1; later versions give the producer its next epoch."""


def end_request(prepared: PreparedTransaction, *, commit: bool) -> tuple[EndTxnRequest, int | None]:
    """Return (the request that ends the transaction for its producer, the last usable version of EndTxn or None for any)."""
    request = EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=commit,
    )
    return request, _LAST_END_OF_VERSION_1 if prepared.transaction_version == 1 else None


def ended(prepared: PreparedTransaction, response: EndTxnResponse) -> KafkaError | None:
    """Return None when the transaction has ended as asked, else the error."""
    return outcome(response.error_code, None, f"transactional id {prepared.transactional_id}")


def abort_request(spec: AbortTransactionSpec) -> WriteTxnMarkersRequest:
    """Build the request for an abort marker in one partition, as the coordinator would send it."""
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(
        name=spec.topic_partition.topic, partition_indexes=[spec.topic_partition.partition]
    )
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=spec.coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def aborted(response: WriteTxnMarkersResponse) -> Outcomes[TopicPartition, None]:
    """Return None or the error of the partition."""
    return {
        (partition := TopicPartition(topic.name, part.partition_index)): outcome(part.error_code, None, f"aborting in {partition}")
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    }


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
