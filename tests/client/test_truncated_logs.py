"""Consumers whose partition loses what they have read: brokers that are scripted, in virtual time, and three real ones of ours."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.client import AsyncConsumer, TopicPartition
from odradek.client.core.positions import LogTruncation
from odradek.client.types import OffsetAndMetadata
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from odradek.protocol.schema import Message
from odradek.testing import EmbeddedCluster
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client import scripted
from tests.client.fetch_support import diverged, judge
from tests.client.fetcher_support import data
from tests.client.scripted import TOPIC, ScriptedBrokers, consumer, run

A = TopicPartition(TOPIC, 0)
OLD_LOG = [(0, 5), (1, 5), (2, 6), (3, 6)]
NEW_LOG = [(0, 5), (1, 5), (2, 8), (3, 8), (4, 8), (5, 8)]
"""(offset, leader epoch) of the records; their values are b"<epoch>-<offset>"."""


class Story:
    """Broker 1 leads in epoch 6 and has OLD_LOG; after `elect` broker 2 does in epoch 8, and has NEW_LOG."""

    def __init__(self, loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, versions: tuple[int, int] | None = (2, 4)) -> None:
        served = dict(scripted.SERVED)
        if versions is not None:
            served[ApiKey.OFFSET_FOR_LEADER_EPOCH] = versions
        monkeypatch.setattr(scripted, "SERVED", served)
        self.leader, self.epoch, self.log = 1, 6, OLD_LOG
        self.error: ErrorCode = ErrorCode.NONE
        self.validated = asyncio.Event()
        """Broker 2 was asked."""
        self.brokers = ScriptedBrokers(loop, 2, self.answer)

    def elect(self) -> None:
        self.leader, self.epoch, self.log = 2, 8, NEW_LOG

    def answer(self, node: int, request: Message) -> Message | None:
        if isinstance(request, MetadataRequest):
            return self.brokers.metadata(leader=self.leader, leader_epoch=self.epoch)
        leads = node == self.leader
        if isinstance(request, OffsetForLeaderEpochRequest):
            if node == 2:
                self.validated.set()
            [asked] = request.topics[0].partitions
            ended = OffsetForLeaderEpochResponse.EpochEndOffset(partition=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if leads and self.error is ErrorCode.NONE:
                known = [epoch for _, epoch in self.log if epoch <= asked.leader_epoch]
                ended = OffsetForLeaderEpochResponse.EpochEndOffset(partition=0, leader_epoch=known[-1], end_offset=len(known))
            elif leads:
                ended, self.error = OffsetForLeaderEpochResponse.EpochEndOffset(partition=0, error_code=self.error), ErrorCode.NONE
            result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC, partitions=[ended])
            return OffsetForLeaderEpochResponse(topics=[result])
        assert isinstance(request, FetchRequest)
        if not request.topics:
            return FetchResponse()
        [wanted] = request.topics[0].partitions
        part = FetchResponse.PartitionData(partition_index=0, high_watermark=len(self.log))
        if not leads or wanted.current_leader_epoch != self.epoch:
            part.error_code = ErrorCode.FENCED_LEADER_EPOCH if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            assert wanted.last_fetched_epoch == -1, "Java's consumers leave the question to OffsetForLeaderEpoch"
            records = [data(at, b"%d-%d" % (epoch, at), partition_leader_epoch=epoch) for at, epoch in self.log[wanted.fetch_offset :]]
            part.records = b"".join(records)
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic=TOPIC, partitions=[part])])


async def read(client: AsyncConsumer, until: bytes) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(60):
        while until not in values:
            values += [record.value for record in await client.poll(1000)]
    return values


def test_reading_goes_on_where_the_logs_diverge(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(loop: SimulatedLoop) -> tuple[list[bytes], list[Message]]:
        world = Story(loop, monkeypatch)
        async with consumer(loop, auto_offset_reset="earliest") as client:
            client.assign([A])
            client.seek(A, 0)
            await read(client, b"6-3")
            world.elect()
            asked = len(world.brokers.asked)
            values = await read(client, b"8-5")
        return values, [request for node, request in world.brokers.asked[asked:] if node == 2]

    values, asked = run(story)
    assert values == [b"8-2", b"8-3", b"8-4", b"8-5"]
    kinds = [type(request) for request in asked if not isinstance(request, MetadataRequest)]
    assert kinds[0] is OffsetForLeaderEpochRequest, "nothing is fetched before"
    [question] = [request for request in asked if isinstance(request, OffsetForLeaderEpochRequest)]
    assert question.replica_id == -1
    [partition] = question.topics[0].partitions
    assert (partition.current_leader_epoch, partition.leader_epoch) == (8, 6)


def test_what_was_decoded_and_not_handed_out_is_not_handed_out_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(loop: SimulatedLoop) -> list[bytes]:
        world = Story(loop, monkeypatch)
        async with consumer(loop, auto_offset_reset="none") as client:
            client.assign([A])
            client.seek(A, 0)
            first = await client.poll(1000, max_records=1)
            world.elect()
            client.engine.cluster.metadata.request_update()
            client.engine.wake()
            await world.validated.wait()
            return [record.value for record in first] + await read(client, b"8-5")

    # The position is behind the first record, which the new log has, too: nothing that was handed out is lost.
    assert run(story) == [b"5-0", b"5-1", b"8-2", b"8-3", b"8-4", b"8-5"]


def test_without_a_policy_each_poll_says_so_until_somebody_seeks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(loop: SimulatedLoop) -> tuple[list[LogTruncation], list[bytes]]:
        world = Story(loop, monkeypatch)
        errors: list[LogTruncation] = []
        async with consumer(loop, auto_offset_reset="none") as client:
            client.assign([A])
            client.seek(A, 0)
            await read(client, b"6-3")
            world.elect()
            for _ in range(2):
                with pytest.raises(LogTruncation) as caught:
                    await read(client, b"8-5")
                errors.append(caught.value)
            assert errors[0].divergent is not None
            client.seek(A, errors[0].divergent.offset, errors[0].divergent.leader_epoch or -1)
            return errors, await read(client, b"8-5")

    errors, values = run(story)
    assert [(error.topic_partition, error.offset, error.leader_epoch, error.divergent) for error in errors] == [
        (A, 4, 6, OffsetAndMetadata(2, 5))
    ] * 2
    assert values == [b"8-2", b"8-3", b"8-4", b"8-5"]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_leader_that_knows_another_epoch_is_asked_again(monkeypatch: pytest.MonkeyPatch, error: ErrorCode) -> None:
    async def story(loop: SimulatedLoop) -> tuple[list[bytes], int]:
        world = Story(loop, monkeypatch)
        async with consumer(loop, auto_offset_reset="earliest") as client:
            client.assign([A])
            client.seek(A, 0)
            await read(client, b"6-3")
            world.elect()
            world.error = error
            return await read(client, b"8-5"), world.brokers.count(OffsetForLeaderEpochRequest, 2)

    values, questions = run(story)
    assert values == [b"8-2", b"8-3", b"8-4", b"8-5"]
    assert questions == 2


@pytest.mark.parametrize("versions", [(2, 2), None])
def test_brokers_that_cannot_be_asked_are_believed(monkeypatch: pytest.MonkeyPatch, versions: tuple[int, int] | None) -> None:
    async def story(loop: SimulatedLoop) -> tuple[list[bytes], int]:
        world = Story(loop, monkeypatch, versions)
        async with consumer(loop, auto_offset_reset="earliest") as client:
            client.assign([A])
            client.seek(A, 0)
            await read(client, b"6-3")
            world.elect()
            return await read(client, b"8-5"), world.brokers.count(OffsetForLeaderEpochRequest)

    assert run(story) == ([b"8-4", b"8-5"], 0)


def test_an_unclean_election_loses_no_reader_what_was_written_after_it() -> None:
    with EmbeddedCluster(3, {"broker.session.timeout.ms": "3000"}, memory=True) as cluster:
        nodes = cluster.nodes
        with diverged(cluster.bootstrap_servers, lambda node: nodes[node].kill(), lambda node: nodes[node].start()) as readers:
            judge(*readers)
