"""Commits and committed offsets: what each error means, what is tried again, and when; brokers as a script, time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.commits import Committer
from odradek.client.core.offsets import AutoCommit, CommitFailed, Verdict, commit_outcomes, worst_outcome
from odradek.client.network.coordinators import Coordinator, CoordinatorKind
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client import scripted
from tests.client.scripted import ScriptedBrokers, cluster
from tests.loops import in_virtual_time

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {A: OffsetAndMetadata(5, 2, "note"), B: OffsetAndMetadata(6)}


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.OFFSET_COMMIT, (2, 9))
    monkeypatch.setitem(scripted.SERVED, ApiKey.OFFSET_FETCH, (1, 9))


class _World:
    """Two brokers, of which the first coordinates the group `g`; `errors` are answered one after the other, and then none."""

    def __init__(self, loop: SimulatedLoop, *errors: ErrorCode) -> None:
        self.errors = list(errors)
        self.loop = loop
        self.at = 1
        self.brokers = ScriptedBrokers(loop, 2, self._answer)
        self.client = cluster(loop)
        self.committer = Committer(self.client, Coordinator(self.client, CoordinatorKind.GROUP, "g"), None, None)

    def _answer(self, node: int, request: Message) -> Message | None:
        if isinstance(request, FindCoordinatorRequest):
            each = FindCoordinatorResponse.Coordinator(key="g", node_id=self.at, host=f"broker{self.at}", port=9092)
            return FindCoordinatorResponse(coordinators=[each])
        if isinstance(request, OffsetCommitRequest):
            return committed(self.errors.pop(0) if self.errors else ErrorCode.NONE)
        if isinstance(request, OffsetFetchRequest):
            return fetched(self.errors.pop(0) if self.errors else ErrorCode.NONE)
        return self.brokers.metadata(leader=1)

    def commits(self) -> list[OffsetCommitRequest]:
        return [request for _, request in self.brokers.asked if isinstance(request, OffsetCommitRequest)]


def committed(error: ErrorCode) -> OffsetCommitResponse:
    """The first partition is refused, the second is not."""
    each = OffsetCommitResponse.OffsetCommitResponsePartition
    parts = [each(partition_index=0, error_code=error), each(partition_index=1)]
    return OffsetCommitResponse(topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=parts)])


def fetched(error: ErrorCode) -> OffsetFetchResponse:
    each = OffsetFetchResponse.OffsetFetchResponsePartitions
    parts = [
        each(partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="note", error_code=error),
        each(partition_index=1, committed_offset=-1),
    ]
    topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="t", partitions=parts)
    return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[topic])])


@pytest.mark.parametrize(
    ("error", "verdict", "failed"),
    [
        (ErrorCode.NONE, Verdict.DONE, None),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.AGAIN, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.AGAIN, False),
        (ErrorCode.NOT_COORDINATOR, Verdict.MOVED, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Verdict.MOVED, False),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.MOVED, False),
        (ErrorCode.STALE_MEMBER_EPOCH, Verdict.OUTDATED, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, Verdict.FAILED, True),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.FAILED, True),
        (ErrorCode.FENCED_MEMBER_EPOCH, Verdict.FAILED, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, Verdict.FAILED, False),
        (ErrorCode.FENCED_INSTANCE_ID, Verdict.FAILED, False),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, Verdict.FAILED, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.FAILED, False),
    ],
)
def test_what_an_error_means_for_a_commit(error: ErrorCode, verdict: Verdict, failed: bool | None) -> None:
    outcome = worst_outcome(commit_outcomes(OFFSETS, committed(error), "g").values())
    assert outcome.verdict is verdict
    assert (None if outcome.error is None else isinstance(outcome.error, CommitFailed)) == failed


def test_a_partition_that_is_left_out_is_not_committed() -> None:
    other = TopicPartition("t", 7)
    assert commit_outcomes({other: OffsetAndMetadata(1)}, committed(ErrorCode.NONE), "g")[other].verdict is Verdict.FAILED


@in_virtual_time
async def test_a_commit_says_who_commits_what(loop: SimulatedLoop) -> None:
    world = _World(loop)
    world.committer.member = lambda: ConsumerGroupMetadata("g", 3, "me", "one")
    await world.committer.commit(OFFSETS)
    (request,) = world.commits()
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        "g",
        3,
        "me",
        "one",
    )
    parts = request.topics[0].partitions
    assert [(each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata) for each in parts] == [
        (0, 5, 2, "note"),
        (1, 6, -1, ""),
    ]
    await world.client.close()


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
@in_virtual_time
async def test_what_heals_is_tried_again_with_pauses(loop: SimulatedLoop, error: ErrorCode) -> None:
    world = _World(loop, error, error)
    await world.committer.commit(OFFSETS)
    assert len(world.commits()) == 3
    assert 0.2 <= loop.time() <= 1
    assert world.brokers.count(FindCoordinatorRequest) == (3 if error is ErrorCode.NOT_COORDINATOR else 1)
    await world.client.close()


@in_virtual_time
async def test_after_a_move_the_new_coordinator_is_asked(loop: SimulatedLoop) -> None:
    world = _World(loop)
    await world.committer.commit(OFFSETS)
    world.errors.append(ErrorCode.NOT_COORDINATOR)
    world.at = 2
    await world.committer.commit(OFFSETS)
    assert [node for node, request in world.brokers.asked if isinstance(request, OffsetCommitRequest)] == [1, 1, 2]
    await world.client.close()


@in_virtual_time
async def test_what_does_not_heal_in_time_is_told_with_its_reason(loop: SimulatedLoop) -> None:
    world = _World(loop, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100)
    with pytest.raises(KafkaError, match=r"COORDINATOR_LOAD_IN_PROGRESS.*2000 ms"):
        await world.committer.commit(OFFSETS, 2_000)
    assert loop.time() == pytest.approx(2, abs=0.2)
    await world.client.close()


@in_virtual_time
async def test_what_does_not_heal_is_told_at_once(loop: SimulatedLoop) -> None:
    world = _World(loop, ErrorCode.UNKNOWN_MEMBER_ID)
    refused: list[ErrorCode] = []
    world.committer.refused = lambda error, _: refused.append(error)
    with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
        await world.committer.commit(OFFSETS)
    assert refused == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert len(world.commits()) == 1
    await world.client.close()


@pytest.mark.parametrize("still_held", [True, False])
@in_virtual_time
async def test_a_commit_that_is_tried_again_in_another_generation(loop: SimulatedLoop, still_held: bool) -> None:
    """Only when the partitions were never given up; else the new owner would be sent back."""
    world = _World(loop, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    generation, tokens = [1], {A: object(), B: object()}
    world.committer.member = lambda: ConsumerGroupMetadata("g", generation[0], "me")
    world.committer.held = tokens.get
    commit = asyncio.create_task(world.committer.commit(OFFSETS))
    await asyncio.sleep(0.05)
    generation[0] = 2
    if not still_held:
        tokens[B] = object()
    if still_held:
        await commit
        assert [each.generation_id_or_member_epoch for each in world.commits()] == [1, 2]
    else:
        with pytest.raises(CommitFailed):
            await commit
        assert len(world.commits()) == 1
    await world.client.close()


@in_virtual_time
async def test_an_outdated_epoch_is_replaced_by_the_new_one(loop: SimulatedLoop) -> None:
    world = _World(loop, ErrorCode.STALE_MEMBER_EPOCH)
    epoch, token = [1], object()
    world.committer.held = lambda _: token

    def member() -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", epoch[0], "me")

    world.committer.member = member
    commit = asyncio.create_task(world.committer.commit(OFFSETS))
    await asyncio.sleep(0.005)
    epoch[0] = 2
    await commit
    assert [each.generation_id_or_member_epoch for each in world.commits()] == [1, 2]
    await world.client.close()


@in_virtual_time
async def test_asynchronous_commits_are_tried_once_and_all_keep_their_order(loop: SimulatedLoop) -> None:
    world = _World(loop, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told: list[KafkaError | None] = []
    world.committer.commit_soon({A: OffsetAndMetadata(1)}, lambda _, error: told.append(error))
    world.committer.commit_soon({A: OffsetAndMetadata(2)}, lambda _, error: told.append(error))
    await world.committer.commit({A: OffsetAndMetadata(3)})
    offsets = [request.topics[0].partitions[0].committed_offset for request in world.commits()]
    assert offsets == [1, 2, 3]
    for call in world.committer.callbacks:
        call.make()
    assert [None if error is None else error.code for error in told] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None]
    await world.client.close()


@pytest.mark.parametrize("error", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@in_virtual_time
async def test_committed_offsets_are_waited_for(loop: SimulatedLoop, error: ErrorCode) -> None:
    world = _World(loop, error, error)
    assert await world.committer.committed([A, B]) == {A: OffsetAndMetadata(5, 2, "note"), B: None}
    requests = [request for _, request in world.brokers.asked if isinstance(request, OffsetFetchRequest)]
    assert len(requests) == 3
    assert all(request.require_stable for request in requests)
    await world.client.close()


@in_virtual_time
async def test_committed_offsets_that_may_not_be_seen(loop: SimulatedLoop) -> None:
    world = _World(loop, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match=r"TOPIC_AUTHORIZATION_FAILED.*t-0"):
        await world.committer.committed([A, B])
    await world.client.close()


@in_virtual_time
async def test_an_offset_whose_commit_was_not_answered_is_not_known(loop: SimulatedLoop) -> None:
    """An automatic commit of an older offset, after a seek back, may have taken effect: where the group was before is committed again."""
    world = _World(loop)
    world.committer.auto = auto = AutoCommit(1_000, world.client.now_ms())
    await world.committer.commit(OFFSETS)
    assert auto.changed(OFFSETS) == {}
    answer = world.brokers.answer

    def cut(node: int, request: Message) -> Message | None:
        """The broker has committed, and its answer is lost."""
        if isinstance(request, OffsetCommitRequest):
            world.brokers.answer = answer
            for transport in list(world.brokers.open):
                transport.close()
            return None
        return answer(node, request)

    world.brokers.answer = cut
    back = {A: OffsetAndMetadata(2), B: OFFSETS[B]}
    await asyncio.sleep(1)
    world.committer.commit_when_due(lambda: back)
    await asyncio.sleep(0.5)
    assert len(world.commits()) == 2
    assert auto.changed(OFFSETS) == {A: OFFSETS[A]}, "B was not asked for, and is known"
    await world.client.close()


def _offset(number: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {A: OffsetAndMetadata(number)}


def test_automatic_commits_come_one_by_one_and_only_of_what_has_changed() -> None:
    auto = AutoCommit(1000, 0)
    assert [auto.due(at) for at in (0, 999, 1000)] == [False, False, True]
    auto.began()
    assert not auto.due(5000)
    auto.note(_offset(5))
    auto.ended(5000)
    assert [auto.due(at) for at in (5999, 6000)] == [False, True]
    assert auto.changed(_offset(5)) == {}
    assert auto.changed(_offset(6)) == _offset(6)
    auto.forget([A])
    assert auto.changed(_offset(5)) == _offset(5)
    auto.ended(6000, pause_ms=100)
    assert auto.due(6100)


@in_virtual_time
async def test_an_automatic_commit_that_failed_is_tried_again_soon(loop: SimulatedLoop) -> None:
    world = _World(loop, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.committer.auto = AutoCommit(5_000, world.client.now_ms())
    consumed: Callable[[], dict[TopicPartition, OffsetAndMetadata]] = lambda: OFFSETS  # noqa: E731
    for _ in range(60):
        world.committer.commit_when_due(consumed)
        await asyncio.sleep(0.1)
    assert len(world.commits()) == 2
    await world.client.close()
