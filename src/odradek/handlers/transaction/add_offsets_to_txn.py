"""AddOffsetsToTxn (API key 25): adds the partition with a group's offsets to a producer's transaction (KIP-98).

ACL: WRITE on TransactionalId, READ on Group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.access import ADD_OFFSETS_GROUP, ADD_OFFSETS_TRANSACTION
from odradek.handlers.transaction.errors import code_for
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

_FENCED_SINCE = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest, broker: BrokerParts) -> Deferred[AddOffsetsToTxnResponse]:
    context.require(ADD_OFFSETS_TRANSACTION, request.transactional_id)
    context.require(ADD_OFFSETS_GROUP, request.group_id)
    partition = broker.groups.partition_for(request.group_id)
    added = broker.transactions.add_partitions(request.transactional_id, request.producer_id, request.producer_epoch, [partition], 0)
    return added.then(
        lambda _: AddOffsetsToTxnResponse(),
        lambda error: AddOffsetsToTxnResponse(error_code=code_for(error, context.api_version, _FENCED_SINCE)),
    )
