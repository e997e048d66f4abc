"""Creation, growth and deletion of topics (org.apache.kafka.controller.ReplicationControlManager, ControllerApis)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, random_uuid
from odradek.config.topic import TOPIC_CONFIG
from odradek.controller.core.configs import topic_creation_records
from odradek.controller.core.context import MAX_RECORDS_PER_OPERATION, ControllerContext, check_size
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.controller.core.state import has_collision_characters, unify_collision_characters
from odradek.metadata.registrations import RECOVERED, PartitionRegistration
from odradek.metadata.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.metadata_records import RemoveTopicRecord, TopicRecord
from odradek.security.resources import Operation, ResourceType

Creatable = CreateTopicsRequest.CreatableTopic
Created = CreateTopicsResponse.CreatableTopicResult


# -- create -------------------------------------------------------------------------------------------------------------------------------


def create_topics(context: ControllerContext, request: CreateTopicsRequest, version: int) -> ControllerResult[CreateTopicsResponse]:
    """Create topics by counts or with given replicas (CreateTopics, 19). Each topic succeeds or fails independently.

    Raises KafkaError POLICY_VIOLATION when the request asks for more than 10,000 partitions.
    ACL: CREATE on Cluster or on Topic. Quota: controller mutations.
    """
    counts = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != CLUSTER_METADATA_TOPIC]
    refused: list[Created] = []
    if not context.allows(Operation.CREATE, ResourceType.CLUSTER):
        denied = {topic.name for topic in wanted if not context.allows(Operation.CREATE, ResourceType.TOPIC, topic.name)}
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = [
            Created(name=topic.name, error_code=code, error_message="Authorization failed.", configs=[])
            for topic in wanted
            if topic.name in denied
        ]
        wanted = [topic for topic in wanted if topic.name not in denied]
    partitions = sum(_asked_partitions(context, topic) for topic in wanted)
    if partitions > MAX_RECORDS_PER_OPERATION:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    response = CreateTopicsResponse()
    records: list[VersionedRecord] = []
    for topic in wanted:
        try:
            created, its_records = _create_topic(context, topic)
            check_size(len(records) + len(its_records))
        except KafkaError as error:
            response.topics.append(Created(name=topic.name, error_code=error.code, error_message=error.message, configs=[]))
        else:
            records += its_records
            response.topics.append(created)
    for name in (name for name, count in counts.items() if count > 1):
        response.topics.append(Created(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.", configs=[]))
    if counts[CLUSTER_METADATA_TOPIC] == 1:
        prohibited = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        code = ErrorCode.INVALID_REQUEST
        response.topics.append(Created(name=CLUSTER_METADATA_TOPIC, error_code=code, error_message=prohibited, configs=[]))
    response.topics += refused
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def create_topics_error(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Return a response with `error` for every topic of the request."""
    return CreateTopicsResponse(
        topics=[Created(name=topic.name, error_code=error.code, error_message=error.message, configs=[]) for topic in request.topics]
    )


def _asked_partitions(context: ControllerContext, topic: Creatable) -> int:
    """Return the number of partitions by which a topic counts towards the limit of a request.

    A negative number counts as 0, so that it makes no room for another topic.
    """
    if topic.assignments:
        return len(topic.assignments)
    return context.config.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


def _create_topic(context: ControllerContext, topic: Creatable) -> tuple[Created, list[VersionedRecord]]:
    _check_new_name(context, topic.name)
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    config_records = topic_creation_records(context, topic.name, configs)
    partitions = _given_partitions(context, topic) if topic.assignments else _placed_partitions(context, topic)
    counts = None if topic.assignments else (len(partitions), len(partitions[0].replicas))
    context.policies.check_topic(topic.name, counts, {number: each.replicas for number, each in partitions.items()}, configs)
    context.count_partitions(len(partitions))
    topic_id = _new_topic_id(context)
    records = [VersionedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0), *config_records]
    version = context.state.metadata_version
    records += [VersionedRecord(*partitions[number].to_record(topic_id, number, version)) for number in sorted(partitions)]
    if not context.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Created(name=topic.name, topic_id=topic_id, error_message=None, topic_config_error_code=code, configs=[]), records
    created = Created(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=_effective_configs(context, topic.name, configs),
    )
    return created, records


def _check_new_name(context: ControllerContext, name: str) -> None:
    check_topic_name(name)
    if name in context.state.topic_ids:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if has_collision_characters(name):
        others = context.state.colliding_names.get(unify_collision_characters(name))
        if others:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {others[0]}")


