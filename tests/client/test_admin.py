"""The admin client with several brokers: whom it asks, and what it asks again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.core.metadata import Broker, ClusterView, MetadataCache
from odradek.client.types import ConfigResource, NewTopic
from odradek.protocol.messages.create_topics import CreateTopicsResponse
from odradek.protocol.messages.delete_records import DeleteRecordsResponse
from odradek.protocol.messages.describe_configs import DescribeConfigsResponse

BROKERS = {node: Broker(node, "host", 9092) for node in (1, 2)}


class FewBrokers:
    """In the place of `client.cluster.Cluster`: partition p is led by broker p + 1; answers are those of the test."""

    def __init__(self, *answers: object) -> None:
        self.answers = deque(answers)
        self.asked: list[tuple[int, Any]] = []
        self.view = ClusterView("c", 1, BROKERS, {})
        self.after_refresh = self.view
        self.metadata = MetadataCache(1000)

    async def leader(self, topic_partition: TopicPartition) -> int:
        return topic_partition.partition + 1

    async def node(self, node_id: int) -> int:
        return node_id

    async def any_node(self) -> int:
        return 99

    async def refresh(self, topics: object = None) -> None:
        self.view = self.after_refresh

    async def call(self, node: int, request: object, response: type) -> object:
        self.asked.append((node, request))
        return self.answers.popleft()

    async def retrying(self, what: str, attempt: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise


def run(cluster: FewBrokers, action: Callable[[AsyncAdmin], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        admin = AsyncAdmin()
        admin._cluster = cluster  # type: ignore[assignment]
        return await action(admin)

    return asyncio.run(scenario())


def deleted(partition: int, low_watermark: int, error: ErrorCode = ErrorCode.NONE) -> DeleteRecordsResponse:
    result = DeleteRecordsResponse.DeleteRecordsPartitionResult(partition_index=partition, low_watermark=low_watermark, error_code=error)
    return DeleteRecordsResponse(topics=[DeleteRecordsResponse.DeleteRecordsTopicResult(name="t", partitions=[result])])


def test_what_was_deleted_is_not_deleted_again_when_another_leader_has_to_be_asked_twice() -> None:
    cluster = FewBrokers(deleted(0, 7), deleted(1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER), deleted(1, 9))
    offsets = {TopicPartition("t", 0): -1, TopicPartition("t", 1): -1}
    assert run(cluster, lambda admin: admin.delete_records(offsets)) == {TopicPartition("t", 0): 7, TopicPartition("t", 1): 9}
    assert [node for node, _ in cluster.asked] == [1, 2, 2]


def test_another_controller_is_found_after_not_controller() -> None:
    def created(error: ErrorCode) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="t", error_code=error)])

    cluster = FewBrokers(created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE))
    cluster.after_refresh = cluster.view._replace(controller_id=2)
    [topic] = run(cluster, lambda admin: admin.create_topics([NewTopic("t")]))
    assert topic.error is ErrorCode.NONE
    assert [node for node, _ in cluster.asked] == [1, 2]


def test_a_broker_is_asked_for_its_own_configuration() -> None:
    answer = DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(configs=[])])
    for name, node in (("2", 2), ("", 99)):
        cluster = FewBrokers(answer)
        resource = ConfigResource("broker", name)
        assert run(cluster, lambda admin, resource=resource: admin.describe_configs([resource])) == {resource: []}
        assert [asked for asked, _ in cluster.asked] == [node]
