"""What fails for one partition stops that partition alone, is told until it is over, and outlives no assignment: scripted, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import AsyncConsumer, TopicPartition
from odradek.client.core.positions import OffsetOutOfRange
from odradek.client.network.cluster import ClientClosed
from odradek.client.network.offsets import list_offsets
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client import scripted
from tests.client.fetcher_support import data
from tests.client.scripted import TOPIC, ScriptedBrokers, cluster, consumer
from tests.loops import in_virtual_time

GOOD, BAD = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
NONE = ErrorCode.NONE


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.LIST_OFFSETS, (1, 7))
    monkeypatch.setitem(scripted.SERVED, ApiKey.OFFSET_COMMIT, (2, 9))
    monkeypatch.setitem(scripted.SERVED, ApiKey.OFFSET_FETCH, (1, 9))


class Story:
    """Two brokers; both partitions are led by the first, and have one record at offset 5. What is said of BAD is what goes wrong."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.leader: int | None = 1
        """Of BAD; -1 for none, 3 for a broker that cannot be reached, None where the partition does not exist."""
        self.topic = NONE
        """What metadata says of the topic."""
        self.listed = self.fetched = self.committed = self.kept = NONE
        self.silent: set[type[Message]] = set()
        self.brokers = ScriptedBrokers(loop, 2, self.answer)
        self.brokers.parked_s = self.parked_s

    @staticmethod
    def parked_s(_: Message, response: Message) -> float:
        parts = [part for topic in response.responses for part in topic.partitions] if isinstance(response, FetchResponse) else []
        return 0.5 if isinstance(response, FetchResponse) and not any(part.records or part.error_code for part in parts) else 0.0

    def answer(self, _: int, request: Message) -> Message | None:
        if type(request) in self.silent:
            return None
        if isinstance(request, MetadataRequest):
            answer = self.brokers.metadata(leader=1, partitions=1 if self.leader is None else 2, error=self.topic)
            for part in answer.topics[0].partitions[1:]:
                assert self.leader is not None
                part.leader_id = self.leader
            return answer
        if isinstance(request, FindCoordinatorRequest):
            each = FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="broker1", port=9092)
            return FindCoordinatorResponse(coordinators=[each])
        if isinstance(request, ListOffsetsRequest):
            parts = [
                ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=number, error_code=error, offset=5)
                for number, error in self.told(request.topics, self.listed, "partition_index")
            ]
            return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name=TOPIC, partitions=parts)])
        if isinstance(request, OffsetFetchRequest):
            found = [
                OffsetFetchResponse.OffsetFetchResponsePartitions(partition_index=number, error_code=error, committed_offset=5)
                for topic in request.groups[0].topics or ()
                for number, error in ((each, self.committed if each else NONE) for each in topic.partition_indexes)
            ]
            group = OffsetFetchResponse.OffsetFetchResponseTopics(name=TOPIC, partitions=found)
            return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[group])])
        if isinstance(request, OffsetCommitRequest):
            kept = [
                OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=number, error_code=error)
                for number, error in self.told(request.topics, self.kept, "partition_index")
            ]
            return OffsetCommitResponse(topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name=TOPIC, partitions=kept)])
        assert isinstance(request, FetchRequest)
        return FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(
                    topic=TOPIC,
                    partitions=[self.records(number, error, asked) for number, error, asked in self.wanted(request)],
                )
            ]
        )

    @staticmethod
    def told(topics: list[object], error: ErrorCode, index: str) -> list[tuple[int, ErrorCode]]:
        numbers = [getattr(part, index) for topic in topics for part in topic.partitions]  # type: ignore[attr-defined]
        return [(number, error if number else NONE) for number in numbers]

    def wanted(self, request: FetchRequest) -> list[tuple[int, ErrorCode, int]]:
        parts = [part for topic in request.topics for part in topic.partitions]
        return [(part.partition, self.fetched if part.partition else NONE, part.fetch_offset) for part in parts]

    @staticmethod
    def records(number: int, error: ErrorCode, offset: int) -> FetchResponse.PartitionData:
        part = FetchResponse.PartitionData(partition_index=number, error_code=error, high_watermark=6)
        if error is NONE and offset == 5:
            part.records = data(5, b"%d" % number)
        return part


async def read(client: AsyncConsumer, polls: int = 10, timeout_ms: int = 2000) -> tuple[list[bytes], list[ErrorCode]]:
    """The values of some polls, and the errors that they raised."""
    values: list[bytes] = []
    errors: list[ErrorCode] = []
    for _ in range(polls):
        try:
            values += [record.value for record in await client.poll(timeout_ms)]
        except KafkaError as error:
            errors.append(error.code)
    return values, errors