def _new_topic_id(context: ControllerContext) -> UUID:
    while True:
        topic_id = random_uuid(context.rng)
        if topic_id not in context.state.topics:
            return topic_id


def _effective_configs(context: ControllerContext, name: str, creation: dict[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    found: list[CreateTopicsResponse.CreatableTopicConfigs] = []
    for key in sorted((key for key in TOPIC_CONFIG if not key.internal), key=str):
        value, source = context.topic_config(name, key, creation)
        found.append(
            CreateTopicsResponse.CreatableTopicConfigs(
                name=key.name, value=value, read_only=False, config_source=source, is_sensitive=False
            )
        )
    return found


# -- placement of partitions --------------------------------------------------------------------------------------------------------------


def _given_partitions(context: ControllerContext, topic: Creatable) -> dict[int, PartitionRegistration]:
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1.")
    partitions: dict[int, PartitionRegistration] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in partitions:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual partition assignments for partition {number}")
        partitions[number] = _given_partition(context, assignment.broker_ids, factor, number)
        factor = len(assignment.broker_ids)
    if sorted(partitions) != list(range(len(partitions))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    return partitions


def _given_partition(context: ControllerContext, replicas: Sequence[int], factor: int | None, number: int) -> PartitionRegistration:
    _check_assignment(context, replicas, factor)
    isr = [replica for replica in replicas if context.state.is_active(replica)]
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled shutdown.",
        )
    return _new_partition(context, replicas, isr)


def _check_assignment(context: ControllerContext, replicas: Sequence[int], factor: int | None) -> None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise KafkaError(code, "The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in context.state.brokers:
            raise KafkaError(code, f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.")
        if broker_id == previous:
            raise KafkaError(code, f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if factor is not None and len(replicas) != factor:
        raise KafkaError(
            code,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s).",
        )


def _placed_partitions(context: ControllerContext, topic: Creatable) -> dict[int, PartitionRegistration]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = context.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = context.config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return dict(enumerate(_place(context, count, factor)))


def _place(context: ControllerContext, count: int, factor: int) -> list[PartitionRegistration]:
    prefix = f"Unable to replicate the partition {factor} time(s): "
    placer = context.placer()
    placed: list[PartitionRegistration] = []
    for _ in range(count):
        try:
            replicas = placer.place(factor)
        except KafkaError as error:
            raise KafkaError(error.code, prefix + (error.message or "")) from None
        isr = [replica for replica in replicas if context.state.is_active(replica)]
        if not isr:
            reason = "All brokers are currently fenced or in controlled shutdown."
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, prefix + reason)
        placed.append(_new_partition(context, replicas, isr))
    return placed


def _new_partition(context: ControllerContext, replicas: Sequence[int], isr: Sequence[int]) -> PartitionRegistration:
    directories = tuple(context.default_directory(replica) for replica in replicas)
    return PartitionRegistration(tuple(replicas), directories, tuple(isr), (), (), isr[0], RECOVERED, 0, 0)


# -- grow ---------------------------------------------------------------------------------------------------------------------------------


def create_partitions(
    context: ControllerContext, request: CreatePartitionsRequest, version: int
) -> ControllerResult[CreatePartitionsResponse]:
    """Add partitions to topics (CreatePartitions, 37). Each topic succeeds or fails independently.

    ACL: ALTER on Topic. Quota: controller mutations.
    """
    counts = Counter(topic.name for topic in request.topics)
    records: list[VersionedRecord] = []
    response = CreatePartitionsResponse()
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    for name in (name for name, count in counts.items() if count > 1):
        response.results.append(result(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."))
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        if not context.allows(Operation.ALTER, ResourceType.TOPIC, topic.name):
            response.results.append(result(name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        try:
            its_records = _more_partitions(context, topic)
            check_size(len(records) + len(its_records))
        except KafkaError as error:
            response.results.append(result(name=topic.name, error_code=error.code, error_message=error.message))
        else:
            records += its_records
            response.results.append(result(name=topic.name))
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def create_partitions_error(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Return a response with `error` for every topic of the request."""
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[result(name=topic.name, error_code=error.code, error_message=error.message) for topic in request.topics]
    )


def _more_partitions(context: ControllerContext, asked: CreatePartitionsRequest.CreatePartitionsTopic) -> list[VersionedRecord]:
    topic = context.state.topic(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    existing = len(topic.partitions)
    additional = asked.count - existing
    if additional == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if additional < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {existing} partition(s); {asked.count} would not be an increase.",
        )
    check_size(additional)
    if asked.assignments is not None and len(asked.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} assignment(s) were specified.",
        )
    context.count_partitions(additional)
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        added = _place(context, additional, factor)
    else:
        added = [
            _given_partition(context, assignment.broker_ids, factor, existing + index) for index, assignment in enumerate(asked.assignments)
        ]
    version = context.state.metadata_version
    return [VersionedRecord(*partition.to_record(topic.topic_id, existing + i, version)) for i, partition in enumerate(added)]


# -- delete -------------------------------------------------------------------------------------------------------------------------------


def delete_topics(context: ControllerContext, request: DeleteTopicsRequest, version: int) -> ControllerResult[DeleteTopicsResponse]:
    """Delete topics by name or, since version 6, by name or id (DeleteTopics, 20). Each topic succeeds or fails independently.

    Raises KafkaError TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3) when delete.topic.enable is false.
    ACL: DELETE on Topic. Quota: controller mutations.
    """
    if not context.config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST)
    if version >= 6:
        asked = [(state.name, state.topic_id) for state in request.topics]
    else:
        asked = [(name, ZERO_UUID) for name in request.topic_names]
    found, response = _resolve(context, asked)
    records = [VersionedRecord(RemoveTopicRecord(topic_id=topic_id), 0) for topic_id in found]
    check_size(len(records))
    return ControllerResult(records, response, atomic=True)


def delete_topics_error(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Return a response with `error` for every topic of the request."""
    result = DeleteTopicsResponse.DeletableTopicResult
    by_state = [result(name=t.name, topic_id=t.topic_id, error_code=error.code, error_message=error.message) for t in request.topics]
    by_name = [result(name=name, error_code=error.code, error_message=error.message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=by_state + by_name)


def _resolve(context: ControllerContext, asked: Collection[tuple[str | None, UUID]]) -> tuple[list[UUID], DeleteTopicsResponse]:
    """Return the ids of the topics that can be deleted, and the response for all requested topics."""
    result = DeleteTopicsResponse.DeletableTopicResult
    response = DeleteTopicsResponse()
    ids = Counter(_id_of(context, name, topic_id) for name, topic_id in asked)
    names = Counter(name for name, _ in asked if name is not None)
    found: list[UUID] = []
    refused: set[object] = set()
    everything = context.allows(Operation.DELETE, ResourceType.CLUSTER)

    def may(operation: Operation, name: str) -> bool:
        return everything or context.allows(operation, ResourceType.TOPIC, name)

    for name, given_id in asked:
        topic_id = _id_of(context, name, given_id)
        answer = result(name=name, topic_id=given_id)
        response.responses.append(answer)
        if name is not None and given_id != ZERO_UUID:
            _refuse(answer, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        elif name is None and given_id == ZERO_UUID:
            _refuse(answer, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        elif (name is not None and names[name] > 1) or (topic_id is not None and ids[topic_id] > 1):
            key: object = name if name is not None and names[name] > 1 else topic_id
            if key in refused:
                response.responses.pop()
                continue
            refused.add(key)
            _refuse(answer, ErrorCode.INVALID_REQUEST, "Duplicate topic name." if name is not None else "Duplicate topic id.")
        elif name is not None and not may(Operation.DESCRIBE, name):
            _refuse(answer, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        elif topic_id is None:
            _refuse(answer, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID, None)
        elif not may(Operation.DELETE, context.state.topics[topic_id].name):
            _refuse(answer, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
            if may(Operation.DESCRIBE, context.state.topics[topic_id].name):
                answer.name = context.state.topics[topic_id].name
        else:
            answer.name = context.state.topics[topic_id].name
            answer.topic_id = topic_id
            try:
                context.count_partitions(len(context.state.topics[topic_id].partitions))
            except KafkaError as error:
                _refuse(answer, error.code, error.message)
            else:
                found.append(topic_id)
    return found, response


def _id_of(context: ControllerContext, name: str | None, topic_id: UUID) -> UUID | None:
    if name is not None:
        return context.state.topic_ids.get(name)
    return topic_id if topic_id in context.state.topics else None


def _refuse(answer: DeleteTopicsResponse.DeletableTopicResult, code: ErrorCode, message: str | None) -> None:
    answer.error_code = code
    answer.error_message = message if message is not None else _DEFAULT_MESSAGES.get(code)


_DEFAULT_MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}
