"""Replicas, leaders and log directories in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.replicas import (
    ElectionType,
    LogDirDescription,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import by_topic, present
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
