"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a real partition, on and off."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.handlers.group import consumer_group_describe, consumer_group_heartbeat, list_groups, offset_fetch
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.handlers.group_support import Groups


def a_broker(*, level: int = 1, **config: str) -> Groups:
    broker = Groups(**config)
    broker.apply(FeatureLevelRecord(name="group.version", feature_level=level))
    return broker


def joining(member: str = "m") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_and_is_described(version: int) -> None:
    broker = a_broker()
    joined = broker.ask(consumer_group_heartbeat.handle, joining(), version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    assert [(topic.topic_id, topic.partitions) for topic in joined.assignment.topic_partitions] == [(broker.topic, [0, 1])]
    request = ConsumerGroupDescribeRequest(group_ids=["g", "x"], include_authorized_operations=True)
    described, unknown = broker.ask(consumer_group_describe.handle, request, version).groups
    assert (described.group_state, described.group_epoch, [each.member_id for each in described.members]) == ("Stable", 2, ["m"])
    assert described.authorized_operations > 0 > unknown.authorized_operations
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (listed,) = broker.ask(list_groups.handle, ListGroupsRequest(), 5).groups
    assert (listed.group_state, listed.group_type, listed.protocol_type) == ("Stable", "consumer", "consumer")


@pytest.mark.parametrize(
    ("level", "config"), [(0, {}), (1, {"group_coordinator_rebalance_protocols": "classic"})], ids=["group.version", "protocols"]
)
def test_the_protocol_can_be_off(level: int, config: dict[str, str]) -> None:
    broker = a_broker(level=level, **config)
    assert broker.ask(consumer_group_heartbeat.handle, joining(), 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    (described,) = broker.ask(consumer_group_describe.handle, ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_of_groups_that_are_coordinated_elsewhere_each_is_answered() -> None:
    broker = a_broker()
    broker.move_leader(broker.offsets_id, 2)
    groups = broker.ask(consumer_group_describe.handle, ConsumerGroupDescribeRequest(group_ids=["g", "x"]), 1).groups
    assert {each.group_id: each.error_code for each in groups} == dict.fromkeys(["g", "x"], ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("version", [9, 10])
def test_offsets_are_for_those_who_are_members_now(version: int) -> None:
    broker = a_broker()
    broker.ask(consumer_group_heartbeat.handle, joining(), 1)
    for member, epoch, code in (("m", 2, ErrorCode.NONE), ("m", 1, ErrorCode.STALE_MEMBER_EPOCH), ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID)):
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", topic_id=broker.topic, partition_indexes=[0])
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=[topic])
        (answer,) = broker.ask(offset_fetch.handle, OffsetFetchRequest(groups=[group]), version).groups
        assert answer.error_code == code
