"""Requests of a transaction to its own node: decided by the same code as requests of other brokers, but without messages.

Every transaction asks its coordinator about each partition, and is ended in each partition. With a single node, and for a third of all
partitions with three nodes, both sides are in one process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.transaction.add_partitions_to_txn import decide
from odradek.handlers.transaction.write_txn_markers import Ending, write

if TYPE_CHECKING:
    from odradek.coordinator.transaction.state import Transaction
    from odradek.handlers.services import Coordinators
    from odradek.metadata.cache import MetadataCache
    from odradek.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

Codes = Mapping[TopicPartition, ErrorCode]

_ADD_PARTITIONS_VERSION = 5
"""Version of AddPartitionsToTxn in which the coordinator is asked."""


class TransactionsHere:
    """A `coordinator.transaction.markers.PartitionsHere` and a `replication.transaction_verifier.CoordinatorHere`.

    Unexpected errors are logged, and answered with UNKNOWN_SERVER_ERROR for each partition.
    """

    def __init__(self, node_id: int, metadata: MetadataCache, replica_manager: ReplicaManager, coordinators: Coordinators) -> None:
        self.node_id = node_id
        self._decide = partial(decide, metadata, coordinators, _ADD_PARTITIONS_VERSION)
        self._write = partial(write, replica_manager, coordinators)

    def ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition], *, verify_only: bool
    ) -> Deferred[Codes | ErrorCode]:
        """See `CoordinatorHere`."""
        try:
            return self._decide(transactional_id, producer_id, producer_epoch, verify_only, partitions)
        except Exception:
            logger.exception("the coordinator of %r failed", transactional_id)
            return Deferred.of(ErrorCode.UNKNOWN_SERVER_ERROR)

    def write_markers(
        self, transaction: Transaction, coordinator_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Sequence[Deferred[Codes]]:
        """See `PartitionsHere`."""
        ending = Ending(
            transaction.producer_id,
            transaction.producer_epoch,
            coordinator_epoch,
            transaction.result_is_commit,
            transaction.client_version,
        )
        try:
            return self._write(ending, partitions)
        except Exception:
            logger.exception("the markers of %r could not be written", transaction.transactional_id)
            return [Deferred.of(dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR))]
