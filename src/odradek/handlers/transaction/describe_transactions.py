"""DescribeTransactions (API key 65): state of transactional ids that this broker coordinates (KIP-664).

ACL: DESCRIBE on TransactionalId and on each Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError
from odradek.base.repeats import answered
from odradek.handlers.access import DESCRIBE_TRANSACTION, DESCRIBE_TRANSACTION_TOPIC
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from odradek.coordinator.transaction.state import Transaction
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts

State = DescribeTransactionsResponse.TransactionState


def handle(context: RequestContext, request: DescribeTransactionsRequest, broker: BrokerParts) -> Entries[DescribeTransactionsResponse]:
    for transactional_id in answered(request.transactional_ids):
        try:
            context.require(DESCRIBE_TRANSACTION, transactional_id)
            state = _state(broker.transactions.describe(transactional_id))
            denied = context.denied(DESCRIBE_TRANSACTION_TOPIC, [topic.topic for topic in state.topics])
            state.topics = [topic for topic in state.topics if topic.topic not in denied]
        except KafkaError as error:
            state = State(error_code=error.code, transactional_id=transactional_id)
        yield state
    return DescribeTransactionsResponse()


def _state(transaction: Transaction) -> State:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return State(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[DescribeTransactionsResponse.TopicData(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )


def error_response(request: DescribeTransactionsRequest, error: KafkaError) -> DescribeTransactionsResponse:
    """Return a response with the error for each transactional id."""
    return DescribeTransactionsResponse(
        transaction_states=[State(error_code=error.code, transactional_id=name) for name in request.transactional_ids]
    )
