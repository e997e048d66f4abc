"""What the admin client makes of answers, without a broker: items, pages, and the answers that no broker of ours gives."""

from __future__ import annotations

import base64
import hmac
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.client.admin.acls import deleted_acls, described_acls
from odradek.client.admin.configs import broker_of, listed_resources
from odradek.client.admin.delegation_tokens import created_token, described_tokens
from odradek.client.admin.group_offsets import fetched_offsets
from odradek.client.admin.groups import (
    REASON_LENGTH_MAX,
    consumer_group_of,
    described_classic_groups,
    described_consumer_groups,
    remove_members_request,
)
from odradek.client.admin.items import RETRIABLE_ERRORS, Items, NotHeard, results
from odradek.client.admin.other_groups import described_share_groups, described_share_offsets, described_streams_groups
from odradek.client.admin.quorum import described_features, described_quorum, raise_features_error
from odradek.client.admin.quotas import alter_quotas_request, altered_quotas, describe_quotas_request
from odradek.client.admin.replicas import described_log_dirs, elected_leaders, replica_log_dirs
from odradek.client.admin.scram_users import salted_password
from odradek.client.admin.terms import authorized_operations, by_topic, known, number, word
from odradek.client.admin.topics import TopicPages, deleted_topics
from odradek.client.admin.types.groups import GroupState, StreamsTask
from odradek.client.admin.types.replicas import ReplicaLogDirInfo, TopicPartitionReplica
from odradek.client.admin.types.security import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    DelegationToken,
    KafkaPrincipal,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from odradek.client.core.metadata import Broker
from odradek.client.types import ConfigResource
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from odradek.protocol.messages.delete_acls import DeleteAclsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from odradek.protocol.messages.describe_groups import DescribeGroupsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumResponse
from odradek.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersResponse
from odradek.protocol.messages.list_config_resources import ListConfigResourcesResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from odradek.protocol.messages.update_features import UpdateFeaturesResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
HERE = Broker(1, "here", 9092)


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


def error(which: ErrorCode) -> KafkaError:
    return KafkaError(which, "why")


# -- items --------------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5)), st.data())
def test_every_item_is_settled_once_and_in_order(keys: list[int], data: st.DataObject) -> None:
    items = Items[int, str](keys, {ErrorCode.NOT_CONTROLLER}, str)
    order = list(dict.fromkeys(keys))
    settled: dict[int, object] = {}
    again = items.left
    assert again == order
    for _ in range(3):
        answers: dict[int, str | KafkaError] = {}
        for key in again:
            kind = data.draw(st.sampled_from(["result", "final", "later", "nothing", "lost"]))
            if kind == "result":
                answers[key] = f"result {key}"
            elif kind == "final":
                answers[key] = error(ErrorCode.POLICY_VIOLATION)
            elif kind == "later":
                answers[key] = error(ErrorCode.NOT_CONTROLLER)
            elif kind == "lost":
                answers[key] = NotHeard(ErrorCode.NETWORK_EXCEPTION, "gone")
            if kind in ("result", "final"):
                settled[key] = answers[key]
            elif kind == "nothing":
                settled[key] = ErrorCode.UNKNOWN_SERVER_ERROR
        again = items.answered(again, answers)
        assert again == items.left == [key for key in order if key not in settled]
    items.give_up(again, "5 ms")
    outcomes = items.outcomes()
    assert list(outcomes) == order
    for key, each in outcomes.items():
        if key in again:
            assert code(each) in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION)
        else:
            assert settled[key] in (each, code(each))


def test_what_is_given_up_says_what_it_was_about() -> None:
    items = Items[str, None](["a", "b"], RETRIABLE_ERRORS, lambda key: f"group {key}")
    items.lost(["a"], NotHeard(ErrorCode.NETWORK_EXCEPTION, "connection closed"))
    items.answered(["b"], {"b": error(ErrorCode.NOT_COORDINATOR)})
    items.give_up(["a", "b"], "7 ms")
    assert [str(each) for each in items.outcomes().values()] == [
        "NETWORK_EXCEPTION: group a: connection closed (gave up after 7 ms)",
        "NOT_COORDINATOR: why",
    ]


