"""Requests that make every check of `odradek.handlers.access`, for clients who may do all of it, some of it or nothing.

A client is told by a number; what it may do are ACLs, made of the checks that an API declares. Each request names two resources of a kind:
literal ACLs reach the first alone, so that answers are partial; prefixed ones reach both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from interop.differential.batches import batch
from odradek.handlers import access
from odradek.handlers.access import ACCESS, Check
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.default_principal import DefaultPrincipalData
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message
from odradek.security.acls import AccessControlEntry
from odradek.security.resources import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType

T1, T2, ABSENT, NEW1, NEW2 = "acc.a", "acc.b", "acc.absent", "acc.new1", "acc.new2"
GONE1, GONE2 = "acc.gone1", "acc.gone2"
"""Topics that DeleteTopics deletes; they are there again before each request."""
G1, G2, CONSUMERS = "acc.g1", "acc.g2", "acc.consumers"
"""The last has a member of the consumer protocol with partitions of T1 and T2."""
X1, X2 = "acc.x1", "acc.x2"
MEMBER = "accMemberAccMemberAcc"
OTHER_CLUSTER = "xxxxxxxxxxxxxxxxxxxxxx"

NAMES: Mapping[ResourceType, tuple[str, ...]] = {
    ResourceType.TOPIC: (T1, NEW1, GONE1),
    ResourceType.GROUP: (G1, CONSUMERS),
    ResourceType.TRANSACTIONAL_ID: (X1,),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
}
"""What literal ACLs are about."""
PREFIXES: Mapping[ResourceType, str] = {kind: CLUSTER_NAME if kind is ResourceType.CLUSTER else "acc." for kind in NAMES}

NOT_ASKED = frozenset({ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN})
"""Tokens are refused on PLAINTEXT listeners before any check."""
UNSAMPLED = frozenset({id(access.JOIN_GROUP_MATCH), id(access.FIND_SHARE_COORDINATOR), id(access.CONSUMER_HEARTBEAT_MATCH)})
"""What patterns match is asked when they are evaluated, later; there is no share coordinator to be found."""


SAMPLES_OF: Mapping[int, tuple[str, ...]] = {
    id(access.METADATA_ANY_TOPIC): ("everything",),
    id(access.METADATA_TOPIC): ("names", "ids"),
    id(access.OFFSET_FETCH_ANY_TOPIC): ("all", f"{G1} all"),
    id(access.OFFSET_FETCH_TOPIC): ("named", f"{G1} named"),
    id(access.ALTER_LOGGERS): ("loggers",),
}
"""Check -> the samples that make it, where another check of the API says the same."""

OVERRULED: Mapping[int, Check] = {id(access.DELETE_TOPIC_NAME): access.DELETE_TOPICS}
"""Check -> another one after which it is not asked."""


class Client(NamedTuple):
    """Who may do what the entries say; `principal` and `host` in them are to be filled in."""

    number: int
    name: str
    entries: tuple[AccessControlEntry, ...]


class Facts(NamedTuple):
    """What requests to one cluster have to know."""

    topic_ids: Mapping[str, UUID]
    node_id: int = 1
    client_host: bytes = b"\x7f\0\0\1"
    principal: str = "ANONYMOUS"


Sample = tuple[str, Message]
Make = Callable[[int, Facts], Iterator[Sample]]


# -- clients -------------------------------------------------------------------------------------------------------------------------------


def entries_for(check: Check, pattern: str, *, deny: bool = False) -> list[AccessControlEntry]:
    """The ACLs for one check: "literal", "prefixed" or "wildcard"."""
    permission = int(PermissionType.DENY if deny else PermissionType.ALLOW)
    if pattern == "literal":
        patterns = [(PatternType.LITERAL, name) for name in NAMES[check.resource]]
    elif pattern == "prefixed":
        patterns = [(PatternType.PREFIXED, PREFIXES[check.resource])]
    else:
        patterns = [(PatternType.LITERAL, CLUSTER_NAME if check.resource is ResourceType.CLUSTER else "*")]
    return [AccessControlEntry(int(check.resource), name, int(kind), "", "", int(check.operation), permission) for kind, name in patterns]


def clients(scope: str, api_key: ApiKey, first: int) -> list[Client]:
    """Nobody; all checks, in each kind of pattern; all but one; one alone; all with one denied."""
    checks = list({(c.operation, c.resource): c for c in ACCESS[scope][api_key].checks}.values())
    wanted: dict[str, list[AccessControlEntry]] = {"nothing": []}
    for pattern in ("literal", "prefixed", "wildcard"):
        wanted[f"all {pattern}"] = [entry for check in checks for entry in entries_for(check, pattern)]
    for check in checks:
        name = f"{check.operation.name} on {check.resource.name}"
        others = [entry for other in checks if other is not check for entry in entries_for(other, "prefixed")]
        if len(checks) > 1:
            wanted[f"only {name}"] = entries_for(check, "prefixed")
            wanted[f"only {name}, literal"] = entries_for(check, "literal")
            wanted[f"all but {name}"] = others
        everything = others + entries_for(check, "prefixed")
        wanted[f"all, {name} denied"] = everything + entries_for(check, "literal", deny=True)
        wanted[f"all, {name} denied by prefix"] = everything + entries_for(check, "prefixed", deny=True)
    everywhere = [check for check in checks if check.operation is not Operation.ALL]
    every = [check._replace(operation=Operation.ALL) for check in everywhere]
    wanted["every operation"] = [entry for check in every for entry in entries_for(check, "prefixed")]
    return [Client(first + index, name, tuple(entries)) for index, (name, entries) in enumerate(wanted.items())]


def all_clients() -> dict[tuple[str, ApiKey], list[Client]]:
    """For every API of every listener scope that has samples."""
    found: dict[tuple[str, ApiKey], list[Client]] = {}
    number = 1
    for scope, samples in SAMPLES.items():
        for api_key in samples:
            found[scope, api_key] = clients(_decides(scope, api_key), api_key, number)
            number += len(found[scope, api_key])
    return found


def _decides(scope: str, api_key: ApiKey) -> str:
    """Who makes the checks: the controller for what a broker forwards."""
    return scope if api_key in ACCESS[scope] and ACCESS[scope][api_key].checks else CONTROLLER


# -- requests ------------------------------------------------------------------------------------------------------------------------------


def _request(api_key: ApiKey, /, **fields: Any) -> Message:
    return request_class(api_key)(**fields)


def _part(api_key: ApiKey, part: str, /, **fields: Any) -> Any:
    return getattr(request_class(api_key), part)(**fields)


def produce(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.PRODUCE

    def request(records: bytes, **fields: Any) -> Message:
        topics = []
        for name in (T1, T2):
            named: dict[str, Any] = {"topic_id": facts.topic_ids[name]} if version >= 13 else {"name": name}
            topics.append(
                _part(key, "TopicProduceData", partition_data=[_part(key, "PartitionProduceData", index=0, records=records)], **named)
            )
        return _request(key, acks=-1, timeout_ms=5_000, topic_data=topics, **fields)

    yield "plain", request(batch(1), transactional_id=None)
    transactional = batch(1, producer_id=4_000_100, producer_epoch=0, base_sequence=0, transactional=True)
    yield "transactional", request(transactional, transactional_id=X1)


def fetch(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.FETCH
    for name, replica in (("consumer", -1), ("follower", 5)):
        topics = []
        for topic in (T1, T2, ABSENT):
            if version >= 13 and topic == ABSENT:
                continue
            named: dict[str, Any] = {"topic_id": facts.topic_ids[topic]} if version >= 13 else {"topic": topic}
            topics.append(
                _part(
                    key,
                    "FetchTopic",
                    partitions=[_part(key, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1)],
                    **named,
                )
            )
        fields: dict[str, Any] = {"replica_id": replica}
        if version >= 15:
            fields = {"replica_state": _part(key, "ReplicaState", replica_id=replica)}
        yield name, _request(key, max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=topics, **fields)


def list_offsets(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.LIST_OFFSETS
    topics = [
        _part(key, "ListOffsetsTopic", name=name, partitions=[_part(key, "ListOffsetsPartition", partition_index=0, timestamp=-2)])
        for name in (T1, T2, ABSENT)
    ]
    yield "two", _request(key, replica_id=-1, topics=topics)


def metadata(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.METADATA
    fields: dict[str, Any] = {}
    if version >= 8:
        fields["include_topic_authorized_operations"] = True
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = True
    creation: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
    yield "everything", _request(key, topics=[] if version == 0 else None, **fields)
    if version >= 4:
        yield (
            "names",
            _request(
                key, topics=[_part(key, "MetadataRequestTopic", name=n) for n in (T1, T2, ABSENT, "acc.no/name")], **creation, **fields
            ),
        )
    if version >= 12:
        ids = [facts.topic_ids[T1], facts.topic_ids[T2], UUID(int=77 << 64)]
        by_id = [_part(key, "MetadataRequestTopic", name=None, topic_id=each) for each in ids]
        yield "ids", _request(key, topics=by_id, **creation, **fields)


def creation_by_metadata(version: int, facts: Facts) -> Iterator[Sample]:
    """With topics that nobody is able to create: their names are none."""
    key = ApiKey.METADATA
    topics = [_part(key, "MetadataRequestTopic", name=name) for name in (T1, "acc.new?")]
    yield "creation", _request(key, topics=topics, **({"allow_auto_topic_creation": True} if version >= 4 else {}))


def all_metadata(version: int, facts: Facts) -> Iterator[Sample]:
    yield from metadata(version, facts)
    yield from creation_by_metadata(version, facts)


def offset_commit(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.OFFSET_COMMIT
    for group in (G1, G2):
        topics = []
        for name in (T1, T2):
            named: dict[str, Any] = {"topic_id": facts.topic_ids[name]} if version >= 10 else {"name": name}
            partition = _part(key, "OffsetCommitRequestPartition", partition_index=0, committed_offset=3, committed_metadata="")
            topics.append(_part(key, "OffsetCommitRequestTopic", partitions=[partition], **named))
        yield group, _request(key, group_id=group, topics=topics)


def offset_fetch(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.OFFSET_FETCH
    if version < 8:
        for group in (G1, G2):
            topics = [_part(key, "OffsetFetchRequestTopic", name=name, partition_indexes=[0]) for name in (T1, T2)]
            yield f"{group} named", _request(key, group_id=group, topics=topics)
            if version >= 2:
                yield f"{group} all", _request(key, group_id=group, topics=None)
        return
    groups = []
    for group in (G1, G2):
        topics = []
        for name in (T1, T2):
            named: dict[str, Any] = {"topic_id": facts.topic_ids[name]} if version >= 10 else {"name": name}
            topics.append(_part(key, "OffsetFetchRequestTopics", partition_indexes=[0], **named))
        groups.append(_part(key, "OffsetFetchRequestGroup", group_id=group, topics=topics))
    yield "named", _request(key, groups=groups)
    yield "all", _request(key, groups=[_part(key, "OffsetFetchRequestGroup", group_id=group, topics=None) for group in (G1, G2)])


def find_coordinator(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.FIND_COORDINATOR
    for kind, names in ((0, (G1, G2)), (1, (X1, X2))):
        if version == 0 and kind:
            continue
        typed: dict[str, Any] = {"key_type": kind} if version else {}
        if version >= 4:
            yield f"of type {kind}", _request(key, coordinator_keys=list(names), **typed)
        else:
            for name in names:
                yield name, _request(key, key=name, **typed)


def of_group(api_key: ApiKey, /, **fields: Any) -> Make:
    def make(version: int, facts: Facts) -> Iterator[Sample]:
        extra: dict[str, Any] = dict(fields)
        if api_key is ApiKey.SYNC_GROUP and version >= 5:
            extra |= {"protocol_type": "consumer", "protocol_name": "range"}
        if api_key is ApiKey.LEAVE_GROUP:
            extra = {"members": [_part(api_key, "MemberIdentity", member_id="nobody")]} if version >= 3 else {"member_id": "nobody"}
        for group in (G1, G2):
            yield group, _request(api_key, group_id=group, **extra)

    return make


def join_group(version: int, facts: Facts) -> Iterator[Sample]:
    """With a session that is too short: nobody joins."""
    key = ApiKey.JOIN_GROUP
    protocols = [_part(key, "JoinGroupRequestProtocol", name="range", metadata=b"")]
    for group in (G1, G2):
        yield group, _request(key, group_id=group, session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=protocols)


def describe_groups(version: int, facts: Facts) -> Iterator[Sample]:
    fields: dict[str, Any] = {"include_authorized_operations": True} if version >= 3 else {}
    yield "two", _request(ApiKey.DESCRIBE_GROUPS, groups=[G1, G2], **fields)


def simple(api_key: ApiKey, /, **fields: Any) -> Make:
    """One request, the same in every version."""

    def make(version: int, facts: Facts) -> Iterator[Sample]:
        yield "the request", _request(api_key, **fields)

    return make


def create_topics(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.CREATE_TOPICS
    names = (NEW1, NEW2, T1, "__cluster_metadata")
    topics = [_part(key, "CreatableTopic", name=name, num_partitions=1, replication_factor=1) for name in names]
    yield "validated", _request(key, topics=topics, validate_only=True)


def delete_topics(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DELETE_TOPICS
    if version < 6:
        yield "names", _request(key, topic_names=[GONE1, GONE2, ABSENT], timeout_ms=5_000)
        return
    by_name = [_part(key, "DeleteTopicState", name=name) for name in (GONE1, GONE2, ABSENT)]
    yield "names", _request(key, topics=by_name, timeout_ms=5_000)
    by_id = [
        _part(key, "DeleteTopicState", name=None, topic_id=each)
        for each in (facts.topic_ids[GONE1], facts.topic_ids[GONE2], UUID(int=7 << 64))
    ]
    yield "ids", _request(key, topics=by_id, timeout_ms=5_000)


def delete_records(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DELETE_RECORDS
    topics = [
        _part(key, "DeleteRecordsTopic", name=name, partitions=[_part(key, "DeleteRecordsPartition", partition_index=0, offset=0)])
        for name in (T1, T2, ABSENT)
    ]
    yield "two", _request(key, topics=topics, timeout_ms=5_000)


def init_producer_id(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.INIT_PRODUCER_ID
    yield "idempotent", _request(key, transactional_id=None, transaction_timeout_ms=60_000)
    for name in (X1, X2):
        yield name, _request(key, transactional_id=name, transaction_timeout_ms=2**31 - 1)
    if version >= 6:
        yield "two phases", _request(key, transactional_id=X1 + "-2pc", transaction_timeout_ms=-1, enable2_pc=True)


def offset_for_leader_epoch(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    topics = [
        _part(key, "OffsetForLeaderTopic", topic=name, partitions=[_part(key, "OffsetForLeaderPartition", partition=0, leader_epoch=0)])
        for name in (T1, T2, ABSENT)
    ]
    yield "two", _request(key, topics=topics)


def add_partitions_to_txn(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    topics = [_part(key, "AddPartitionsToTxnTopic", name=name, partitions=[0]) for name in (T1, T2)]
    if version >= 4:
        each = _part(key, "AddPartitionsToTxnTransaction", transactional_id=X1, producer_id=4_000_101, producer_epoch=0, topics=topics)
        yield "batch", _request(key, transactions=[each])
        return
    for name in (X1, X2):
        for count in (1, 2):
            yield (
                f"{name} {count}",
                _request(
                    key,
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=4_000_101,
                    v3_and_below_producer_epoch=0,
                    v3_and_below_topics=topics[:count],
                ),
            )


def add_offsets_to_txn(version: int, facts: Facts) -> Iterator[Sample]:
    for name, group in ((X1, G1), (X1, G2), (X2, G1)):
        request = _request(ApiKey.ADD_OFFSETS_TO_TXN, transactional_id=name, producer_id=4_000_102, producer_epoch=0, group_id=group)
        yield f"{name} {group}", request


def end_txn(version: int, facts: Facts) -> Iterator[Sample]:
    for name in (X1, X2):
        yield name, _request(ApiKey.END_TXN, transactional_id=name, producer_id=4_000_103, producer_epoch=0, committed=True)


def write_txn_markers(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.WRITE_TXN_MARKERS
    topics = [_part(key, "WritableTxnMarkerTopic", name=ABSENT, partition_indexes=[0])]
    marker = _part(key, "WritableTxnMarker", producer_id=4_000_104, producer_epoch=0, transaction_result=True, topics=topics)
    yield "one", _request(key, markers=[marker])


def txn_offset_commit(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.TXN_OFFSET_COMMIT
    partition = _part(key, "TxnOffsetCommitRequestPartition", partition_index=0, committed_offset=1, committed_metadata="")
    topics = [_part(key, "TxnOffsetCommitRequestTopic", name=name, partitions=[partition]) for name in (T1, T2)]
    for name, group in ((X1, G1), (X1, G2), (X2, G1)):
        yield (
            f"{name} {group}",
            _request(key, transactional_id=name, group_id=group, producer_id=4_000_105, producer_epoch=0, topics=topics),
        )


def describe_configs(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DESCRIBE_CONFIGS
    wanted = [(2, T1, "retention.ms"), (2, T2, "retention.ms"), (4, str(facts.node_id), "num.partitions"), (4, "", "num.partitions")]
    if version >= 4:
        wanted += [(32, G1, "consumer.session.timeout.ms"), (32, G2, "consumer.session.timeout.ms")]
    resources = [_part(key, "DescribeConfigsResource", resource_type=k, resource_name=n, configuration_keys=[c]) for k, n, c in wanted]
    yield "all", _request(key, resources=resources)


def alter_configs(api_key: ApiKey, *, loggers: bool = False) -> Make:
    """Levels of loggers are set on brokers only."""

    def make(version: int, facts: Facts) -> Iterator[Sample]:
        wanted = [(2, T1, "retention.ms", "1000"), (2, T2, "retention.ms", "1000"), (4, "", "log.cleaner.backoff.ms", "1000")]
        wanted += [(32, G1, "consumer.session.timeout.ms", "50000"), (32, G2, "consumer.session.timeout.ms", "50000")]
        yield "validated", request(wanted)
        if loggers:
            yield "loggers", request([(8, str(facts.node_id), "root", "INFO")])

    def request(wanted: list[tuple[int, str, str, str]]) -> Message:
        resources = [
            _part(
                api_key,
                "AlterConfigsResource",
                resource_type=kind,
                resource_name=name,
                configs=[_part(api_key, "AlterableConfig", name=key, value=value)],
            )
            for kind, name, key, value in wanted
        ]
        return _request(api_key, resources=resources, validate_only=True)

    return make


def create_partitions(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.CREATE_PARTITIONS
    topics = [_part(key, "CreatePartitionsTopic", name=name, count=3, assignments=None) for name in (T1, T2, ABSENT)]
    yield "validated", _request(key, topics=topics, timeout_ms=5_000, validate_only=True)


def create_acls(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.CREATE_ACLS
    fine = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3}
    wrong: list[dict[str, Any]] = [
        {"resource_type": 4, "resource_name": "other"},
        {"resource_name": ""},
        {"principal": "a"},
        {"operation": 99},
        {"resource_type": 99},
        {"resource_pattern_type": 99},
        {"permission_type": 99},
    ]

    def request(rows: list[dict[str, Any]]) -> Message:
        return _request(key, creations=[_part(key, "AclCreation", **({"permission_type": 3} | fine | row)) for row in rows])

    yield "good and bad", request([{}, {}, *wrong])
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        yield f"any {field}", request([{"host": "h"}, {field: 1}])


def delete_acls(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DELETE_ACLS
    fields: dict[str, Any] = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 1, "permission_type": 1}
    rows = [{"principal_filter": "User:a"}, {"principal_filter": "User:nobody"}, {"operation": 99}, {"pattern_type_filter": 99}]
    nulls: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    yield "some", _request(key, filters=[_part(key, "DeleteAclsFilter", **(nulls | fields | row)) for row in rows])


def describe_acls(version: int, facts: Facts) -> Iterator[Sample]:
    yield (
        "one principal's",
        _request(
            ApiKey.DESCRIBE_ACLS,
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter="User:a",
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
    )


def update_features(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.UPDATE_FEATURES
    fields: dict[str, Any] = {"validate_only": True} if version >= 1 else {}
    yield "unknown", _request(key, feature_updates=[_part(key, "FeatureUpdateKey", feature="nothing", max_version_level=1)], **fields)


def elect_leaders(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.ELECT_LEADERS
    yield "two", _request(key, topic_partitions=[_part(key, "TopicPartitions", topic=name, partitions=[0]) for name in (T1, T2)])


def offset_delete(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.OFFSET_DELETE
    partitions = [_part(key, "OffsetDeleteRequestPartition", partition_index=7)]
    for group in (G1, G2):
        topics = [_part(key, "OffsetDeleteRequestTopic", name=name, partitions=partitions) for name in (T1, T2)]
        yield group, _request(key, group_id=group, topics=topics)


def describe_quorum(version: int, facts: Facts) -> Iterator[Sample]:
    """Of another topic, which is no log of a quorum."""
    key = ApiKey.DESCRIBE_QUORUM
    topic = _part(key, "TopicData", topic_name=T1, partitions=[_part(key, "PartitionData", partition_index=0)])
    yield "another topic", _request(key, topics=[topic])


def describe_cluster(version: int, facts: Facts) -> Iterator[Sample]:
    yield "operations", _request(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True)


def describe_controllers(version: int, facts: Facts) -> Iterator[Sample]:
    if version >= 1:
        yield "operations", _request(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True, endpoint_type=2)


def describe_producers(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DESCRIBE_PRODUCERS
    topics = [_part(key, "TopicRequest", name=name, partition_indexes=[5]) for name in (T1, T2, ABSENT)]
    yield "two", _request(key, topics=topics)


def consumer_group_heartbeat(version: int, facts: Facts) -> Iterator[Sample]:
    """Of a member that nobody knows."""
    for group, topics in ((G1, [T1]), (G1, [T1, T2]), (G2, None)):
        yield (
            f"{group} {topics}",
            _request(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                group_id=group,
                member_id=MEMBER,
                member_epoch=5,
                rebalance_timeout_ms=5_000,
                subscribed_topic_names=topics,
                topic_partitions=[],
            ),
        )


def consumer_group_describe(version: int, facts: Facts) -> Iterator[Sample]:
    yield "two", _request(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=[CONSUMERS, G2], include_authorized_operations=True)


def list_config_resources(version: int, facts: Facts) -> Iterator[Sample]:
    yield "brokers", _request(ApiKey.LIST_CONFIG_RESOURCES, **({"resource_types": [4]} if version else {}))


def describe_topic_partitions(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    yield "names", _request(key, topics=[_part(key, "TopicRequest", name=name) for name in (T1, T2, ABSENT)])
    cursor = _part(key, "Cursor", topic_name="acc.a", partition_index=0)
    yield "everything", _request(key, topics=[], cursor=cursor, response_partition_limit=1)


def describe_log_dirs(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DESCRIBE_LOG_DIRS
    yield "nothing", _request(key, topics=[_part(key, "DescribableLogDirTopic", topic=ABSENT, partitions=[0])])


def alter_replica_log_dirs(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.ALTER_REPLICA_LOG_DIRS
    topics = [_part(key, "AlterReplicaLogDirTopic", name=T1, partitions=[0])]
    yield "nowhere", _request(key, dirs=[_part(key, "AlterReplicaLogDir", path="/nowhere", topics=topics)])


def describe_scram(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    yield "two users", _request(key, users=[_part(key, "UserName", name=name) for name in ("alice", "bob")])


def alter_scram(version: int, facts: Facts) -> Iterator[Sample]:
    """One that is not there is deleted: nothing changes for whoever may."""
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    yield "of nobody", _request(key, deletions=[_part(key, "ScramCredentialDeletion", name="acc.nobody", mechanism=1)])


def alter_client_quotas(version: int, facts: Facts) -> Iterator[Sample]:
    """One that is not there is removed: nothing changes for whoever may."""
    key = ApiKey.ALTER_CLIENT_QUOTAS
    entity, ops = (
        [_part(key, "EntityData", entity_type="user", entity_name="acc")],
        [_part(key, "OpData", key="producer_byte_rate", remove=True)],
    )
    yield "of a user", _request(key, entries=[_part(key, "EntryData", entity=entity, ops=ops)])


def alter_partition(version: int, facts: Facts) -> Iterator[Sample]:
    """Of a broker that is not registered."""
    key = ApiKey.ALTER_PARTITION
    partition = _part(key, "PartitionData", partition_index=0, leader_epoch=0, partition_epoch=0)
    topic = _part(key, "TopicData", topic_id=facts.topic_ids[T1], partitions=[partition])
    yield "of nobody", _request(key, broker_id=77, broker_epoch=1, topics=[topic])


def raft_fetch(version: int, facts: Facts) -> Iterator[Sample]:
    fields: dict[str, Any] = {"cluster_id": OTHER_CLUSTER} if version >= 12 else {}
    if version >= 12:
        yield "of another cluster", _request(ApiKey.FETCH, max_wait_ms=0, **fields)


def registration(version: int, facts: Facts) -> Iterator[Sample]:
    yield "of another cluster", _request(ApiKey.BROKER_REGISTRATION, broker_id=77, cluster_id=OTHER_CLUSTER, rack=None)


def controller_registration(version: int, facts: Facts) -> Iterator[Sample]:
    key = ApiKey.CONTROLLER_REGISTRATION
    listener = _part(key, "Listener", name="CONTROLLER", host="localhost", port=9, security_protocol=0)
    yield "one", _request(key, controller_id=78, incarnation_id=UUID(int=78 << 64), listeners=[listener])


def envelope(version: int, facts: Facts) -> Iterator[Sample]:
    inner = _request(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None)
    frame = encode_request_header(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 7, "inner") + inner.encode(0)
    principal = b"\0\0" + DefaultPrincipalData(type="User", name=facts.principal).encode(0)
    yield "reassignments", _request(ApiKey.ENVELOPE, request_data=frame, request_principal=principal, client_host_address=facts.client_host)


_BOTH: dict[ApiKey, Make] = {ApiKey.DESCRIBE_ACLS: describe_acls, ApiKey.DESCRIBE_CONFIGS: describe_configs}
_FORWARDED: dict[ApiKey, Make] = {
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.ALTER_CONFIGS: alter_configs(ApiKey.ALTER_CONFIGS),
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs(ApiKey.INCREMENTAL_ALTER_CONFIGS),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: simple(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None),
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_scram,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.UNREGISTER_BROKER: simple(ApiKey.UNREGISTER_BROKER, broker_id=77),
}

SAMPLES: Mapping[str, Mapping[ApiKey, Make]] = {
    BROKER: {
        ApiKey.PRODUCE: produce,
        ApiKey.FETCH: fetch,
        ApiKey.LIST_OFFSETS: list_offsets,
        ApiKey.METADATA: all_metadata,
        ApiKey.OFFSET_COMMIT: offset_commit,
        ApiKey.OFFSET_FETCH: offset_fetch,
        ApiKey.FIND_COORDINATOR: find_coordinator,
        ApiKey.JOIN_GROUP: join_group,
        ApiKey.HEARTBEAT: of_group(ApiKey.HEARTBEAT, generation_id=1, member_id="nobody"),
        ApiKey.LEAVE_GROUP: of_group(ApiKey.LEAVE_GROUP),
        ApiKey.SYNC_GROUP: of_group(ApiKey.SYNC_GROUP, generation_id=1, member_id="nobody"),
        ApiKey.DESCRIBE_GROUPS: describe_groups,
        ApiKey.LIST_GROUPS: simple(ApiKey.LIST_GROUPS),
        ApiKey.DELETE_RECORDS: delete_records,
        ApiKey.INIT_PRODUCER_ID: init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
        ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
        ApiKey.END_TXN: end_txn,
        ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
        ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
        ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
        ApiKey.DELETE_GROUPS: simple(ApiKey.DELETE_GROUPS, groups_names=["acc.nobody", G2 + "x"]),
        ApiKey.OFFSET_DELETE: offset_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: simple(ApiKey.DESCRIBE_CLIENT_QUOTAS),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_scram,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: describe_producers,
        ApiKey.DESCRIBE_TRANSACTIONS: simple(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[X1, X2]),
        ApiKey.LIST_TRANSACTIONS: simple(ApiKey.LIST_TRANSACTIONS),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
        ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
        **_FORWARDED,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, loggers=True),
        **_BOTH,
    },
    CONTROLLER: {
        ApiKey.FETCH: raft_fetch,
        **_FORWARDED,
        **_BOTH,
        ApiKey.VOTE: simple(ApiKey.VOTE, cluster_id=OTHER_CLUSTER),
        ApiKey.BEGIN_QUORUM_EPOCH: simple(ApiKey.BEGIN_QUORUM_EPOCH, cluster_id=OTHER_CLUSTER),
        ApiKey.END_QUORUM_EPOCH: simple(ApiKey.END_QUORUM_EPOCH, cluster_id=OTHER_CLUSTER),
        ApiKey.ALTER_PARTITION: alter_partition,
        ApiKey.ENVELOPE: envelope,
        ApiKey.FETCH_SNAPSHOT: simple(ApiKey.FETCH_SNAPSHOT, cluster_id=OTHER_CLUSTER),
        ApiKey.DESCRIBE_CLUSTER: describe_controllers,
        ApiKey.BROKER_REGISTRATION: registration,
        ApiKey.BROKER_HEARTBEAT: simple(ApiKey.BROKER_HEARTBEAT, broker_id=77, broker_epoch=1),
        ApiKey.ALLOCATE_PRODUCER_IDS: simple(ApiKey.ALLOCATE_PRODUCER_IDS, broker_id=77, broker_epoch=1),
        ApiKey.CONTROLLER_REGISTRATION: controller_registration,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: simple(ApiKey.ASSIGN_REPLICAS_TO_DIRS, broker_id=77, broker_epoch=1),
    },
}
"""Listener scope -> API -> its requests, in a version."""
