"""Replicas: the directories they are in, the brokers they move to, and who of them leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.faces import raising, raising_only
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
    """The part of `AsyncAdmin` that is about replicas."""

    # -- log directories ---------------------------------------------------------------------------------------------------------------

    async def try_describe_log_dirs(
        self, brokers: Iterable[int], *, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes[int, LogDirs]:
        """The log directories of brokers with the replicas in them, all or those of `partitions`; BROKER_NOT_AVAILABLE for a broker that
        is not in the cluster. A directory that failed has its error in its description.
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
        """In which directory each replica is, and to which it moves; BROKER_NOT_AVAILABLE for a broker that is not in the cluster."""

        async def ask(peer: Peer, asked: Sequence[TopicPartitionReplica]) -> Outcomes[TopicPartitionReplica, ReplicaLogDirInfo]:
            request = describe_log_dirs_request(each.topic_partition for each in asked)
            return replica_log_dirs(asked, described_log_dirs(await peer.call(request, DescribeLogDirsResponse)))

        return await self._at_brokers(replicas, ask, broker_of=_broker_of)

    describe_replica_log_dirs = raising(try_describe_replica_log_dirs)

    async def try_alter_replica_log_dirs(self, places: Mapping[TopicPartitionReplica, str]) -> Outcomes[TopicPartitionReplica, None]:
        """Has replicas moved to other directories of their brokers; the answer comes before they are there.

        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR; for a broker without a replica of the partition REPLICA_NOT_AVAILABLE: where it comes to
        have one, it is made in that directory.
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
        """Has leaders elected for these partitions, or for all that would get another one, of which alone the answer tells then.

        ELECTION_NOT_NEEDED where the leader stays, PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        wanted = None if partitions is None else list(dict.fromkeys(partitions))
        if wanted is not None and not wanted:
            return {}

        async def ask(peer: Peer) -> Outcomes[TopicPartition, None]:
            request = elect_leaders_request(election_type, wanted, peer.timeout_ms)
            return elected_leaders(await peer.call(request, ElectLeadersResponse), wanted)

        return await self._controller("electing leaders", ask)

    async def elect_leaders(self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None) -> list[TopicPartition]:
        """Has leaders elected for these partitions, or for all that would get another one; gives those that got one, in order.

        Raises the KafkaError of the first partition that failed (the others may have new leaders then); that the leader stays
        (ELECTION_NOT_NEEDED) is no failure.
        """
        outcomes = await self.try_elect_leaders(election_type, partitions)
        return list(results({each: found for each, found in outcomes.items() if not _not_needed(found)}))

    # -- brokers -----------------------------------------------------------------------------------------------------------------------

    async def try_alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> Outcomes[TopicPartition, None]:
        """Has partitions moved to these brokers, the preferred leader first; None takes back the move that is under way.

        INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICATION_FACTOR for more or fewer replicas than there are
        where that is not allowed (KIP-860).
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
        """The moves that are under way, all or those of `partitions`; what does not move is left out."""
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