def leaderless(world: Story) -> None:
    world.leader = -1


def unreachable(world: Story) -> None:
    world.leader = 3


def missing(world: Story) -> None:
    world.leader = None


def unlisted(world: Story) -> None:
    world.listed = ErrorCode.OFFSET_NOT_AVAILABLE


def unstable(world: Story) -> None:
    world.committed = ErrorCode.UNSTABLE_OFFSET_COMMIT


def moving(world: Story) -> None:
    world.fetched = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("trouble", [leaderless, unreachable, missing, unlisted, unstable, moving])
@pytest.mark.parametrize("begin", ["assigned", "sought"])
@in_virtual_time
async def test_the_others_are_read_and_then_the_one_too(loop: SimulatedLoop, trouble: Callable[[Story], None], begin: str) -> None:
    world = Story(loop)
    trouble(world)
    settings = {"group_id": "g"} if trouble is unstable else {}
    async with consumer(loop, auto_offset_reset="earliest", enable_auto_commit="false", **settings) as client:
        client.assign([BAD, GOOD])
        if begin == "sought":
            client.seek(BAD, 5)
            client.seek(GOOD, 5)
        values, errors = await read(client)
        assert b"0" in values
        assert not errors
        if begin == "assigned" and trouble is not moving:
            with pytest.raises(KafkaError, match="t-1"):
                await client.position(BAD, 3000)
            assert values == [b"0"]
            assert await client.position(GOOD, 3000) == 6
        world.leader, world.listed, world.committed, world.fetched = 1, NONE, NONE, NONE
        values += (await read(client))[0]
        assert sorted(values) == [b"0", b"1"]


def unreadable(world: Story) -> None:
    world.fetched = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def unlistable(world: Story) -> None:
    world.listed = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def uncommittable(world: Story) -> None:
    world.committed = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def broken(world: Story) -> None:
    world.fetched = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("trouble", [unreadable, unlistable, uncommittable, broken])
@in_virtual_time
async def test_a_refusal_is_told_until_it_is_over(loop: SimulatedLoop, trouble: Callable[[Story], None]) -> None:
    world = Story(loop)
    trouble(world)
    settings = {"group_id": "g"} if trouble is uncommittable else {}
    async with consumer(loop, auto_offset_reset="earliest", enable_auto_commit="false", **settings) as client:
        client.assign([BAD, GOOD])
        values, errors = await read(client)
        assert values == [b"0"]
        assert len(errors) == 9, "each poll that has no records says so"
        world.listed = world.committed = world.fetched = NONE
        assert (await read(client))[0] == [b"1"]