def test_results_raise_the_first_error() -> None:
    assert results({"a": 1, "b": None}) == {"a": 1, "b": None}
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        results({"a": 1, "b": error(ErrorCode.NOT_CONTROLLER), "c": error(ErrorCode.INVALID_CONFIG)})


# -- terms --------------------------------------------------------------------------------------------------------------------------------


def test_operations_are_bits() -> None:
    assert authorized_operations(-(1 << 31)) is None
    assert authorized_operations(0) == frozenset()
    assert authorized_operations(1 << 3 | 1 << 8 | 1 << 1 | 1 << 30) == {AclOperation.READ, AclOperation.DESCRIBE}


def test_words_and_numbers_of_a_later_kafka_are_unknown() -> None:
    assert word(GroupState, "stable") is GroupState.STABLE
    assert word(GroupState, "Levitating") is GroupState.UNKNOWN
    assert number(ResourceType, 99) is ResourceType.UNKNOWN
    assert known(GroupState, "notready") is GroupState.NOT_READY
    with pytest.raises(ValueError, match="'Levitating' must be one of PreparingRebalance, CompletingRebalance, Stable"):
        known(GroupState, "Levitating")


def test_a_partition_goes_out_once() -> None:
    assert by_topic([P1, TopicPartition("u", 3), P0, P1]) == {"t": [1, 0], "u": [3]}


# -- topics -------------------------------------------------------------------------------------------------------------------------------


def page(*topics: tuple[str, list[int]], cursor: tuple[str, int] | None = None, failed: int = 0) -> DescribeTopicPartitionsResponse:
    part = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                name=name,
                error_code=failed,
                topic_authorized_operations=8,
                partitions=[part(partition_index=number, leader_id=1, eligible_leader_replicas=[2]) for number in numbers],
            )
            for name, numbers in topics
        ],
        next_cursor=None if cursor is None else DescribeTopicPartitionsResponse.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def test_pages_are_put_together_and_topics_that_are_read_are_not_asked_for_again() -> None:
    pages = TopicPages(["b", "a", "c"], 2, False)
    first = pages.request()
    assert ([each.name for each in first.topics], first.response_partition_limit, first.cursor) == (["a", "b", "c"], 2, None)
    assert pages.answered(page(("a", [0]), ("b", [0]), cursor=("b", 1)))
    second = pages.request()
    assert [each.name for each in second.topics] == ["b", "c"]
    assert second.cursor is not None
    assert (second.cursor.topic_name, second.cursor.partition_index) == ("b", 1)
    assert not pages.answered(page(("b", [1]), ("c", [0])))
    found = results(pages.found)
    assert {name: list(each.partitions) for name, each in found.items()} == {"a": [0], "b": [0, 1], "c": [0]}
    assert found["a"].partitions[0].eligible_leader_replicas == (2,)
    assert found["a"].authorized_operations is None


def test_a_broker_that_turns_in_circles_is_not_followed() -> None:
    pages = TopicPages(["a"], 2, True)
    assert pages.answered(page(("a", [0]), cursor=("a", 1)))
    with pytest.raises(KafkaError, match="the same page"):
        pages.answered(page(("a", [0]), cursor=("a", 1)))


def test_a_topic_is_deleted_by_what_it_was_asked_by() -> None:
    one, other = UUID(int=1), UUID(int=2)
    result = DeleteTopicsResponse.DeletableTopicResult
    answer = DeleteTopicsResponse(
        responses=[
            result(name="a", topic_id=one),
            result(name="b", topic_id=other, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            result(name=None, topic_id=UUID(int=3), error_code=ErrorCode.UNKNOWN_TOPIC_ID),
        ]
    )
    found = deleted_topics(answer, [one, "b", UUID(int=3)])
    assert {key: code(each) for key, each in found.items()} == {
        one: None,
        "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        UUID(int=3): ErrorCode.UNKNOWN_TOPIC_ID,
    }


# -- groups -------------------------------------------------------------------------------------------------------------------------------


def classic(group_id: str, protocol_type: str, assignment: bytes = b"", **more: object) -> DescribeGroupsResponse.DescribedGroup:
    member = DescribeGroupsResponse.DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=assignment)
    return DescribeGroupsResponse.DescribedGroup(
        group_id=group_id, protocol_type=protocol_type, group_state="Stable", members=[member], **more
    )


