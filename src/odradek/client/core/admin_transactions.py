"""Transactions and producers in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.errors import KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.transactions import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import by_topic, present, word
from odradek.client.core.transactions import PreparedTransaction
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from odradek.protocol.messages.describe_transactions import DescribeTransactionsResponse
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdResponse
from odradek.protocol.messages.list_transactions import ListTransactionsResponse
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
