"""Admin calls for replicas: log directories, leader elections and reassignments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import Outcomes, outcome, results
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.terms import by_topic, present
from odradek.client.admin.types.replicas import (
    ElectionType,
    LogDirDescription,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from odradek.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

LogDirs = dict[str, LogDirDescription]
"""Path of a log directory -> its description."""

# -- log directories ----------------------------------------------------------------------------------------------------------------------


def describe_log_dirs_request(partitions: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    """Build the request; None asks for all partitions."""
    if partitions is None:
        return DescribeLogDirsRequest(topics=None)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(topics=[topic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()])


def described_log_dirs(response: DescribeLogDirsResponse) -> LogDirs | KafkaError:
    """Return the log directories of one broker, or its error."""
    if response.error_code:
        return KafkaError(code_of(response.error_code), "log directories")
    return {
        each.log_dir: LogDirDescription(
            outcome(each.error_code, None, f"log directory {each.log_dir}"),
            {
                TopicPartition(topic.name, part.partition_index): ReplicaInfo(part.partition_size, part.offset_lag, part.is_future_key)
                for topic in each.topics
                for part in topic.partitions
            },
            present(each.total_bytes),
            present(each.usable_bytes),
            each.is_cordoned,
        )
        for each in response.results
    }


def replica_log_dirs(
    replicas: Iterable[TopicPartitionReplica], found: LogDirs | KafkaError
) -> Outcomes[TopicPartitionReplica, ReplicaLogDirInfo]:
    """Return the log directories of these replicas of one broker, or the broker's error.

    Errors of single directories are left out, as they do not tell which replicas are concerned.
    """
    if isinstance(found, KafkaError):
        return dict.fromkeys(replicas, found)
    places: Outcomes[TopicPartitionReplica, ReplicaLogDirInfo] = {}
    for replica in replicas:
        place = ReplicaLogDirInfo()
        for path, description in found.items():
            info = description.replicas.get(replica.topic_partition)
            if info is not None and info.is_future:
                place = place._replace(future_log_dir=path, future_offset_lag=info.offset_lag)
            elif info is not None:
                place = place._replace(current_log_dir=path, current_offset_lag=info.offset_lag)
        places[replica] = place
    return places


def alter_replica_log_dirs_request(places: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    """Build the request for the replicas of one broker: replica -> path of its new log directory."""
    by_path: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for replica, path in places.items():
        by_path[path].append(replica.topic_partition)
    topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    dirs = [
        AlterReplicaLogDirsRequest.AlterReplicaLogDir(
            path=path, topics=[topic(name=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
        )
        for path, partitions in by_path.items()
    ]
    return AlterReplicaLogDirsRequest(dirs=dirs)


def altered_replica_log_dirs(
    response: AlterReplicaLogDirsResponse, asked: Iterable[TopicPartitionReplica]
) -> Outcomes[TopicPartitionReplica, None]:
    """Return None or the error of every replica."""
    replicas = {each.topic_partition: each for each in asked}
    found: Outcomes[TopicPartitionReplica, None] = {}
    for topic in response.results:
        for part in topic.partitions:
            replica = replicas.get(TopicPartition(topic.topic_name, part.partition_index))
            if replica is not None:
                found[replica] = outcome(part.error_code, None, str(replica))
    return found


# -- leaders ------------------------------------------------------------------------------------------------------------------------------


def elect_leaders_request(kind: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int) -> ElectLeadersRequest:
    """Build the request; None asks for all partitions whose leader would change."""
    topic = ElectLeadersRequest.TopicPartitions
    wanted = None if partitions is None else [topic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms)


def elected_leaders(response: ElectLeadersResponse, asked: Sequence[TopicPartition] | None) -> Outcomes[TopicPartition, None]:
    """Return None or the error of every partition.

    A partition of `asked` that the response leaves out gets KafkaError(UNKNOWN_SERVER_ERROR). Raises KafkaError when the broker refused the
    whole request.
    """
    if response.error_code:
        raise KafkaError(code_of(response.error_code), "electing leaders")
    found: Outcomes[TopicPartition, None] = {}
    for topic in response.replica_election_results:
        for part in topic.partition_result:
            partition = TopicPartition(topic.topic, part.partition_id)
            found[partition] = outcome(part.error_code, part.error_message, f"leader of {partition}")
    for partition in asked or ():
        found.setdefault(partition, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response does not contain {partition}"))
    return found


# -- reassignments ------------------------------------------------------------------------------------------------------------------------


def alter_reassignments_request(
    replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int, allow_replication_factor_change: bool
) -> AlterPartitionReassignmentsRequest:
    """Build the request; None as replicas cancels the partition's reassignment."""
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = []
    for name, numbers in by_topic(replicas).items():
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = []
        for number in numbers:
            wanted = replicas[TopicPartition(name, number)]
            partitions.append(
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=number, replicas=None if wanted is None else list(wanted)
                )
            )
        topics.append(AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=partitions))
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, topics=topics, allow_replication_factor_change=allow_replication_factor_change
    )


def altered_reassignments(response: AlterPartitionReassignmentsResponse) -> Outcomes[TopicPartition, None]:
    """Return None or the error of every partition. Raises KafkaError when the broker refused the whole request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "changing replicas")
    return {
        (partition := TopicPartition(topic.name, part.partition_index)): outcome(
            part.error_code, part.error_message, f"replicas of {partition}"
        )
        for topic in response.responses
        for part in topic.partitions
    }


def list_reassignments_request(partitions: Iterable[TopicPartition] | None, timeout_ms: int) -> ListPartitionReassignmentsRequest:
    """Build the request; None asks for all reassignments under way."""
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    wanted = None if partitions is None else [topic(name=name, partition_indexes=numbers) for name, numbers in by_topic(partitions).items()]
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=wanted)


def listed_reassignments(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
    """Return the reassignments under way. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "changes of replicas under way")
    return {
        TopicPartition(topic.name, part.partition_index): PartitionReassignment(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }


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