def test_members_of_other_than_consumers_keep_what_they_say_to_themselves() -> None:
    found = described_classic_groups(DescribeGroupsResponse(groups=[classic("connect", "connect", b"\xff\xff")]), HERE)
    group = results(found)["connect"]
    assert (group.protocol, group.members[0].assignment, group.coordinator) == ("connect", (), HERE)
    refused = consumer_group_of(group)
    assert code(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_assignment_that_cannot_be_read_is_an_error_of_its_group_alone() -> None:
    answer = DescribeGroupsResponse(groups=[classic("bad", "consumer", b"\x00"), classic("good", "consumer")])
    assert [code(each) for each in described_classic_groups(answer, HERE).values()] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None]


def test_before_version_6_a_dead_group_is_one_that_is_not_there() -> None:
    group = DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Dead")
    assert code(described_classic_groups(DescribeGroupsResponse(groups=[group]), HERE)["g"]) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("member_type", "upgraded"), [(-1, None), (0, False), (1, True)])
def test_members_say_which_protocol_they_speak(member_type: int, upgraded: bool | None) -> None:
    each = ConsumerGroupDescribeResponse
    assigned = each.Assignment(topic_partitions=[each.TopicPartitions(topic_name="t", partitions=[0, 1])])
    member = each.Member(member_id="m", member_epoch=4, assignment=assigned, member_type=member_type)
    group = each.DescribedGroup(group_id="g", group_state="Reconciling", group_epoch=5, assignment_epoch=4, members=[member])
    found = results(described_consumer_groups(each(groups=[group]), HERE))["g"]
    assert (found.state, found.group_epoch, found.target_assignment_epoch) == (GroupState.RECONCILING, 5, 4)
    (one,) = found.members
    assert (one.assignment, one.target_assignment, one.member_epoch, one.upgraded) == ((P0, P1), (), 4, upgraded)


def test_a_reason_is_cut_where_the_broker_would_refuse_it() -> None:
    request = remove_members_request("g", ["i"], ["m"], "x" * 1000)
    static, dynamic = request.members
    assert (static.member_id, static.group_instance_id) == ("", "i")
    assert (dynamic.member_id, dynamic.group_instance_id) == ("m", None)
    assert {len(each.reason or "") for each in request.members} == {REASON_LENGTH_MAX}
    assert remove_members_request("g", ["i"], [], "why").members[0].reason == "member was removed by an admin: why"


def offsets(*partitions: tuple[int, int, ErrorCode], failed: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    each = OffsetFetchResponse
    parts = [
        each.OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=offset, committed_leader_epoch=-1, metadata="", error_code=refused
        )
        for number, offset, refused in partitions
    ]
    topics = [each.OffsetFetchResponseTopics(name="t", partitions=parts)]
    return each(groups=[each.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=failed)])


