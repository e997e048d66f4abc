"""Calls of the consumer that ask brokers and may be told how long to wait; and what needs no broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import AsyncConsumer, Consumer, TopicPartition
from odradek.client.time_limit import within
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.members import fill
from tests.client.scripted import TOPIC, ScriptedBrokers, consumer, run

A = TopicPartition(TOPIC, 0)
CALLS: dict[str, Callable[[AsyncConsumer], Awaitable[object]]] = {
    "committed": lambda client: client.committed([A], 300),
    "position": lambda client: client.position(A, 300),
    "partitions_for": lambda client: client.partitions_for("other", 300),
    "list_topics": lambda client: client.list_topics(300),
    "beginning_offsets": lambda client: client.beginning_offsets([A], 300),
    "end_offsets": lambda client: client.end_offsets([A], 300),
    "offsets_for_times": lambda client: client.offsets_for_times({A: 5}, 300),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_ends_when_its_time_is_over(call: str) -> None:
    async def story(loop: SimulatedLoop) -> float:
        silent = False

        def answer(_: int, request: object) -> object:
            return brokers.metadata(leader=1) if isinstance(request, MetadataRequest) and not silent else None

        brokers = ScriptedBrokers(loop, 1, answer)  # type: ignore[arg-type]
        client = await consumer(loop, group_id="g").start()
        await client.partitions_for(TOPIC)
        client.assign([A])
        silent = True
        begin = loop.time()
        with pytest.raises(KafkaError, match="300 ms") as caught:
            await CALLS[call](client)
        took = loop.time() - begin
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await client.close(0)
        return took

    assert 0.29 < run(story) < 0.35


def test_a_timeout_of_somebody_else_is_not_told_as_its_own() -> None:
    async def failing() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run(lambda _: within("something", 1000, failing()))


def test_what_is_paused_and_which_topics_there_are(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 1, partitions=1)
    where = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap) as client:
        assert list(client.list_topics()[topic].partitions) == [*client.partitions_for(topic)]
        client.assign([where])
        assert client.paused() == set()
        client.pause(where)
        assert client.paused() == {where}
        client.resume(where)
        assert client.paused() == set()
        assert client.end_offsets([where], 10_000) == {where: 1}