@in_virtual_time
async def test_a_topic_that_metadata_refuses_is_told_by_each_poll(loop: SimulatedLoop) -> None:
    world = Story(loop)
    world.topic = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with consumer(loop, auto_offset_reset="earliest") as client:
        client.assign([GOOD])
        assert await read(client) == ([], [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 10)
        world.topic = NONE
        assert (await read(client))[0] == [b"0"]


@in_virtual_time
async def test_an_offset_out_of_range_is_told_by_each_poll_until_a_seek(loop: SimulatedLoop) -> None:
    world = Story(loop)
    world.fetched = ErrorCode.OFFSET_OUT_OF_RANGE
    async with consumer(loop, auto_offset_reset="none") as client:
        client.assign([BAD])
        client.seek(BAD, 100)
        for timeout_ms in (100, 1000, 5000):
            with pytest.raises(OffsetOutOfRange):
                await client.poll(timeout_ms)
        world.fetched = NONE
        client.seek(BAD, 5)
        assert (await read(client)) == ([b"1"], [])


@in_virtual_time
async def test_nothing_that_can_be_read_is_told_in_the_end(loop: SimulatedLoop) -> None:
    world = Story(loop)
    world.leader = None
    async with consumer(loop, auto_offset_reset="earliest", default_api_timeout_ms="30000", request_timeout_ms="10000") as client:
        client.assign([BAD])
        values, errors = await read(client, polls=40)
        assert not values
        assert len(errors) == 2
        client.assign([BAD, GOOD])
        values, errors = await read(client, polls=40)
        assert (values, errors) == ([b"0"], [])


@pytest.mark.parametrize("silent", [ListOffsetsRequest, OffsetFetchRequest])
@pytest.mark.parametrize("ended_by", ["cancel", "timeout", "close"])
@in_virtual_time
async def test_another_assignment_does_not_wait_for_the_search_of_the_former(
    loop: SimulatedLoop, silent: type[Message], ended_by: str
) -> None:
    """Partitions whose position no broker tells; the next assignment is read at once, whatever has become of the call that waited."""
    world = Story(loop)
    world.silent = {silent}
    settings = {"group_id": "g"} if silent is OffsetFetchRequest else {}
    client = await consumer(loop, auto_offset_reset="earliest", enable_auto_commit="false", **settings).start()
    client.assign([BAD])
    if ended_by == "timeout":
        with pytest.raises(KafkaError, match="1000 ms"):
            await client.position(BAD, 1000)
    else:
        waiting = asyncio.ensure_future(client.position(BAD) if ended_by == "cancel" else client.poll(60_000))
        await asyncio.sleep(1)
        if ended_by == "close":
            await client.close()
            with pytest.raises(ClientClosed):
                await waiting
            return
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    world.silent = set()
    begin = loop.time()
    client.assign([GOOD])
    assert await client.position(GOOD) == 5
    assert loop.time() - begin < 1
    client.assign([GOOD, BAD])
    assert await client.position(BAD) == 5
    assert (await read(client))[0] == [b"0", b"1"]
    await client.close()


@in_virtual_time
async def test_positions_are_not_looked_for_before_somebody_waits_for_them(loop: SimulatedLoop) -> None:
    world = Story(loop)
    async with consumer(loop, auto_offset_reset="earliest") as client:
        client.assign([GOOD, BAD])
        await asyncio.sleep(5)
        assert not world.brokers.asked
        assert await client.position(GOOD) == 5
        [listed] = [request for _, request in world.brokers.asked if isinstance(request, ListOffsetsRequest)]
        assert [part.partition_index for topic in listed.topics for part in topic.partitions] == [0]
        assert not world.brokers.count(FetchRequest)


@pytest.mark.parametrize("trouble", [leaderless, missing, unlisted])
@in_virtual_time
async def test_offsets_of_the_others_are_asked_for_once(loop: SimulatedLoop, trouble: Callable[[Story], None]) -> None:
    world = Story(loop)
    trouble(world)
    client = cluster(loop)
    asking = asyncio.ensure_future(list_offsets(client, {GOOD: -1, BAD: -1}))
    await asyncio.sleep(10)
    world.leader, world.listed = 1, NONE
    found = await asking
    assert {partition: listed.offset for partition, listed in found.items()} == {GOOD: 5, BAD: 5}
    asked = [request for _, request in world.brokers.asked if isinstance(request, ListOffsetsRequest)]
    numbers = [part.partition_index for request in asked for topic in request.topics for part in topic.partitions]
    assert numbers.count(0) == 1
    await client.close()


@in_virtual_time
async def test_offsets_of_a_partition_without_a_leader_say_which_one(loop: SimulatedLoop) -> None:
    world = Story(loop)
    world.leader = -1
    async with consumer(loop, default_api_timeout_ms="5000", request_timeout_ms="5000") as client:
        with pytest.raises(KafkaError, match="t-1 has no leader"):
            await client.end_offsets([GOOD, BAD])


@in_virtual_time
async def test_the_offset_of_a_deleted_topic_keeps_no_other_from_being_committed(loop: SimulatedLoop) -> None:
    world = Story(loop)
    async with consumer(loop, group_id="g", enable_auto_commit="false") as client:
        client.assign([GOOD, BAD])
        client.seek(GOOD, 5)
        client.seek(BAD, 5)
        world.kept, world.leader = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        begin = loop.time()
        with pytest.raises(KafkaError, match="t-1") as caught:
            await client.commit()
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert loop.time() - begin < 5
        commits = [request for _, request in world.brokers.asked if isinstance(request, OffsetCommitRequest)]
        numbers = [part.partition_index for request in commits for topic in request.topics for part in topic.partitions]
        assert numbers.count(0) == 1


@in_virtual_time
async def test_a_topic_that_the_coordinator_does_not_know_yet_is_committed_when_it_does(loop: SimulatedLoop) -> None:
    world = Story(loop)
    async with consumer(loop, group_id="g", enable_auto_commit="false") as client:
        client.assign([BAD])
        client.seek(BAD, 5)
        world.kept = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        committing = asyncio.ensure_future(client.commit())
        await asyncio.sleep(10)
        assert not committing.done()
        world.kept = NONE
        await committing