def test_an_offset_that_is_not_there_or_cannot_be_told_does_not_hide_the_others() -> None:
    found = results(
        fetched_offsets(offsets((0, 5, ErrorCode.NONE), (1, -1, ErrorCode.NONE), (2, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    )
    assert found["g"][P0] == (5, None, "")
    assert found["g"][P1] is None
    assert code(found["g"][TopicPartition("t", 2)]) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_one_unstable_offset_has_the_whole_group_asked_again() -> None:
    found = fetched_offsets(offsets((0, 5, ErrorCode.NONE), (1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)))
    assert code(found["g"]) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert code(fetched_offsets(offsets(failed=ErrorCode.NOT_COORDINATOR))["g"]) is ErrorCode.NOT_COORDINATOR


def test_share_groups() -> None:
    each = ShareGroupDescribeResponse
    assigned = each.Assignment(topic_partitions=[each.TopicPartitions(topic_name="t", partitions=[1])])
    member = each.Member(member_id="m", member_epoch=2, subscribed_topic_names=["t"], assignment=assigned)
    group = each.DescribedGroup(group_id="s", group_state="Stable", group_epoch=3, assignment_epoch=2, members=[member])
    gone = each.DescribedGroup(group_id="x", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="gone")
    found = described_share_groups(each(groups=[group, gone]), HERE)
    assert str(found["x"]) == "GROUP_ID_NOT_FOUND: gone"
    described = found["s"]
    assert not isinstance(described, KafkaError)
    assert (described.group_epoch, described.target_assignment_epoch, described.members[0].assignment) == (3, 2, (P1,))


def test_where_share_groups_begin() -> None:
    each = DescribeShareGroupOffsetsResponse
    part = each.DescribeShareGroupOffsetsResponsePartition
    parts = [
        part(partition_index=0, start_offset=4, leader_epoch=2, lag=-1),
        part(partition_index=1, start_offset=-1),
        part(partition_index=2, start_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    topics = [each.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=parts)]
    found = results(described_share_offsets(each(groups=[each.DescribeShareGroupOffsetsResponseGroup(group_id="s", topics=topics)])))["s"]
    assert found[P0] == (4, 2, None)
    assert found[P1] is None
    assert code(found[TopicPartition("t", 2)]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_streams_groups() -> None:
    each = StreamsGroupDescribeResponse
    tasks = each.Assignment(
        active_tasks=[each.TaskIds(subtopology_id="0", partitions=[0, 1])],
        standby_tasks=[each.TaskIds(subtopology_id="1", partitions=[2])],
    )
    member = each.Member(
        member_id="m",
        user_endpoint=each.Endpoint(host="h", port=8080),
        client_tags=[each.KeyValue(key="zone", value="a")],
        task_offsets=[each.TaskOffset(subtopology_id="0", partition=1, offset=7)],
        assignment=tasks,
        is_classic=True,
    )
    changelog = each.TopicInfo(name="log", partitions=3, replication_factor=2, topic_configs=[each.KeyValue(key="k", value="v")])
    topology = each.Topology(
        epoch=6, subtopologies=[each.Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=[changelog])]
    )
    groups = [
        each.DescribedGroup(group_id="s", group_state="NotReady", topology=topology, members=[member], group_epoch=9, assignment_epoch=8),
        each.DescribedGroup(group_id="bare", group_state="Empty"),
    ]
    found = results(described_streams_groups(each(groups=groups), HERE))
    group = found["s"]
    assert (group.state, group.topology_epoch, group.group_epoch, group.target_assignment_epoch) == (GroupState.NOT_READY, 6, 9, 8)
    assert group.subtopologies[0].state_changelog_topics == (("log", 3, 2, {"k": "v"}),)
    one = group.members[0]
    assert one.assignment == ((StreamsTask("0", 0), StreamsTask("0", 1)), (StreamsTask("1", 2),), ())
    assert one.target_assignment == ((), (), ())
    assert (one.user_endpoint, one.client_tags, one.task_offsets) == (("h", 8080), {"zone": "a"}, {StreamsTask("0", 1): 7})
    assert (found["bare"].topology_epoch, found["bare"].subtopologies) == (None, ())


# -- replicas and the quorum --------------------------------------------------------------------------------------------------------------


def test_a_replica_that_moves_is_in_two_directories() -> None:
    each = DescribeLogDirsResponse

    def folder(path: str, future: bool, failed: ErrorCode = ErrorCode.NONE) -> DescribeLogDirsResponse.DescribeLogDirsResult:
        part = each.DescribeLogDirsPartition(partition_index=0, partition_size=9, offset_lag=3 if future else 0, is_future_key=future)
        topics = [] if failed else [each.DescribeLogDirsTopic(name="t", partitions=[part])]
        return each.DescribeLogDirsResult(log_dir=path, topics=topics, error_code=failed)

    answer = each(results=[folder("/a", False), folder("/b", True), folder("/c", False, ErrorCode.KAFKA_STORAGE_ERROR)])
    found = described_log_dirs(answer)
    assert not isinstance(found, KafkaError)
    assert code(found["/c"].error) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (found["/a"].error, found["/a"].total_bytes) == (None, None)
    replica, other = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 1, 1)
    assert replica_log_dirs([replica, other], found) == {replica: ("/a", 0, "/b", 3), other: ReplicaLogDirInfo()}
    refused = described_log_dirs(each(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert code(replica_log_dirs([replica], refused)[replica]) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_partition_that_was_named_has_an_outcome_of_its_election() -> None:
    assert elected_leaders(ElectLeadersResponse(), None) == {}
    assert code(elected_leaders(ElectLeadersResponse(), [P0])[P0]) is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        elected_leaders(ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER), None)


def test_an_answer_about_another_log_is_no_answer() -> None:
    with pytest.raises(KafkaError, match="does not describe __cluster_metadata"):
        described_quorum(
            DescribeQuorumResponse(
                topics=[DescribeQuorumResponse.TopicData(topic_name="t", partitions=[DescribeQuorumResponse.PartitionData()])]
            )
        )
    part = DescribeQuorumResponse.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[part])
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        described_quorum(DescribeQuorumResponse(topics=[topic]))


def test_observers_and_unknown_times_of_the_quorum() -> None:
    state = DescribeQuorumResponse.ReplicaState
    part = DescribeQuorumResponse.PartitionData(
        leader_id=1,
        current_voters=[state(replica_id=1, log_end_offset=5)],
        observers=[state(replica_id=9, log_end_offset=4, last_fetch_timestamp=3, last_caught_up_timestamp=2)],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[part])
    found = described_quorum(DescribeQuorumResponse(topics=[topic]))
    assert found.voters == ((1, ZERO_UUID, 5, None, None),)
    assert found.observers == ((9, ZERO_UUID, 4, 3, 2),)


def test_before_version_2_each_feature_has_its_error() -> None:
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION: feature b"):
        raise_features_error(
            UpdateFeaturesResponse(results=[result(feature="a"), result(feature="b", error_code=ErrorCode.INVALID_UPDATE_VERSION)])
        )


def test_a_feature_that_the_broker_does_not_know_is_shown() -> None:
    answer = ApiVersionsResponse(
        supported_features=[ApiVersionsResponse.SupportedFeatureKey(name="b", min_version=1, max_version=3)],
        finalized_features=[ApiVersionsResponse.FinalizedFeatureKey(name="a", max_version_level=2)],
    )
    assert described_features(answer) == [("a", 0, 0, 2), ("b", 1, 3, 0)]


# -- security -----------------------------------------------------------------------------------------------------------------------------


def test_an_acl_that_was_not_deleted_is_told() -> None:
    match = DeleteAclsResponse.DeleteAclsMatchingAcl
    matches = [match(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)]
    matches.append(match(resource_type=99, resource_name="t", error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="stuck"))
    wanted, other = AclBindingFilter(), AclBindingFilter(ResourceType.GROUP)
    result = DeleteAclsResponse.DeleteAclsFilterResult
    answer = DeleteAclsResponse(filter_results=[result(matching_acls=matches), result(error_code=ErrorCode.SECURITY_DISABLED)])
    found = deleted_acls(answer, [wanted, other])
    assert code(found[other]) is ErrorCode.SECURITY_DISABLED
    first, second = results({wanted: found[wanted]})[wanted]
    assert first == (AclBinding(ResourceType.TOPIC, "t", "User:a", AclOperation.READ), None)
    assert str(second.error) == "UNKNOWN_SERVER_ERROR: stuck"
    assert second.binding.resource_type is ResourceType.UNKNOWN
    with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
        described_acls(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED))


def test_passwords_are_hashed_as_rfc_7677_has_it_and_never_shown() -> None:
    # From the exchange in RFC 7677, section 3.
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)
    assert salted == salted_password(ScramMechanism.SCRAM_SHA_256, b"pencil", salt, 4096)
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert base64.b64encode(hmac.digest(server_key, said, "sha256")) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert len(salted_password(ScramMechanism.SCRAM_SHA_512, "pencil", salt, 4096)) == 64
    assert "pencil" not in repr(UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_256, "pencil"))


