"""Rows of `odradek groups describe`: the columns of kafka-consumer-groups.sh --describe, under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.base.addresses import host_port
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.output import Row
from odradek.cli.shared.per_item import existing_partitions
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.groups import ConsumerGroupDescription, GroupState, MemberDescription, OffsetAndMetadata
from odradek.client.admin.types.topics import OffsetSpec

NAME: Final = "odradek groups"
_REBALANCING: Final = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.ASSIGNING, GroupState.RECONCILING)


class Report(NamedTuple):
    """Rows of all groups, remarks on groups, and errors of the groups that could not be described."""

    rows: list[Row]
    remarks: list[str]
    errors: Mapping[str, KafkaError]


def report(admin: Admin, groups: Iterable[str], what: str, *, verbose: bool) -> Report:
    """Describe groups and return the report; `what` is "--offsets", "--members" or "--state"."""
    rows: list[Row] = []
    remarks: list[str] = []
    errors: dict[str, KafkaError] = {}
    described: dict[str, ConsumerGroupDescription] = {}
    for group, found in admin.try_describe_consumer_groups(groups).items():
        if isinstance(found, KafkaError):
            errors[group] = found
        else:
            described[group] = found
            if what != "--state":
                remarks += _remarks(found)
    if what == "--state":
        rows += [_state_row(each, verbose=verbose) for each in described.values()]
    elif what == "--members":
        for each in described.values():
            rows += [_member_row(each, member, verbose=verbose) for member in _by_assignment(each.members)]
    elif described:
        committed = admin.list_consumer_group_offsets(list(described))
        ends = end_offsets(admin, _partitions(described.values(), committed))
        for name, each in described.items():
            rows += offset_rows(each, committed[name], ends, verbose=verbose)
    return Report(rows, remarks, errors)


def _remarks(group: ConsumerGroupDescription) -> list[str]:
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return [f"{NAME}: Consumer group '{group.group_id}' has no active members."]
    if group.state in _REBALANCING:
        return [f"{NAME}: Warning: Consumer group '{group.group_id}' is rebalancing."]
    return []


def _partitions(
    groups: Iterable[ConsumerGroupDescription], committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata | None]]
) -> set[TopicPartition]:
    assigned = {partition for group in groups for member in group.members for partition in member.assignment}
    return assigned.union(*committed.values())


def end_offsets(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offsets of the partitions that exist and have a leader. The result lacks the other partitions."""
    existing = existing_partitions(admin, partitions)
    outcomes = admin.try_list_offsets(dict.fromkeys(existing, OffsetSpec.LATEST))
    return {partition: found.offset for partition, found in outcomes.items() if not isinstance(found, KafkaError)}


def offset_rows(
    group: ConsumerGroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, int],
    *,
    verbose: bool,
) -> list[Row]:
    """Return a row for each partition that is assigned or has an offset, in order, then for each member without partitions."""
    owners = {partition: member for member in group.members for partition in member.assignment}
    rows = [
        _offset_row(group.group_id, partition, committed.get(partition), ends.get(partition), owners.get(partition), verbose=verbose)
        for partition in sorted({*owners, *committed})
    ]
    idle = [member for member in _by_assignment(group.members) if not member.assignment]
    return [*rows, *(_offset_row(group.group_id, None, None, None, member, verbose=verbose) for member in idle)]


def _offset_row(
    group: str,
    partition: TopicPartition | None,
    committed: OffsetAndMetadata | None,
    end: int | None,
    owner: MemberDescription | None,
    *,
    verbose: bool,
) -> Row:
    current = committed.offset if committed is not None and committed.offset >= 0 else None
    row: dict[str, object] = {
        "group": group,
        "topic": partition.topic if partition is not None else None,
        "partition": partition.partition if partition is not None else None,
    }
    if verbose:
        row["leader_epoch"] = committed.leader_epoch if committed is not None else None
    return {
        **row,
        "current_offset": current,
        "log_end_offset": end,
        "lag": end - current if end is not None and current is not None else None,
        "consumer_id": owner.member_id if owner is not None else None,
        "host": owner.host if owner is not None else None,
        "client_id": owner.client_id if owner is not None else None,
    }


def _by_assignment(members: Sequence[MemberDescription]) -> list[MemberDescription]:
    return sorted(members, key=lambda member: (-len(member.assignment), member.member_id))


def _member_row(group: ConsumerGroupDescription, member: MemberDescription, *, verbose: bool) -> Row:
    row: dict[str, object] = {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partitions": len(member.assignment),
    }
    if verbose:
        row |= {
            "current_epoch": member.member_epoch,
            "current_assignment": _assignment(member.assignment),
            "target_epoch": group.target_assignment_epoch,
            "target_assignment": _assignment(member.target_assignment or ()),
            "upgraded": member.upgraded,
        }
    return row


def _assignment(partitions: Iterable[TopicPartition]) -> str | None:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items()) or None


def _state_row(group: ConsumerGroupDescription, *, verbose: bool) -> Row:
    row: dict[str, object] = {
        "group": group.group_id,
        "coordinator": host_port(group.coordinator.host, group.coordinator.port),
        "coordinator_id": group.coordinator.node_id,
        "assignment_strategy": group.partition_assignor or None,
        "state": group.state,
    }
    if verbose:
        row |= {"group_epoch": group.group_epoch, "target_assignment_epoch": group.target_assignment_epoch}
    return {**row, "members": len(group.members)}
