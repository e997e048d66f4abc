"""The admin client with groups of both protocols and with older brokers: what it asks instead, and what it says it cannot."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.groups import GroupListing, GroupState, GroupType, MemberToRemove
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.client.admin_world import AdminWorld, play
from tests.loops import told_by

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONSUMER_GROUPS = {"new"}
CLASSIC_GROUPS = {"old": "consumer", "connect": "connect"}


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


def describe_consumer(node: int, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    groups = [
        ConsumerGroupDescribeResponse.DescribedGroup(
            group_id=name,
            group_state="Stable",
            error_code=ErrorCode.NONE if name in CONSUMER_GROUPS else ErrorCode.GROUP_ID_NOT_FOUND,
        )
        for name in request.group_ids
    ]
    return ConsumerGroupDescribeResponse(groups=groups)


def describe_classic(node: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = [
        DescribeGroupsResponse.DescribedGroup(
            group_id=name,
            group_state="Stable",
            protocol_type=CLASSIC_GROUPS.get(name, ""),
            error_code=ErrorCode.NONE if name in CLASSIC_GROUPS else ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=None if name in CLASSIC_GROUPS else f"Group {name} not found.",
        )
        for name in request.groups
    ]
    return DescribeGroupsResponse(groups=groups)


# -- groups -------------------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_what_is_no_group_of_the_new_protocol_is_described_as_a_classic_one(world: AdminWorld) -> None:
    world.coordinators["old"] = 2
    world.on(ConsumerGroupDescribeRequest, describe_consumer)
    world.on(DescribeGroupsRequest, describe_classic)
    found = await world.admin.try_describe_consumer_groups(["old", "new", "connect", "absent"], include_authorized_operations=True)
    assert {name: code(each) for name, each in found.items()} == {
        "old": None,
        "new": None,
        "connect": ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "absent": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert [each.group_type for each in found.values() if not isinstance(each, KafkaError)] == [GroupType.CLASSIC, GroupType.CONSUMER]
    assert [each.coordinator.host for each in found.values() if not isinstance(each, KafkaError)] == ["broker2", "broker1"]
    asked = sorted((node, sorted(request.groups)) for node, request in world.asked(DescribeGroupsRequest))
    assert asked == [(1, ["absent", "connect"]), (2, ["old"])]
    assert all(request.include_authorized_operations for _, request in world.asked(DescribeGroupsRequest))


@told_by(play, served={ApiKey.CONSUMER_GROUP_DESCRIBE: (0, -1)})
async def test_a_broker_without_the_new_protocol_is_asked_for_classic_groups(world: AdminWorld) -> None:
    world.on(DescribeGroupsRequest, describe_classic)
    found = await world.admin.describe_consumer_groups(["old"])
    assert found["old"].state is GroupState.STABLE


def listing(groups: dict[int, list[str]], failing: int = 0) -> object:
    def answer(node: int, request: ListGroupsRequest) -> ListGroupsResponse:
        if node == failing:
            return ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        each = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(
            groups=[
                each(group_id=name, protocol_type=name.split("-")[0], group_state="Stable", group_type="Classic")
                for name in groups.get(node, [])
            ]
        )

    return answer


@told_by(play)
async def test_all_brokers_are_asked_for_their_groups_and_a_group_is_listed_once(world: AdminWorld) -> None:
    world.on(ListGroupsRequest, listing({1: ["consumer-b"], 2: ["consumer-b", "connect-a"], 3: []}))  # type: ignore[arg-type]
    assert [each.group_id for each in await world.admin.list_groups()] == ["connect-a", "consumer-b"]
    assert sorted(world.nodes_asked(ListGroupsRequest)) == [1, 2, 3]
    assert [each.group_id for each in await world.admin.list_consumer_groups()] == ["consumer-b"]


@told_by(play)
async def test_a_broker_that_refuses_does_not_hide_the_groups_of_the_others(world: AdminWorld) -> None:
    world.on(ListGroupsRequest, listing({1: ["consumer-a"], 3: ["consumer-c"]}, failing=2))  # type: ignore[arg-type]
    found = await world.admin.try_list_groups()
    assert {node: code(each) for node, each in found.items()} == {1: None, 2: ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 3: None}
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED: groups of broker 2"):
        await world.admin.list_groups()


@told_by(play)
async def test_a_coordinator_that_loads_is_asked_again_for_its_groups(world: AdminWorld) -> None:
    def answer(node: int, request: ListGroupsRequest) -> ListGroupsResponse:
        loads = node == 2 and world.nodes_asked(ListGroupsRequest).count(2) < 3
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loads else ErrorCode.NONE)

    world.on(ListGroupsRequest, answer)
    assert await world.admin.list_groups() == []
    assert sorted(world.nodes_asked(ListGroupsRequest)) == [1, 2, 2, 2, 3]


@told_by(play, served={ApiKey.LIST_GROUPS: (0, 3)})
async def test_an_old_broker_says_neither_state_nor_type_and_cannot_choose_by_them(world: AdminWorld) -> None:
    world.on(ListGroupsRequest, listing({1: ["consumer-a"]}))  # type: ignore[arg-type]
    assert await world.admin.list_groups() == [GroupListing("consumer-a", None, "consumer", None)]
    with pytest.raises(KafkaError, match=r"UNSUPPORTED_VERSION: .* up to version 3; filtering by states needs version 4"):
        await world.admin.list_groups(states=["stable"])
    with pytest.raises(KafkaError, match=r"UNSUPPORTED_VERSION: .* up to version 3; filtering by types needs version 5"):
        await world.admin.list_groups(types=[GroupType.CLASSIC])
    with pytest.raises(ValueError, match="'stabel' must be one of"):
        await world.admin.list_groups(states=["stabel"])
    assert len(world.asked(ListGroupsRequest)) == 3


@told_by(play, served={ApiKey.OFFSET_FETCH: (0, 7)})
async def test_offsets_of_several_groups_are_asked_for_one_by_one_where_it_has_to_be(world: AdminWorld) -> None:
    def answer(node: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if request.group_id == "b":
            return OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        unstable = request.group_id == "c" and len(world.asked(OffsetFetchRequest)) < 5
        part = OffsetFetchResponse.OffsetFetchResponsePartition(
            partition_index=0,
            committed_offset=5,
            committed_leader_epoch=2,
            metadata="m",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE,
        )
        return OffsetFetchResponse(topics=[OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=[part])])

    world.on(OffsetFetchRequest, answer)
    found = await world.admin.try_list_consumer_group_offsets({"a": None, "b": [P0], "c": [P0]}, require_stable=True)
    assert code(found["b"]) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert found["a"] == found["c"] == {P0: (5, 2, "m")}
    by_group = {request.group_id: request for _, request in world.asked(OffsetFetchRequest)}
    assert by_group["a"].topics is None
    assert [(each.name, each.partition_indexes) for each in by_group["b"].topics or ()] == [("t", [0])]
    assert [request.group_id for _, request in world.asked(OffsetFetchRequest)] == ["a", "b", "c", "c", "c"]


@told_by(play, served={ApiKey.OFFSET_FETCH: (0, 6)})
async def test_a_broker_that_cannot_wait_for_stable_offsets_says_so(world: AdminWorld) -> None:
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION: the broker cannot wait for stable offsets"):
        await world.admin.list_consumer_group_offsets(["a"], require_stable=True)


@told_by(play)
async def test_the_first_partition_whose_offset_cannot_be_told_is_raised(world: AdminWorld) -> None:
    def answer(node: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        each = OffsetFetchResponse
        parts = [each.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata="", error_code=29)]
        topics = [each.OffsetFetchResponseTopics(name="t", partitions=parts)]
        return each(groups=[each.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics) for group in request.groups])

    world.on(OffsetFetchRequest, answer)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: offset of t-1"):
        await world.admin.list_consumer_group_offsets(["a", "b"])
    assert len(world.asked(OffsetFetchRequest)) == 1


@told_by(play)
async def test_members_are_removed_by_name_or_all_and_each_has_its_outcome(world: AdminWorld) -> None:
    def answer(node: int, request: LeaveGroupRequest) -> LeaveGroupResponse:
        if len(world.asked(LeaveGroupRequest)) == 1:
            return LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
        each = LeaveGroupResponse.MemberResponse
        return LeaveGroupResponse(
            members=[
                each(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID if member.group_instance_id == "gone" else ErrorCode.NONE,
                )
                for member in request.members
            ]
        )

    def described(node: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        each = DescribeGroupsResponse
        members = [each.DescribedGroupMember(member_id="m-1", group_instance_id="i-1"), each.DescribedGroupMember(member_id="m-2")]
        return each(groups=[each.DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer", members=members)])

    world.on(LeaveGroupRequest, answer)
    world.on(ConsumerGroupDescribeRequest, describe_consumer)
    world.on(DescribeGroupsRequest, described)
    found = await world.admin.try_remove_members_from_consumer_group("g", [MemberToRemove("here"), MemberToRemove("gone")])
    assert {name: code(each) for name, each in found.items()} == {"here": None, "gone": ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(world.asked(DescribeGroupsRequest)) == 0
    await world.admin.remove_members_from_consumer_group("g")
    _, request = world.asked(LeaveGroupRequest)[-1]
    assert [(each.member_id, each.group_instance_id) for each in request.members] == [("", "i-1"), ("m-2", None)]


@told_by(play, served={ApiKey.LEAVE_GROUP: (0, 2)})
async def test_a_broker_that_cannot_remove_static_members_says_so(world: AdminWorld) -> None:
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION: the broker cannot remove members"):
        await world.admin.remove_members_from_consumer_group("g", [MemberToRemove("i")])


# -- topics -------------------------------------------------------------------------------------------------------------------------------


@told_by(play, served={ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, -1)})
async def test_topics_are_described_by_metadata_where_there_are_no_pages(world: AdminWorld) -> None:
    world.leaders = {"t": {0: 1, 1: 2}}
    found = await world.admin.try_describe_topics(["t", "absent"])
    topic = found["t"]
    assert not isinstance(topic, KafkaError)
    assert [(each.leader, each.eligible_leader_replicas) for each in topic.partitions.values()] == [(1, None), (2, None)]
    assert str(found["absent"]) == "UNKNOWN_TOPIC_OR_PARTITION: topic absent does not exist"
    assert [request.allow_auto_topic_creation for _, request in world.asked(MetadataRequest)] == [False]


@told_by(play)
async def test_a_topic_whose_leader_is_being_made_is_asked_for_again(world: AdminWorld) -> None:
    def answer(node: int, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        each = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        first = len(world.asked(DescribeTopicPartitionsRequest)) == 1
        return DescribeTopicPartitionsResponse(
            topics=[each(name=topic.name, error_code=ErrorCode.LEADER_NOT_AVAILABLE if first else 0) for topic in request.topics]
        )

    world.on(DescribeTopicPartitionsRequest, answer)
    assert (await world.admin.describe_topics(["t"]))["t"].name == "t"


@told_by(play, served={ApiKey.METADATA: (0, 11), ApiKey.DELETE_TOPICS: (0, 5)})
async def test_ids_are_no_names_for_old_brokers(world: AdminWorld) -> None:
    world.leaders = {"t": {0: 1}}
    for call in (world.admin.try_describe_topics, world.admin.try_delete_topics):
        found = await call([UUID(int=5)])
        assert [code(each) for each in found.values()] == [ErrorCode.UNSUPPORTED_VERSION]

    def answer(node: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        each = DeleteTopicsResponse.DeletableTopicResult
        return DeleteTopicsResponse(responses=[each(name=name) for name in request.topic_names])

    world.on(DeleteTopicsRequest, answer)
    await world.admin.delete_topics(["t"])
    assert [request.topic_names for _, request in world.asked(DeleteTopicsRequest)] == [["t"]]


# -- the rest -----------------------------------------------------------------------------------------------------------------------------


@told_by(play, served={ApiKey.LIST_CONFIG_RESOURCES: (0, 0)})
async def test_a_broker_that_lists_only_client_metrics_is_asked_for_nothing_else(world: AdminWorld) -> None:
    each = ListConfigResourcesResponse.ConfigResource
    world.on(ListConfigResourcesRequest, lambda node, request: ListConfigResourcesResponse(config_resources=[each(resource_name="m")]))
    assert await world.admin.list_client_metrics_resources() == ["m"]
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION: the broker can list only client-metrics resources"):
        await world.admin.list_config_resources()


@told_by(play, served={ApiKey.LIST_TRANSACTIONS: (0, 1)})
async def test_a_filter_that_a_broker_lacks_is_not_dropped(world: AdminWorld) -> None:
    world.on(ListTransactionsRequest, lambda node, request: ListTransactionsResponse())
    assert await world.admin.list_transactions(states=["ongoing"]) == []
    found = await world.admin.try_list_transactions(transactional_id_pattern="a.*")
    assert {code(each) for each in found.values()} == {ErrorCode.UNSUPPORTED_VERSION}
    assert {tuple(request.state_filters) for _, request in world.asked(ListTransactionsRequest)} == {("Ongoing",)}