def test_delegation_tokens() -> None:
    each = DescribeDelegationTokenResponse
    renewer = each.DescribedDelegationTokenRenewer(principal_type="User", principal_name="r")
    token = each.DescribedDelegationToken(
        principal_type="User",
        principal_name="o",
        token_requester_principal_type="User",
        token_requester_principal_name="q",
        issue_timestamp=1,
        expiry_timestamp=2,
        max_timestamp=3,
        token_id="id",
        hmac=b"secret",
        renewers=[renewer],
    )
    owner, requester, other = (KafkaPrincipal("User", name) for name in "oqr")
    expected = DelegationToken("id", b"secret", owner, requester, (other,), 1, 2, 3)
    assert described_tokens(each(tokens=[token])) == [expected]
    assert "secret" not in repr(expected)
    made = CreateDelegationTokenResponse(
        principal_type="User",
        principal_name="o",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="id",
        hmac=b"secret",
    )
    # Who asked for it is the owner where the broker does not say.
    assert created_token(made, [other]) == expected._replace(requester=owner)
    with pytest.raises(KafkaError, match="DELEGATION_TOKEN_AUTH_DISABLED"):
        created_token(CreateDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED), [])
    with pytest.raises(KafkaError, match="DELEGATION_TOKEN_AUTH_DISABLED"):
        described_tokens(each(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))


