"""The admin client with several brokers: whom it asks, what it asks again, and that no item spoils the others."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, AsyncAdmin
from odradek.client.admin.types.groups import OffsetAndMetadata
from odradek.client.admin.types.replicas import ElectionType
from odradek.client.admin.types.topics import OffsetSpec
from odradek.client.types import ConfigChange, ConfigResource, NewTopic
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest
from tests.client.admin_world import AdminWorld, play
from tests.loops import told_by

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


def deleted(request: DeleteRecordsRequest, errors: dict[int, ErrorCode]) -> DeleteRecordsResponse:
    result = DeleteRecordsResponse.DeleteRecordsPartitionResult
    topics = [
        DeleteRecordsResponse.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                result(
                    partition_index=each.partition_index,
                    low_watermark=each.partition_index + 7,
                    error_code=errors.get(each.partition_index, ErrorCode.NONE),
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def partitions_of(request: DeleteRecordsRequest) -> list[int]:
    return [each.partition_index for topic in request.topics for each in topic.partitions]


def groups_deleted(request: DeleteGroupsRequest, errors: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    result = DeleteGroupsResponse.DeletableGroupResult
    return DeleteGroupsResponse(
        results=[result(group_id=name, error_code=errors.get(name, ErrorCode.NONE)) for name in request.groups_names]
    )


# -- at the leaders -----------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_what_is_done_is_not_done_again_when_another_leader_has_to_be_asked_twice(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2}
    moved: list[int] = []

    def answer(node: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        if node == 2:
            moved.append(node)
            world.leaders["t"][1] = 3
            return deleted(request, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        return deleted(request, {})

    world.on(DeleteRecordsRequest, answer)
    assert await world.admin.delete_records({P0: -1, P1: -1}) == {P0: 7, P1: 8}
    assert [(node, partitions_of(request)) for node, request in world.asked(DeleteRecordsRequest)] == [(1, [0]), (2, [1]), (3, [1])]


@told_by(play, default_api_timeout_ms="10000", request_timeout_ms="4000")
async def test_a_broker_that_does_not_answer_does_not_delay_what_others_are_asked_again(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2}
    times: list[float] = []

    def answer(node: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse | None:
        if node == 2:
            return None
        times.append(asyncio.get_running_loop().time())
        return deleted(request, {0: ErrorCode.KAFKA_STORAGE_ERROR} if len(times) < 3 else {})

    world.on(DeleteRecordsRequest, answer)
    begun = asyncio.get_running_loop().time()
    found = await world.admin.try_delete_records({P1: -1, P0: -1})
    took = asyncio.get_running_loop().time() - begun
    assert list(found) == [P1, P0]
    assert found[P0] == 7
    assert code(found[P1]) is ErrorCode.REQUEST_TIMED_OUT
    assert len(times) == 3
    assert times[-1] - begun < 2
    assert 9 <= took <= 10.3


@told_by(play)
async def test_the_plain_form_raises_the_first_error_when_everything_is_settled(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2, 2: 3}
    world.on(
        DeleteRecordsRequest, lambda node, request: deleted(request, {1: ErrorCode.OFFSET_OUT_OF_RANGE, 0: ErrorCode.POLICY_VIOLATION})
    )
    with pytest.raises(KafkaError) as caught:
        await world.admin.delete_records({P2: 1, P1: 1, P0: 1})
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert sorted(world.nodes_asked(DeleteRecordsRequest)) == [1, 2, 3]


@told_by(play, default_api_timeout_ms="8000")
async def test_a_partition_without_leader_is_waited_for(world: AdminWorld) -> None:
    world.leaders["t"] = {0: -1}
    world.on(DeleteRecordsRequest, lambda node, request: deleted(request, {}))
    call = asyncio.ensure_future(world.admin.try_delete_records({P0: 1, P1: 1}))
    await asyncio.sleep(3)
    assert world.nodes_asked(DeleteRecordsRequest) == []
    world.leaders["t"] = {0: 3}
    found = await call
    assert found[P0] == 7
    assert str(found[P1]) == "UNKNOWN_TOPIC_OR_PARTITION: t-1 does not exist"
    # 100 ms, then twice as long each time, up to a second.
    assert 8 <= len(world.asked(MetadataRequest)) <= 16


@told_by(play)
async def test_an_answer_that_leaves_out_an_item_is_an_error_of_that_item(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 1}

    def answer(node: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        response = deleted(request, {})
        response.topics[0].partitions.pop()
        return response

    world.on(DeleteRecordsRequest, answer)
    found = await world.admin.try_delete_records({P0: 1, P1: 1})
    assert found[P0] == 7
    assert str(found[P1]) == "UNKNOWN_SERVER_ERROR: the broker's response does not contain t-1"


@told_by(play)
async def test_leaders_that_are_known_are_not_asked_for_again(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1}
    world.on(DeleteRecordsRequest, lambda node, request: deleted(request, {}))
    for _ in range(3):
        await world.admin.delete_records({P0: 1})
    assert len(world.asked(MetadataRequest)) == 1


@told_by(play, served={ApiKey.LIST_OFFSETS: (1, 6)})
async def test_a_spec_that_one_leader_does_not_know_is_an_error_of_its_partitions_alone(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 1}

    def answer(node: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        part = ListOffsetsResponse.ListOffsetsPartitionResponse
        topics = [
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name, partitions=[part(partition_index=each.partition_index, offset=5) for each in topic.partitions]
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    world.on(ListOffsetsRequest, answer)
    found = await world.admin.try_list_offsets({P0: OffsetSpec.MAX_TIMESTAMP, P1: OffsetSpec.LATEST})
    assert str(found[P0]) == "UNSUPPORTED_VERSION: the broker supports LIST_OFFSETS up to version 6; MAX_TIMESTAMP of t-0 needs version 7"
    assert found[P1] == (5, -1, None)


# -- at the controller --------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_another_controller_is_found_after_not_controller(world: AdminWorld) -> None:
    def answer(node: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        error = ErrorCode.NONE
        if node == 1:
            error = ErrorCode.NOT_CONTROLLER
            world.controller = 2
        result = CreateTopicsResponse.CreatableTopicResult
        taken = ErrorCode.TOPIC_ALREADY_EXISTS
        return CreateTopicsResponse(
            topics=[result(name=each.name, error_code=error or (taken if each.name == "u" else 0)) for each in request.topics]
        )

    world.on(CreateTopicsRequest, answer)
    found = await world.admin.try_create_topics([NewTopic("t"), NewTopic("u"), NewTopic("t", 9)])
    assert [code(each) for each in found.values()] == [None, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert world.nodes_asked(CreateTopicsRequest) == [1, 2]
    # A name that is there twice is asked for once, as it was given first.
    assert [each.num_partitions for each in world.asked(CreateTopicsRequest)[0][1].topics] == [-1, -1]


@told_by(play, default_api_timeout_ms="10000", request_timeout_ms="4000")
async def test_a_controller_that_is_gone_is_looked_for_until_the_time_is_over(world: AdminWorld) -> None:
    world.on(CreateTopicsRequest, lambda node, request: None)
    begun = asyncio.get_running_loop().time()
    with pytest.raises(KafkaError, match=r"REQUEST_TIMED_OUT: topic t: .*\(gave up after 10000 ms\)"):
        await world.admin.create_topics([NewTopic("t")])
    assert asyncio.get_running_loop().time() - begun < 10.3
    # Nor does the broker take longer for it than the call has left.
    given = [request.timeout_ms for _, request in world.asked(CreateTopicsRequest)]
    assert given[:2] == [4000, 4000]
    assert 0 < given[2] < 2000


@pytest.mark.parametrize("retries", [0, 2])
def test_an_item_is_asked_for_as_often_as_retries_says(retries: int) -> None:
    async def story(world: AdminWorld) -> None:
        world.on(CreateTopicsRequest, lambda node, request: None)
        with pytest.raises(KafkaError, match=rf"topic t: .*\(gave up after {retries + 1} attempts?\)"):
            await world.admin.create_topics([NewTopic("t")])
        assert len(world.asked(CreateTopicsRequest)) == retries + 1

    play(story, default_api_timeout_ms="60000", request_timeout_ms="100", retries=str(retries))


# -- at the coordinators ------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_groups_are_asked_for_together_at_each_of_their_coordinators(world: AdminWorld) -> None:
    world.coordinators = {"a": 1, "b": 2, "c": 1}
    world.on(DeleteGroupsRequest, lambda node, request: groups_deleted(request, {"c": ErrorCode.NON_EMPTY_GROUP}))
    found = await world.admin.try_delete_consumer_groups(["a", "b", "c", "a"])
    assert {name: code(each) for name, each in found.items()} == {"a": None, "b": None, "c": ErrorCode.NON_EMPTY_GROUP}
    assert len(world.asked(FindCoordinatorRequest)) == 1
    assert sorted((node, request.groups_names) for node, request in world.asked(DeleteGroupsRequest)) == [(1, ["a", "c"]), (2, ["b"])]


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
@told_by(play)
async def test_a_coordinator_that_moved_is_found_again_for_what_is_left(world: AdminWorld, error: ErrorCode) -> None:
    world.coordinators = {"a": 1, "b": 1}

    def answer(node: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        world.coordinators["b"] = 3
        return groups_deleted(request, {"b": error} if node == 1 else {})

    world.on(DeleteGroupsRequest, answer)
    await world.admin.delete_consumer_groups(["a", "b"])
    assert [(node, request.groups_names) for node, request in world.asked(DeleteGroupsRequest)] == [(1, ["a", "b"]), (3, ["b"])]
    assert [request.coordinator_keys for _, request in world.asked(FindCoordinatorRequest)] == [["a", "b"], ["b"]]


@told_by(play)
async def test_a_coordinator_that_loads_is_asked_again_without_being_looked_for(world: AdminWorld) -> None:
    def answer(node: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        loads = len(world.asked(DeleteGroupsRequest)) < 3
        return groups_deleted(request, {"a": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} if loads else {})

    world.on(DeleteGroupsRequest, answer)
    await world.admin.delete_consumer_groups(["a"])
    assert len(world.asked(DeleteGroupsRequest)) == 3
    assert len(world.asked(FindCoordinatorRequest)) == 1


@told_by(play)
async def test_a_coordinator_whose_connection_breaks_is_found_again(world: AdminWorld) -> None:
    def answer(node: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse | None:
        if node == 2:
            world.coordinators["a"] = 3
            for transport in list(world.brokers.open):
                transport.close()
            return None
        return groups_deleted(request, {})

    world.coordinators["a"] = 2
    world.on(DeleteGroupsRequest, answer)
    await world.admin.delete_consumer_groups(["a"])
    assert world.nodes_asked(DeleteGroupsRequest) == [2, 3]


@told_by(play)
async def test_a_group_whose_coordinator_may_not_be_known_does_not_spoil_the_others(world: AdminWorld) -> None:
    world.coordinator_errors["b"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.on(DeleteGroupsRequest, lambda node, request: groups_deleted(request, {}))
    found = await world.admin.try_delete_consumer_groups(["a", "b"])
    assert {name: code(each) for name, each in found.items()} == {"a": None, "b": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert len(world.asked(FindCoordinatorRequest)) == 1


def test_partitions_of_one_group_go_to_its_one_coordinator() -> None:
    from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

    async def story(world: AdminWorld) -> None:
        def answer(node: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
            part = OffsetCommitResponse.OffsetCommitResponsePartition
            error = ErrorCode.REBALANCE_IN_PROGRESS if len(world.asked(OffsetCommitRequest)) == 1 else ErrorCode.NONE
            return OffsetCommitResponse(
                topics=[
                    OffsetCommitResponse.OffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=[
                            part(partition_index=each.partition_index, error_code=error if each.partition_index else ErrorCode.NONE)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )

        world.coordinators["g"] = 2
        world.on(OffsetCommitRequest, answer)
        await world.admin.alter_consumer_group_offsets("g", {P0: 5, P1: OffsetAndMetadata(6, 3, "m")})
        assert world.nodes_asked(OffsetCommitRequest) == [2, 2]
        first, second = (request for _, request in world.asked(OffsetCommitRequest))
        assert [(each.committed_offset, each.committed_leader_epoch, each.committed_metadata) for each in first.topics[0].partitions] == [
            (5, -1, ""),
            (6, 3, "m"),
        ]
        assert (first.generation_id_or_member_epoch, first.member_id) == (-1, "")
        assert [each.partition_index for each in second.topics[0].partitions] == [1]

    play(story)


@told_by(play, request_timeout_ms="3000")
async def test_what_goes_one_item_a_request_has_one_outcome_an_item(world: AdminWorld) -> None:
    def answer(node: int, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
        asked = [each.transactional_id for _, each in world.asked(InitProducerIdRequest)]
        if request.transactional_id == "a":
            return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.transactional_id == "b" and asked.count("b") < 3:
            return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        if request.transactional_id == "c" and asked.count("c") < 2:
            return None
        return InitProducerIdResponse(producer_id=7, producer_epoch=3)

    world.on(InitProducerIdRequest, answer)
    found = await world.admin.try_fence_producers(["a", "b", "d", "c"])
    assert code(found["a"]) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert found["b"] == found["c"] == found["d"] == (7, 3)
    asked = [request.transactional_id for _, request in world.asked(InitProducerIdRequest)]
    assert [asked.count(name) for name in "abcd"] == [1, 3, 2, 1]
    assert {request.transaction_timeout_ms for _, request in world.asked(InitProducerIdRequest)} == {3000}
    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        await world.admin.force_terminate_transaction("a")


# -- at brokers ---------------------------------------------------------------------------------------------------------------------------


def configs(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    return DescribeConfigsResponse(
        results=[result(resource_type=each.resource_type, resource_name=each.resource_name) for each in request.resources]
    )


@told_by(play)
async def test_a_broker_is_asked_for_its_own_configuration_and_any_for_the_others(world: AdminWorld) -> None:
    world.on(DescribeConfigsRequest, lambda node, request: configs(request))
    own, logger = ConfigResource("broker", "2"), ConfigResource("broker_logger", "3")
    others = [ConfigResource("broker", ""), ConfigResource("topic", "7"), ConfigResource("group", "8")]
    found = await world.admin.try_describe_configs([own, *others, logger, ConfigResource("broker", "9")])
    assert [code(each) for each in found.values()] == [None] * 5 + [ErrorCode.BROKER_NOT_AVAILABLE]
    by_names = {tuple(each.resource_name for each in request.resources): node for node, request in world.asked(DescribeConfigsRequest)}
    assert by_names.keys() == {("2",), ("", "7", "8"), ("3",)}
    assert (by_names["2",], by_names["3",]) == (2, 3)


@pytest.mark.parametrize("name", ["two", "-1", "٣"])
@told_by(play)
async def test_a_broker_has_a_number(world: AdminWorld, name: str) -> None:
    with pytest.raises(ValueError, match="must be the number of a broker"):
        await world.admin.describe_configs([ConfigResource("broker", name)])
    with pytest.raises(ValueError, match="one of topic, broker, broker_logger, client_metrics, group"):
        await world.admin.describe_configs([ConfigResource("topics", name)])


@told_by(play)
async def test_a_change_of_a_broker_goes_to_it_and_nothing_goes_out_when_one_is_wrong(world: AdminWorld) -> None:
    def answer(node: int, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        first = len(world.asked(IncrementalAlterConfigsRequest)) == 1
        result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        error = ErrorCode.NOT_CONTROLLER if first else ErrorCode.NONE
        return IncrementalAlterConfigsResponse(
            responses=[
                result(resource_type=each.resource_type, resource_name=each.resource_name, error_code=error) for each in request.resources
            ]
        )

    world.on(IncrementalAlterConfigsRequest, answer)
    own = ConfigResource("broker", "2")
    await world.admin.incremental_alter_configs({own: [ConfigChange("k", "v")]}, validate_only=True)
    assert [(node, request.validate_only) for node, request in world.asked(IncrementalAlterConfigsRequest)] == [(2, True), (2, True)]
    with pytest.raises(ValueError, match="one of set, delete, append, subtract"):
        await world.admin.incremental_alter_configs(
            {own: [ConfigChange("k", "v")], ConfigResource("topic", "t"): [ConfigChange("k", operation="add")]}
        )
    await asyncio.sleep(1)
    assert len(world.asked(IncrementalAlterConfigsRequest)) == 2


@told_by(play)
async def test_a_broker_that_left_while_it_was_asked_is_an_error_and_not_waited_for(world: AdminWorld) -> None:
    def answer(node: int, request: DescribeConfigsRequest) -> None:
        world.nodes = [1, 3]
        for transport in list(world.brokers.open):
            transport.close()

    world.on(DescribeConfigsRequest, answer)
    found = await world.admin.try_describe_configs([ConfigResource("broker", "2")])
    assert [str(each) for each in found.values()] == ["BROKER_NOT_AVAILABLE: broker 2 is not in the cluster"]
    assert asyncio.get_running_loop().time() < 5


# -- one question -------------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_a_question_to_any_broker_is_asked_again_while_that_can_help(world: AdminWorld) -> None:
    def answer(node: int, request: DescribeClusterRequest) -> DescribeClusterResponse:
        first = len(world.asked(DescribeClusterRequest)) == 1
        return DescribeClusterResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE if first else 0, cluster_id="c")

    world.on(DescribeClusterRequest, answer)
    assert (await world.admin.describe_cluster()).cluster_id == "c"
    world.on(DescribeClusterRequest, lambda node, request: DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED: describing the cluster"):
        await world.admin.describe_cluster()
    assert len(world.asked(DescribeClusterRequest)) == 3


@told_by(play, served={ApiKey.DESCRIBE_CLUSTER: (0, 1)})
async def test_what_the_version_lacks_is_said_and_not_dropped(world: AdminWorld) -> None:
    with pytest.raises(
        KafkaError, match="UNSUPPORTED_VERSION: the broker is too old for this call: DESCRIBE_CLUSTER version 1 does not have the field"
    ):
        await world.admin.describe_cluster(include_fenced_brokers=True)
    assert world.asked(DescribeClusterRequest) == []


@told_by(play)
async def test_nothing_is_asked_for_nothing(world: AdminWorld) -> None:
    admin = world.admin
    assert await admin.try_delete_consumer_groups([]) == {}
    assert await admin.create_topics([]) == {}
    assert await admin.try_describe_user_scram_credentials([]) == {}
    assert world.brokers.asked == []


@told_by(play)
async def test_an_election_that_was_not_needed_is_no_failure(world: AdminWorld) -> None:
    part = ElectLeadersResponse.PartitionResult
    results = [part(partition_id=0, error_code=ErrorCode.ELECTION_NOT_NEEDED), part(partition_id=1)]
    answer = ElectLeadersResponse(
        replica_election_results=[ElectLeadersResponse.ReplicaElectionResult(topic="t", partition_result=results)]
    )
    world.on(ElectLeadersRequest, lambda node, request: answer)
    assert await world.admin.elect_leaders(ElectionType.PREFERRED, [P0, P1]) == [P1]
    found = await world.admin.try_elect_leaders(ElectionType.UNCLEAN, None)
    assert [code(each) for each in found.values()] == [ErrorCode.ELECTION_NOT_NEEDED, None]
    assert [(request.election_type, request.topic_partitions is None) for _, request in world.asked(ElectLeadersRequest)] == [
        (0, False),
        (1, True),
    ]
    results[0].error_code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    with pytest.raises(KafkaError, match="PREFERRED_LEADER_NOT_AVAILABLE: leader of t-0"):
        await world.admin.elect_leaders(ElectionType.PREFERRED)
    assert len(world.asked(ElectLeadersRequest)) == 3


# -- ends ---------------------------------------------------------------------------------------------------------------------------------


@told_by(play)
async def test_a_call_that_is_cancelled_leaves_nothing_behind(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2}
    world.on(DeleteRecordsRequest, lambda node, request: None)
    call = asyncio.ensure_future(world.admin.delete_records({P0: 1, P1: 1}))
    await asyncio.sleep(1)
    before = asyncio.all_tasks()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [task for task in asyncio.all_tasks() if task in before and task is not asyncio.current_task()] == []


@told_by(play)
async def test_a_client_that_is_closed_gives_up_at_once(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2}
    world.on(DeleteRecordsRequest, lambda node, request: None)
    call = asyncio.ensure_future(world.admin.delete_records({P0: 1, P1: 1}))
    await asyncio.sleep(1)
    await world.admin.close()
    with pytest.raises(KafkaError):
        await call
    assert asyncio.get_running_loop().time() < 2


@told_by(play)
async def test_what_one_node_raises_ends_the_call_and_the_questions_to_the_others(world: AdminWorld) -> None:
    world.leaders["t"] = {0: 1, 1: 2}
    world.on(DeleteRecordsRequest, lambda node, request: None)

    cluster = world.admin.cluster
    call = cluster.call

    async def broken(node: Any, request: Any, response: Any, **more: Any) -> Any:
        if isinstance(request, MetadataRequest):
            return await call(node, request, response, **more)
        if node.node_id == 2:
            raise RuntimeError("a mistake")
        return await asyncio.sleep(1_000)

    cluster.call = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError):
        await world.admin.delete_records({P0: 1, P1: 1})
    assert asyncio.get_running_loop().time() < 5


def test_a_client_that_was_not_started_says_so() -> None:
    async def scenario() -> None:
        with pytest.raises(Exception, match="not started"):
            await AsyncAdmin().describe_cluster()

    asyncio.run(scenario())


# -- the two faces ------------------------------------------------------------------------------------------------------------------------


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_faces_have_the_same_calls() -> None:
    assert _public(AsyncAdmin) - _public(Admin) == {"start", "cluster"}
    assert _public(Admin) - _public(AsyncAdmin) == {"run"}


@pytest.mark.parametrize("name", sorted(_public(Admin) & _public(AsyncAdmin) - {"close"}))
def test_a_blocking_call_has_the_parameters_and_the_contract_of_the_other(name: str) -> None:
    ours, theirs = getattr(Admin, name), getattr(AsyncAdmin, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert not inspect.iscoroutinefunction(ours)
    assert ours.__doc__


def test_the_plain_form_says_that_it_raises_and_what_it_gives() -> None:
    assert "Raises the KafkaError of the first" in (AsyncAdmin.delete_consumer_groups.__doc__ or "")
    assert AsyncAdmin.delete_consumer_groups.__name__ == "delete_consumer_groups"
    assert inspect.signature(AsyncAdmin.delete_consumer_groups).return_annotation == "None"
    assert inspect.signature(AsyncAdmin.create_topics).return_annotation == "dict[str, CreatedTopic]"
    assert "Raises" not in (AsyncAdmin.try_delete_consumer_groups.__doc__ or "")


def test_every_call_for_several_items_has_both_forms() -> None:
    names = _public(AsyncAdmin)
    assert {name for name in names if name.startswith("try_") and name.removeprefix("try_") not in names} == set()


@told_by(play, default_api_timeout_ms="1000", request_timeout_ms="1000")
async def test_lost_connections_are_handed_out_as_kafka_errors(world: AdminWorld) -> None:
    world.on(DescribeClusterRequest, lambda node, request: None)
    with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
        await world.admin.describe_cluster()
