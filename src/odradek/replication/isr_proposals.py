"""Proposals of ISR changes: a leader's pending change goes to the controller, and the answer or its retry back to the partition."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicIdPartition
from odradek.replication.alter_partition import RETRY_AFTER_S, IsrAnswer, IsrChange, IsrChannel
from odradek.replication.isr import OVERTAKEN, REFUSED, PendingIsr, PendingShrinkIsr

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)


class IsrProposals:
    """Proposals of the partitions that one broker leads."""

    __slots__ = ("_broker_epoch", "_channel", "_clock", "_drain", "_local_id")

    def __init__(
        self, channel: IsrChannel, clock: Clock, local_id: int, broker_epoch: Callable[[], int], drain: Callable[[], object]
    ) -> None:
        """`drain` answers the requests that waited for a change of a partition."""
        self._channel = channel
        self._clock = clock
        self._local_id = local_id
        self._broker_epoch = broker_epoch
        self._drain = drain

    def propose(self, partition: Partition, pending: PendingIsr) -> None:
        """Make `pending` the ISR of a partition, and ask the controller for the change."""
        partition.isr = pending
        self._submit(partition, pending)

    def _submit(self, partition: Partition, pending: PendingIsr) -> None:
        members: list[tuple[int, int]] = []
        for broker_id in sorted(pending.proposed_isr):
            if broker_id == self._local_id:
                members.append((broker_id, self._broker_epoch()))
                continue
            replica = partition.replicas.get(broker_id)
            epoch = None if replica is None else replica.broker_epoch
            members.append((broker_id, -1 if epoch is None else epoch))
        change = IsrChange(
            TopicIdPartition(partition.topic_id, partition.topic_partition.topic, partition.topic_partition.partition),
            partition.leader_epoch,
            partition.partition_epoch,
            members,
        )
        self._channel.submit(change).add_callback(lambda answer: self._answered(partition, pending, answer))

    def _answered(self, partition: Partition, pending: PendingIsr, answer: Deferred[IsrAnswer]) -> None:
        if partition.isr is not pending:
            return  # metadata has already replaced the state
        error = answer.error
        if error is None:
            # Otherwise the change stays pending.
            if partition.isr_changed(answer.result()):
                if isinstance(pending, PendingShrinkIsr):
                    partition.traffic.isr_shrinks += 1
                else:
                    partition.traffic.isr_expands += 1
            self._drain()
            return
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        partition.traffic.isr_failures += 1
        if code in REFUSED:
            logger.info("%s: the controller refused %r (%s)", partition.topic_partition, pending, code.name)
            partition.isr = pending.committed
        elif code not in OVERTAKEN:
            logger.warning("%s: %r failed with %s, retrying", partition.topic_partition, pending, code.name)
            self._clock.call_later(RETRY_AFTER_S, self._resubmit, partition, pending)

    def _resubmit(self, partition: Partition, pending: PendingIsr) -> None:
        if partition.isr is pending:
            self._submit(partition, pending)
