"""Three brokers and an admin client in virtual time; a test says what is answered to what."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.clients import SimulatedAdmin
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from tests.client import scripted
from tests.client.scripted import ScriptedBrokers, run

T = TypeVar("T")

EVERYTHING = {key: (info.min_version, info.max_version) for key, info in API_INFO.items()}

Answers = Callable[[int, Any], Message | None]


class AdminWorld:
    """`leaders[topic][partition]` leads, `coordinators[key]` coordinates (1 where it is not said), `controller` is what Metadata names."""

    def __init__(self, loop: SimulatedLoop, **settings: str) -> None:
        self.leaders: dict[str, dict[int, int]] = {}
        self.coordinators: dict[str, int] = {}
        self.coordinator_errors: dict[str, ErrorCode] = {}
        self.controller = 1
        self.nodes = [1, 2, 3]
        self.answers: dict[type[Message], Answers] = {}
        self.brokers = ScriptedBrokers(loop, 3, self._answer)
        self.admin = SimulatedAdmin(SimulatedClock(loop), random.Random(1), bootstrap_servers="broker1:9092", **settings)

    def on(self, kind: type[Message], answer: Answers) -> None:
        """What the brokers answer to requests of that kind."""
        self.answers[kind] = answer

    def asked(self, kind: type[Message]) -> list[tuple[int, Any]]:
        """(node, request), in order."""
        return [(node, request) for node, request in self.brokers.asked if isinstance(request, kind)]

    def nodes_asked(self, kind: type[Message]) -> list[int]:
        return [node for node, _ in self.asked(kind)]

    def _answer(self, node: int, request: Message) -> Message | None:
        if type(request) in self.answers:
            return self.answers[type(request)](node, request)
        if isinstance(request, FindCoordinatorRequest):
            return self._found(request)
        assert isinstance(request, MetadataRequest), request
        return self.metadata(request)

    def _found(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        each = FindCoordinatorResponse.Coordinator
        found = []
        for key in request.coordinator_keys:
            node = self.coordinators.get(key, 1)
            error = self.coordinator_errors.get(key, ErrorCode.NONE)
            found.append(each(key=key, node_id=node, host=f"broker{node}", port=9092, error_code=error))
        return FindCoordinatorResponse(coordinators=found)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.leaders) if request.topics is None else [topic.name for topic in request.topics]
        topics = [
            MetadataResponse.MetadataResponseTopic(
                name=name,
                topic_id=UUID(int=index + 1),
                error_code=ErrorCode.NONE if name in self.leaders else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                partitions=[
                    MetadataResponse.MetadataResponsePartition(
                        partition_index=number, leader_id=leader, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                    )
                    for number, leader in self.leaders.get(name or "", {}).items()
                ],
            )
            for index, name in enumerate(names)
        ]
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker{node}", port=9092) for node in self.nodes]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=self.controller, topics=topics)


def play(story: Callable[[AdminWorld], Awaitable[T]], *, served: dict[ApiKey, tuple[int, int]] | None = None, **settings: str) -> T:
    """Runs the story; brokers serve everything, but of the APIs in `served` these versions, (0, -1) for none."""
    before = dict(scripted.SERVED)
    scripted.SERVED.clear()
    scripted.SERVED.update({key: each for key, each in (EVERYTHING | (served or {})).items() if each[1] >= each[0]})

    async def scenario(loop: SimulatedLoop) -> T:
        world = AdminWorld(loop, **settings)
        async with world.admin:
            return await story(world)

    try:
        return run(scenario)
    finally:
        scripted.SERVED.clear()
        scripted.SERVED.update(before)
