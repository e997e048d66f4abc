"""ListTransactions (API key 66): transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152).

ACL: DESCRIBE on TransactionalId. The pattern of a client that may see no id is not compiled. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.patterns import compile_pattern
from odradek.coordinator.transaction.state import STATE_OF_LABEL, Transaction, TransactionState
from odradek.handlers.access import LIST_TRANSACTION
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.security.resources import Operation

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


_SHOWN_TO = tuple(
    LIST_TRANSACTION._replace(operation=each)
    for each in (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
)
"""Checks of which a client needs only one to see an id."""


def handle(context: RequestContext, request: ListTransactionsRequest, broker: BrokerParts) -> ListTransactionsResponse:
    found = broker.transactions.all()
    unknown = [label for label in request.state_filters if label not in STATE_OF_LABEL]
    states = {STATE_OF_LABEL[label] for label in request.state_filters if label in STATE_OF_LABEL}
    producers = set(request.producer_id_filters)
    matches = None
    if request.transactional_id_pattern and any(context.allows_any(each) for each in _SHOWN_TO):
        try:
            matches = compile_pattern(request.transactional_id_pattern)
        except KafkaError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = context.services.clock.time_ms()

    def wanted(transaction: Transaction) -> bool:
        if transaction.state is TransactionState.DEAD:
            return False
        if producers and transaction.producer_id not in producers:
            return False
        if request.state_filters and transaction.state not in states:
            return False
        if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
            return False
        return matches is None or matches(transaction.transactional_id)

    shown = [transaction for transaction in found if wanted(transaction)]
    denied = context.denied(LIST_TRANSACTION, [transaction.transactional_id for transaction in shown])
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transaction in shown
            if transaction.transactional_id not in denied
        ],
    )
