"""Admin calls for replicas: log directories, leader elections and reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.types.replicas import ElectionType, PartitionReassignment, ReplicaLogDirInfo, TopicPartitionReplica
from odradek.client.core.admin_items import Outcomes, results
from odradek.client.core.admin_replicas import (
    LogDirs,
    alter_reassignments_request,
    alter_replica_log_dirs_request,
    altered_reassignments,
    altered_replica_log_dirs,
    describe_log_dirs_request,
    described_log_dirs,
    elect_leaders_request,
    elected_leaders,
    list_reassignments_request,
    listed_reassignments,
    replica_log_dirs,
)
from odradek.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersResponse
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse


class ReplicaCalls(AdminBase):
    """Part of `AsyncAdmin` for replicas."""

    # -- log directories ---------------------------------------------------------------------------------------------------------------

    async def try_describe_log_dirs(
        self, brokers: Iterable[int], *, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes[int, LogDirs]:
        """Return the log directories of brokers with their replicas, all replicas or those of `partitions`.

        A failed directory has its error in its description. Error of a broker outside of the cluster: BROKER_NOT_AVAILABLE.
        """
        wanted = None if partitions is None else list(partitions)

        async def ask(peer: Peer, ids: Sequence[int]) -> Outcomes[int, LogDirs]:
            found = described_log_dirs(await peer.call(describe_log_dirs_request(wanted), DescribeLogDirsResponse))
            return dict.fromkeys(ids, found)

        return await self._at_brokers(brokers, ask, broker_of=int, name=_broker)

    describe_log_dirs = raising(try_describe_log_dirs)

    async def try_describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica]
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Return the current log directory of each replica, and its future one.

        Error of a broker outside of the cluster: BROKER_NOT_AVAILABLE.
        """

        async def ask(peer: Peer, asked: Sequence[TopicPartitionReplica]) -> Outcomes[TopicPartitionReplica, ReplicaLogDirInfo]:
            request = describe_log_dirs_request(each.topic_partition for each in asked)
            return replica_log_dirs(asked, described_log_dirs(await peer.call(request, DescribeLogDirsResponse)))

        return await self._at_brokers(replicas, ask, broker_of=_broker_of)

    describe_replica_log_dirs = raising(try_describe_replica_log_dirs)

    async def try_alter_replica_log_dirs(self, places: Mapping[TopicPartitionReplica, str]) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers. The response comes before the move is complete.

        Errors of a replica: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR; REPLICA_NOT_AVAILABLE when the broker does not have the replica. In the
        last case a later replica of the partition is created in that directory.
        """

        async def ask(peer: Peer, asked: Sequence[TopicPartitionReplica]) -> Outcomes[TopicPartitionReplica, None]:
            request = alter_replica_log_dirs_request({each: places[each] for each in asked})
            return altered_replica_log_dirs(await peer.call(request, AlterReplicaLogDirsResponse), asked)

        return await self._at_brokers(places, ask, broker_of=_broker_of)

    alter_replica_log_dirs = raising_only(try_alter_replica_log_dirs)

    # -- leaders -----------------------------------------------------------------------------------------------------------------------

    async def try_elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Elect leaders for these partitions. With None elect for all partitions whose leader would change; the result then has only those.

        Errors of a partition: ELECTION_NOT_NEEDED when the leader stays, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        wanted = None if partitions is None else list(dict.fromkeys(partitions))
        if wanted is not None and not wanted:
            return {}

        async def ask(peer: Peer) -> Outcomes[TopicPartition, None]:
            request = elect_leaders_request(election_type, wanted, peer.timeout_ms)
            return elected_leaders(await peer.call(request, ElectLeadersResponse), wanted)

        return await self._controller("electing leaders", ask)

    async def elect_leaders(self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None) -> list[TopicPartition]:
        """Elect leaders for these partitions, or with None for all whose leader would change. Return the partitions with a new leader, in
        order.

        Raises the KafkaError of the first partition that failed; other partitions may have new leaders then. ELECTION_NOT_NEEDED is not a
        failure.
        """
        outcomes = await self.try_elect_leaders(election_type, partitions)
        return list(results({each: found for each, found in outcomes.items() if not _not_needed(found)}))

    # -- brokers -----------------------------------------------------------------------------------------------------------------------

    async def try_alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to these brokers, the preferred leader first. None cancels the reassignment under way.

        Errors of a partition: INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS. INVALID_REPLICATION_FACTOR for another number of
        replicas without `allow_replication_factor_change` (KIP-860).
        """

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            wanted = {each: replicas[each] for each in asked}
            request = alter_reassignments_request(wanted, peer.timeout_ms, allow_replication_factor_change)
            return altered_reassignments(await peer.call(request, AlterPartitionReassignmentsResponse))

        return await self._at_controller(replicas, ask)

    alter_partition_reassignments = raising_only(try_alter_partition_reassignments)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments under way, all or those of `partitions`. Partitions without a reassignment are absent."""
        wanted = None if partitions is None else list(partitions)

        async def ask(peer: Peer) -> dict[TopicPartition, PartitionReassignment]:
            request = list_reassignments_request(wanted, peer.timeout_ms)
            return listed_reassignments(await peer.call(request, ListPartitionReassignmentsResponse))

        return await self._controller("listing reassignments", ask)


def _broker(broker_id: int) -> str:
    return f"broker {broker_id}"


def _broker_of(replica: TopicPartitionReplica) -> int:
    return replica.broker_id


def _not_needed(found: object) -> bool:
    return isinstance(found, KafkaError) and found.code is ErrorCode.ELECTION_NOT_NEEDED
