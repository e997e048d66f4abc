"""Steps of `odradek reassign` in a cluster: throttles, moves between log directories, and progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.output import Row
from odradek.cli.shared.per_item import PAUSE_S
from odradek.cli.topics.reassignment_plan import Move, Replicas, throttled_replicas
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.replicas import PartitionReassignment, TopicPartitionReplica
from odradek.client.types import ConfigChange, ConfigResource
from odradek.protocol.api_keys import ApiKey

_LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_OF_BROKERS: Final = (*_RATES, _DIRECTORY_RATE)
_OF_TOPICS: Final = (_LEADER_REPLICAS, _FOLLOWER_REPLICAS)
_OWN: Final = {"topic": 1, "broker": 2}
"""Source in DescribeConfigs of a value that is set on the resource itself, by kind."""
_NOT_YET: Final = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def check_reassignment_is_supported(admin: Admin) -> None:
    """Raise OdradekError when the brokers do not support AlterPartitionReassignments. The check itself changes nothing."""

    async def look(each: AsyncAdmin) -> None:
        (await each.cluster.any_node()).versions.choose(ApiKey.ALTER_PARTITION_REASSIGNMENTS)

    admin.list_partition_reassignments([])  # waits until a broker responds, or times out
    try:
        admin.run(look)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        missing = ApiKey.ALTER_PARTITION_REASSIGNMENTS.name
        raise OdradekError(f"this cluster cannot move partitions: its brokers do not support {missing}; nothing was changed") from None


# -- throttles ----------------------------------------------------------------------------------------------------------------------------


def throttle_partitions(admin: Admin, moving: Mapping[TopicPartition, Move], brokers: Iterable[int], rate: int) -> None:
    """Limit the copying of these moves to `rate` bytes per second on each broker."""
    changes = {
        ConfigResource("topic", topic): [ConfigChange(_LEADER_REPLICAS, leaders), ConfigChange(_FOLLOWER_REPLICAS, followers)]
        for topic, (leaders, followers) in throttled_replicas(moving).items()
    }
    changes |= {ConfigResource("broker", str(broker)): [ConfigChange(name, str(rate)) for name in _RATES] for broker in brokers}
    admin.incremental_alter_configs(changes)
    _remark(f"the inter-broker throttle limit was set to {rate} B/s; `odradek reassign verify` removes it after the moves")


def throttle_directories(admin: Admin, brokers: Iterable[int], rate: int) -> None:
    """Limit the copying between log directories of these brokers to `rate` bytes per second on each broker."""
    changes = {ConfigResource("broker", str(broker)): [ConfigChange(_DIRECTORY_RATE, str(rate))] for broker in brokers}
    if changes:
        admin.incremental_alter_configs(changes)
        _remark(f"the replica-alter-dir throttle limit was set to {rate} B/s; `odradek reassign verify` removes it after the moves")


def clear_throttles(admin: Admin, wanted: Replicas) -> None:
    """Remove all throttles from the topics and from all brokers, because the brokers that took part in the moves are unknown."""
    brokers = {each.node_id for each in admin.describe_cluster().brokers}
    topics = {
        topic.name for topic in admin.try_describe_topics({each.topic for each in wanted}).values() if not isinstance(topic, KafkaError)
    }
    resources = [ConfigResource("broker", str(each)) for each in sorted(brokers)]
    resources += [ConfigResource("topic", each) for each in sorted(topics)]
    set_: dict[ConfigResource, list[ConfigChange]] = {}
    for resource, entries in admin.describe_configs(resources).items():
        keys = _OF_BROKERS if resource.kind == "broker" else _OF_TOPICS
        own = [each.name for each in entries if each.name in keys and each.source == _OWN[resource.kind]]
        if own:
            set_[resource] = [ConfigChange(name, operation="delete") for name in own]
    if set_:
        admin.incremental_alter_configs(set_)
        _remark(f"cleared the throttles of {', '.join(f'{each.kind} {each.name}' for each in set_)}")


def _remark(text: str) -> None:
    click.echo(f"odradek reassign: {text}", err=True)


# -- log directories ----------------------------------------------------------------------------------------------------------------------


def move_directories(admin: Admin, targets: Mapping[TopicPartitionReplica, str], timeout_ms: int) -> None:
    """Start moves of replicas to log directories. Retry for replicas that their broker does not have yet, for `timeout_ms` milliseconds.

    Raises KafkaError when a broker refuses a move, OdradekError when moves could not start in time.
    """
    left = dict(targets)
    deadline = time.monotonic() + timeout_ms / 1000
    while left:
        for replica, error in admin.try_alter_replica_log_dirs(left).items():
            if error is None:
                _remark(f"started moving {replica} to {left[replica]}")
            elif error.code not in _NOT_YET:
                raise KafkaError(error.code, f"{replica}: {error.message}")
            if error is None:
                del left[replica]
        if left:
            if time.monotonic() >= deadline:
                raise OdradekError(f"moves to log directories did not start within {timeout_ms} ms: {', '.join(map(str, sorted(left)))}")
            time.sleep(PAUSE_S)


def log_dirs_of(admin: Admin, replicas: Replicas) -> dict[TopicPartitionReplica, str]:
    """Return the log directories of the replicas. The result lacks replicas of unreachable brokers."""
    wanted = [
        TopicPartitionReplica(partition.topic, partition.partition, broker) for partition, brokers in replicas.items() for broker in brokers
    ]
    found = admin.try_describe_replica_log_dirs(wanted)
    return {
        replica: info.current_log_dir
        for replica, info in found.items()
        if not isinstance(info, KafkaError) and info.current_log_dir is not None
    }


def active_directory_moves(admin: Admin, targets: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, str]:
    """Return the replicas that move between log directories now, each with its present directory."""
    found = admin.describe_replica_log_dirs(targets) if targets else {}
    return {
        replica: info.current_log_dir
        for replica, info in found.items()
        if info.future_log_dir is not None and info.current_log_dir is not None
    }


# -- how far ------------------------------------------------------------------------------------------------------------------------------


def partition_rows(admin: Admin, wanted: Replicas, under_way: Mapping[TopicPartition, PartitionReassignment]) -> list[Row]:
    """Return a row for each partition: "in progress", "completed", or "not active" if nothing moves and the replicas differ."""
    topics = admin.try_describe_topics(sorted({partition.topic for partition in wanted}))
    rows: list[Row] = []
    for partition, target in sorted(wanted.items()):
        topic = topics[partition.topic]
        if isinstance(topic, KafkaError):
            if topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
            current: Sequence[int] = ()
        else:
            current = topic.partitions[partition.partition].replicas if partition.partition in topic.partitions else ()
        state = "in progress" if partition in under_way else "completed" if list(current) == list(target) else "not active"
        rows.append(_row(partition, None, state, list(current), list(target)))
    return rows


def directory_rows(admin: Admin, targets: Mapping[TopicPartitionReplica, str]) -> list[Row]:
    """Return a row for each replica with a wanted log directory."""
    found = admin.describe_replica_log_dirs(targets) if targets else {}
    rows: list[Row] = []
    for replica, target in sorted(targets.items()):
        info = found[replica]
        state = "completed" if info.current_log_dir == target else "not active"
        if info.future_log_dir is not None:
            state = "in progress" if info.future_log_dir == target else "not active"
        rows.append(_row(replica.topic_partition, replica.broker_id, state, info.current_log_dir, target))
    return rows


def _row(partition: TopicPartition, broker: int | None, state: str, current: object, target: object) -> Row:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "broker": broker,
        "state": state,
        "current": current,
        "target": target,
    }