def test_the_default_of_an_entity_is_not_its_absence() -> None:
    default, nobody = ClientQuotaEntity(user="", client_id="c"), ClientQuotaEntity(client_id="c")
    request = alter_quotas_request([ClientQuotaAlteration(default, {"a": 1, "b": None}), ClientQuotaAlteration(nobody, {"a": 2})], True)
    assert [[(each.entity_type, each.entity_name) for each in entry.entity] for entry in request.entries] == [
        [("user", None), ("client-id", "c")],
        [("client-id", "c")],
    ]
    assert [(each.key, each.value, each.remove) for each in request.entries[0].ops] == [("a", 1.0, False), ("b", 0.0, True)]
    each = AlterClientQuotasResponse
    answer = each(
        entries=[
            each.EntryData(
                entity=[each.EntityData(entity_type="user", entity_name=None), each.EntityData(entity_type="client-id", entity_name="c")]
            )
        ]
    )
    assert altered_quotas(answer) == {default: None}


def test_components_match_a_name_the_default_or_any() -> None:
    component = ClientQuotaFilterComponent
    request = describe_quotas_request([component("user", "a"), component("client-id", ""), component("ip")], True)
    assert [(each.entity_type, each.match_type, each.match) for each in request.components] == [
        ("user", 0, "a"),
        ("client-id", 1, None),
        ("ip", 2, None),
    ]
    assert request.strict
    with pytest.raises(ValueError, match="one of user, client-id, ip"):
        describe_quotas_request([component("users", "a")], False)


# -- configurations -----------------------------------------------------------------------------------------------------------------------


def test_resources_of_a_later_kafka_are_left_out() -> None:
    each = ListConfigResourcesResponse.ConfigResource
    answer = ListConfigResourcesResponse(
        config_resources=[each(resource_name="g", resource_type=32), each(resource_name="x", resource_type=64)]
    )
    assert listed_resources(answer) == [ConfigResource("group", "g")]


def test_the_default_of_all_brokers_belongs_to_none() -> None:
    assert broker_of(ConfigResource("broker", "")) is None
    assert broker_of(ConfigResource("broker_logger", "3")) == 3
    assert broker_of(ConfigResource("topic", "3")) is None
