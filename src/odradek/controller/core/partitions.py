"""Leaders and in-sync replicas: AlterPartition, elections, and changes when brokers come and go (ReplicationControlManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.partition_change import Election
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.controller.core.state import LocatedPartition, TopicControl
from odradek.metadata import features
from odradek.metadata.registrations import NO_LEADER, NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionRegistration
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from odradek.protocol.messages.metadata_records import PartitionChangeRecord

MAX_ELECTIONS_PER_ROUND = 1_000
"""Largest number of preferred-leader elections written at a time (ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE)."""

ELECTION_PREFERRED = 0
ELECTION_UNCLEAN = 1
"""Codes of election types (org.apache.kafka.common.ElectionType)."""


# -- consequences of broker changes -------------------------------------------------------------------------------------------------------


def partitions_with(context: ControllerContext, broker_id: int, *, elr: bool = False) -> list[LocatedPartition]:
    """Return the partitions with the broker in their ISR or, with `elr`, among their eligible leader replicas."""
    return [each for each in context.state.all_partitions() if broker_id in (each.partition.elr if elr else each.partition.isr)]


def leader_and_isr_records(
    context: ControllerContext,
    affected: Iterable[LocatedPartition],
    *,
    remove: int = NO_LEADER,
    add: int = NO_LEADER,
    unclean: int = NO_LEADER,
) -> list[VersionedRecord]:
    """Return changes of affected partitions when a broker leaves (`remove`), becomes active (`add`) or stopped uncleanly (`unclean`)."""

    def active(replica: int) -> bool:
        return replica not in (remove, unclean) and (replica == add or context.state.is_active(replica))

    records: list[VersionedRecord] = []
    for topic, number, partition in affected:
        change = context.change(topic, number, partition, active)
        if context.unclean_election_enabled(topic):
            change.election = Election.UNCLEAN
        if unclean != NO_LEADER:
            change.unclean_shutdown = (unclean,)
        change.isr = [replica for replica in partition.isr if replica not in (remove, unclean)]
        record = change.build()
        if record is not None:
            records.append(record)
    return records


def leaderless(context: ControllerContext) -> list[LocatedPartition]:
    return [each for each in context.state.all_partitions() if each.partition.leader == NO_LEADER]


# -- AlterPartition -----------------------------------------------------------------------------------------------------------------------


def alter_partition(context: ControllerContext, request: AlterPartitionRequest, version: int) -> ControllerResult[AlterPartitionResponse]:
    """Change ISRs as the partitions' leader proposes (AlterPartition, 56). The response has an error per partition.

    Raises KafkaError STALE_BROKER_EPOCH when the sender's epoch is not current.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    context.state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    response = AlterPartitionResponse()
    for asked in request.topics:
        answered = AlterPartitionResponse.TopicData(topic_id=asked.topic_id)
        response.topics.append(answered)
        topic = context.state.topics.get(asked.topic_id)
        for proposal in asked.partitions:
            if topic is None:
                error = AlterPartitionResponse.PartitionData(
                    partition_index=proposal.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
                answered.partitions.append(error)
            else:
                answered.partitions.append(_alter_one(context, topic, request.broker_id, proposal, version, records))
    return ControllerResult(records, response)


def _alter_one(
    context: ControllerContext,
    topic: TopicControl,
    broker_id: int,
    proposal: AlterPartitionRequest.PartitionData,
    version: int,
    records: list[VersionedRecord],
) -> AlterPartitionResponse.PartitionData:
    number = proposal.partition_index
    if version >= 3:
        isr = [(member.broker_id, member.broker_epoch) for member in proposal.new_isr_with_epochs]
    else:
        isr = [(member, -1) for member in proposal.new_isr]
    partition = topic.partitions.get(number)
    error = _alteration_error(context, broker_id, partition, proposal, isr)
    if error is not ErrorCode.NONE or partition is None:
        return AlterPartitionResponse.PartitionData(partition_index=number, error_code=error)
    change = context.change(topic, number, partition)
    if context.unclean_election_enabled(topic):
        change.election = Election.UNCLEAN
    change.isr = [member for member, _ in isr]
    change.recovery_state = proposal.leader_recovery_state
    record = change.build()
    if record is not None:
        records.append(record)
        message = record.message
        assert isinstance(message, PartitionChangeRecord)
        partition = partition.merge(message)
        if message.leader not in (broker_id, NO_LEADER_CHANGE):
            # The change completed a reassignment away from the sender, which must learn the new leader first.
            return AlterPartitionResponse.PartitionData(partition_index=number, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponse.PartitionData(
        partition_index=number,
        leader_id=partition.leader,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def _alteration_error(
    context: ControllerContext,
    broker_id: int,
    partition: PartitionRegistration | None,
    proposal: AlterPartitionRequest.PartitionData,
    isr: list[tuple[int, int]],
) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # The sender knows a newer epoch, so another node is the active controller.
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [member for member, _ in isr]
    if not members or len(set(members)) != len(members) or not set(members) <= set(partition.replicas) or partition.leader not in members:
        return ErrorCode.INVALID_REQUEST
    recovery = proposal.leader_recovery_state
    if recovery not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if recovery == RECOVERING and (len(members) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for member, epoch in isr:
        broker = context.state.brokers.get(member)
        if not context.state.is_active(member) or broker is None or epoch not in (-1, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


# -- elections on request and by timer ----------------------------------------------------------------------------------------------------


def elect_leaders(context: ControllerContext, request: ElectLeadersRequest, version: int) -> ControllerResult[ElectLeadersResponse]:
    """Elect preferred leaders (type 0; the only type in version 0) or any replica, with possible loss of records (type 1).

    Without partitions, elect for every partition that needs it (ElectLeaders, 43, KIP-183, KIP-460).

    Raises KafkaError REQUEST_TIMED_OUT when timeout_ms is negative, and INVALID_REQUEST for another election type.
    ACL: ALTER on Cluster. Quota: request time.
    """
    if request.timeout_ms < 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the election timed out before it began")
    if request.election_type not in (ELECTION_PREFERRED, ELECTION_UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[VersionedRecord] = []
    response = ElectLeadersResponse()
    asked = request.topic_partitions
    if asked is None:
        targets = [(topic.name, list(topic.partitions)) for topic in context.state.topics.values()]
    else:
        targets = [(topic.topic, topic.partitions) for topic in asked]
    for name, numbers in targets:
        result = ElectLeadersResponse.ReplicaElectionResult(topic=name)
        response.replica_election_results.append(result)
        for number in numbers:
            error = _elect_leader(context, name, number, request.election_type, records)
            code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
            if asked is None and code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result.partition_result.append(
                ElectLeadersResponse.PartitionResult(partition_id=number, error_code=code, error_message=message)
            )
    return ControllerResult(records, response)


def elect_leaders_error(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Return a response with `error` at the top level and for every named partition."""
    result = ElectLeadersResponse.PartitionResult
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    result(partition_id=number, error_code=error.code, error_message=error.message) for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _elect_leader(context: ControllerContext, name: str, number: int, election: int, records: list[VersionedRecord]) -> KafkaError | None:
    topic = context.state.topic(name)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    satisfied = partition.leader == partition.preferred_replica if election == ELECTION_PREFERRED else partition.has_leader
    if satisfied:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"Leader election not needed for {name}-{number}")
    change = context.change(topic, number, partition)
    change.election = Election.PREFERRED if election == ELECTION_PREFERRED else Election.UNCLEAN
    record = change.build()
    if record is None:
        preferred = election == ELECTION_PREFERRED
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    records.append(record)
    return None


def _round_of_elections(
    context: ControllerContext,
    candidates: Iterable[LocatedPartition],
    election: Election,
    allowed: Callable[[TopicControl], bool] | None = None,
) -> ControllerResult[bool]:
    records: list[VersionedRecord] = []
    for topic, number, partition in candidates:
        if len(records) >= MAX_ELECTIONS_PER_ROUND:
            return ControllerResult(records, True)
        if allowed is not None and not allowed(topic):
            continue
        change = context.change(topic, number, partition)
        change.election = election
        record = change.build()
        if record is not None:
            records.append(record)
    return ControllerResult(records, False)


def balance_leaders(context: ControllerContext) -> ControllerResult[bool]:
    """Elect preferred replicas where others lead. The response is True when more elections are due at once.

    Partitions without a leader are included: a replica may have become available without a broker event, as when its log directory works
    again.
    """
    imbalanced = [each for each in context.state.all_partitions() if each.partition.leader != each.partition.preferred_replica]
    return _round_of_elections(context, imbalanced, Election.PREFERRED)


def elect_unclean_leaders(context: ControllerContext) -> ControllerResult[bool]:
    """Elect any replica for leaderless partitions of topics that allow it. The response is True when more elections are due at once."""
    return _round_of_elections(context, leaderless(context), Election.UNCLEAN, context.unclean_election_enabled)


# -- reassignments ------------------------------------------------------------------------------------------------------------------------


def list_partition_reassignments(
    context: ControllerContext, request: ListPartitionReassignmentsRequest, version: int
) -> ControllerResult[ListPartitionReassignmentsResponse]:
    """Return the reassignments of the named partitions, or of all partitions without topics (ListPartitionReassignments, 46, KIP-455).

    Unknown topics and partitions, and partitions without a reassignment, are left out. The timeout is ignored.
    ACL: DESCRIBE on Cluster. Quota: request time.
    """
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        wanted = [(topic, list(topic.partitions)) for topic in context.state.topics.values()]
    else:
        named = [(context.state.topic(asked.name), asked.partition_indexes) for asked in request.topics]
        wanted = [(topic, numbers) for topic, numbers in named if topic is not None]
    for topic, numbers in wanted:
        partitions = [
            ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for number in numbers
            if (partition := topic.partitions.get(number)) is not None and (partition.adding_replicas or partition.removing_replicas)
        ]
        if partitions:
            response.topics.append(ListPartitionReassignmentsResponse.OngoingTopicReassignment(name=topic.name, partitions=partitions))
    return ControllerResult([], response)


# -- log directories ----------------------------------------------------------------------------------------------------------------------


def assign_replicas_to_directories(
    context: ControllerContext, request: AssignReplicasToDirsRequest, version: int
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record the log directories of a broker's replicas (AssignReplicasToDirs, 73, KIP-858).

    A replica in an offline directory leaves the ISR. A replica in a working directory may become leader at once.

    Raises KafkaError UNSUPPORTED_VERSION while the metadata.version has no directories, and STALE_BROKER_EPOCH for an old broker epoch.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    if not features.directory_assignment_supported(context.state.metadata_version):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = context.state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[VersionedRecord] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        answered = AssignReplicasToDirsResponse.DirectoryData(id=directory.id)
        response.directories.append(answered)
        for asked in directory.topics:
            result = AssignReplicasToDirsResponse.TopicData(topic_id=asked.topic_id)
            answered.topics.append(result)
            for place in asked.partitions:
                located, error = _replica_of(context, asked.topic_id, place.partition_index, request.broker_id)
                if located is not None:
                    online = broker.has_online_directory(directory.id)
                    record = _assigned(context, located, request.broker_id, directory.id, online=online)
                    if record is not None:
                        records.append(record)
                result.partitions.append(
                    AssignReplicasToDirsResponse.PartitionData(partition_index=place.partition_index, error_code=error)
                )
    return ControllerResult(records, response)


def _assigned(
    context: ControllerContext, located: LocatedPartition, broker_id: int, directory: UUID, *, online: bool
) -> VersionedRecord | None:
    """Return the record that assigns a replica to a log directory, with an election where the set of possible leaders changes."""
    change = context.change(*located)
    change.directories[broker_id] = directory
    if not online:
        change.isr = [replica for replica in located.partition.isr if replica != broker_id]
        if context.unclean_election_enabled(located.topic):
            change.election = Election.UNCLEAN
    return change.build()


def _replica_of(context: ControllerContext, topic_id: UUID, number: int, broker_id: int) -> tuple[LocatedPartition | None, ErrorCode]:
    topic = context.state.topics.get(topic_id)
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return LocatedPartition(topic, number, partition), ErrorCode.NONE
