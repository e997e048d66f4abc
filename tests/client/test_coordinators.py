"""Coordinators: found once for all who ask, dialled where the answer says, and found again when they have moved or are gone."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.network.coordinators import Coordinator, CoordinatorKind, find_coordinators
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client import scripted
from tests.client.scripted import ScriptedBrokers, cluster
from tests.loops import in_virtual_time


class _World:
    """Two brokers; `at` is the coordinator that both name."""

    def __init__(self, loop: SimulatedLoop, at: int = 2) -> None:
        self.at = at
        self.port = 9092
        self.error = ErrorCode.NONE
        self.brokers = ScriptedBrokers(loop, 2, self._answer)
        self.client = cluster(loop)

    def _answer(self, _: int, request: Message) -> Message | None:
        if isinstance(request, FindCoordinatorRequest):
            return self._found(request)
        if isinstance(request, HeartbeatRequest):
            return HeartbeatResponse()
        return self.brokers.metadata(leader=1)

    def _found(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        host = f"broker{self.at}"
        if request.coordinator_keys:
            each = FindCoordinatorResponse.Coordinator
            found = [each(key=key, node_id=self.at, host=host, port=self.port, error_code=self.error) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(node_id=self.at, host=host, port=self.port, error_code=self.error)

    def group(self, name: str = "g") -> Coordinator:
        return Coordinator(self.client, CoordinatorKind.GROUP, name)

    def questions(self) -> list[FindCoordinatorRequest]:
        return [request for _, request in self.brokers.asked if isinstance(request, FindCoordinatorRequest)]

    def beats(self) -> list[int]:
        return [node for node, request in self.brokers.asked if isinstance(request, HeartbeatRequest)]


@in_virtual_time
async def test_it_is_found_once_by_all_who_ask_and_dialled_without_metadata(loop: SimulatedLoop) -> None:
    world = _World(loop)
    group = world.group()
    await asyncio.gather(*(group.call(HeartbeatRequest(), HeartbeatResponse) for _ in range(3)))
    assert len(world.questions()) == 1
    assert world.questions()[0].coordinator_keys == ["g"]
    assert world.beats() == [2, 2, 2]
    assert world.brokers.count(MetadataRequest) == 0
    await world.client.close()


@in_virtual_time
async def test_it_has_a_connection_of_its_own(loop: SimulatedLoop) -> None:
    world = _World(loop)
    node = await world.group().node()
    assert node is await world.group("h").node()
    assert node is not await world.client.node(2)
    await world.client.close()


@pytest.mark.parametrize("believed", [True, False])
@in_virtual_time
async def test_one_that_moved_is_found_again(loop: SimulatedLoop, believed: bool) -> None:
    world = _World(loop)
    group = world.group()
    await group.call(HeartbeatRequest(), HeartbeatResponse)
    world.at = 1
    # A late answer of a former coordinator does not shake the belief in the present one.
    group.forget(2 if believed else 1)
    await group.call(HeartbeatRequest(), HeartbeatResponse)
    assert world.beats() == ([2, 1] if believed else [2, 2])
    await world.client.close()


@in_virtual_time
async def test_one_whose_connection_breaks_is_found_again(loop: SimulatedLoop) -> None:
    world = _World(loop)
    group = world.group()
    node = await group.node()
    world.brokers.answer = lambda *_: None
    answer = asyncio.ensure_future(group.call(HeartbeatRequest(), HeartbeatResponse))
    await asyncio.sleep(1)
    node.connection.close()
    with pytest.raises(ConnectionLost):
        await answer
    assert group.node_id is None
    await world.client.close()


@in_virtual_time
async def test_one_that_cannot_be_dialled_is_found_again(loop: SimulatedLoop) -> None:
    world = _World(loop)
    world.port = 1
    group = world.group()
    with pytest.raises(ConnectionLost):
        await group.node()
    world.port = 9092
    await group.call(HeartbeatRequest(), HeartbeatResponse)
    assert world.beats() == [2]
    await world.client.close()


@in_virtual_time
async def test_newer_metadata_knows_better_where_a_broker_is(loop: SimulatedLoop) -> None:
    world = _World(loop)
    world.port = 1
    group = world.group()
    with pytest.raises(ConnectionLost):
        await group.node()
    await world.client.refresh([scripted.TOPIC])
    await world.client.node(2, "coordinator")
    await world.client.close()


@in_virtual_time
async def test_an_error_is_the_answer_of_that_key_alone(loop: SimulatedLoop) -> None:
    world = _World(loop)
    world.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = await find_coordinators(world.client, CoordinatorKind.TRANSACTION, ["a", "b", "a"])
    assert {key: error.code for key, error in found.items() if isinstance(error, KafkaError)} == dict.fromkeys("ab", world.error)
    assert [(each.key_type, each.coordinator_keys) for each in world.questions()] == [(1, ["a", "b"])]
    with pytest.raises(KafkaError, match="coordinator of group g"):
        await world.group().node()
    await world.client.close()


@in_virtual_time
async def test_a_broker_that_answers_one_key_at_a_time_is_asked_so(loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.FIND_COORDINATOR, (0, 3))
    world = _World(loop)
    assert await find_coordinators(world.client, CoordinatorKind.GROUP, ["a", "b"]) == {"a": 2, "b": 2}
    assert [each.key for each in world.questions()] == ["a", "b"]
    await world.client.close()


@in_virtual_time
async def test_a_key_that_the_answer_leaves_out_has_an_error(loop: SimulatedLoop) -> None:
    world = _World(loop)
    world.brokers.answer = lambda *_: FindCoordinatorResponse(coordinators=[])
    found = await find_coordinators(world.client, CoordinatorKind.GROUP, ["a"])
    assert isinstance(found["a"], KafkaError)
    await world.client.close()
