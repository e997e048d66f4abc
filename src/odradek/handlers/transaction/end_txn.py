"""EndTxn (API key 26): commits or aborts a producer's transaction (KIP-98, KIP-890).

From version 5 on each transaction bumps the producer epoch; the response has the new one.
ACL: WRITE on TransactionalId. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.access import END_TRANSACTION
from odradek.handlers.transaction.errors import code_for
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

_FENCED_SINCE = 2
_BUMPING_SINCE = 5


def handle(context: RequestContext, request: EndTxnRequest, broker: BrokerParts) -> Deferred[EndTxnResponse]:
    context.require(END_TRANSACTION, request.transactional_id)
    ended = broker.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        client_version=2 if context.api_version >= _BUMPING_SINCE else 0,
    )
    return ended.then(
        lambda producer: EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1]),
        lambda error: EndTxnResponse(error_code=code_for(error, context.api_version, _FENCED_SINCE)),
    )
