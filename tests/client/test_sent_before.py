"""Futures of records that were taken before `send_many` or `send_batch` failed in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import Producer, SerializationError, sent_before
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, ScriptedBrokers, produced_to, producer, run

SMALL = {"buffer_memory": "1000", "batch_size": "500", "max_block_ms": "2000", "enable_idempotence": "false"}
MANY = [b"x" * 400] * 4
ROWS = pa.table({"value": MANY})

CALLS: dict[str, Callable[[SimulatedProducer], Awaitable[object]]] = {
    "send_many": lambda client: client.send_many(TOPIC, MANY, partition=0),
    "send_many with a serializer": lambda client: client.send_many(TOPIC, MANY, partition=0),
    "send_batch": lambda client: client.send_batch(TOPIC, ROWS, partition=0),
}


def interrupted(call: str, interrupt: Callable[[Awaitable[object]], Awaitable[None]]) -> tuple[type[BaseException], list[int]]:
    """Make the call while brokers answer nothing, until it fails; return the error, and the offsets of what it had taken."""

    async def story(loop: SimulatedLoop) -> tuple[type[BaseException], list[int]]:
        answers = False

        def answer(_: int, request: object) -> Any:
            if isinstance(request, ProduceRequest):
                return produced_to(request) if answers else None
            return brokers.metadata(leader=1) if isinstance(request, MetadataRequest) else None

        brokers = ScriptedBrokers(loop, 1, answer)
        hooks: dict[str, Any] = {"value_serializer": bytes} if "serializer" in call else {}
        async with producer(loop, request_timeout_ms="3000", **SMALL, **hooks) as client:
            await client.partitions_for(TOPIC)
            with pytest.raises((KafkaError, TimeoutError, asyncio.CancelledError)) as caught:
                await interrupt(CALLS[call](client))
            answers = True
            return type(caught.value), [(await future).offset for future in sent_before(caught.value)]

    return run(story)


@pytest.mark.parametrize("call", CALLS)
def test_what_was_taken_before_there_was_no_room_is_reachable(call: str) -> None:
    async def wait(sending: Awaitable[object]) -> None:
        await sending

    error, offsets = interrupted(call, wait)
    assert error is KafkaError
    assert offsets == [5, 5]


@pytest.mark.parametrize("call", CALLS)
def test_what_was_taken_before_a_time_limit_is_reachable(call: str) -> None:
    async def limit(sending: Awaitable[object]) -> None:
        async with asyncio.timeout(0.5):
            await sending

    error, offsets = interrupted(call, limit)
    assert error is TimeoutError
    assert offsets == [5, 5]


@pytest.mark.parametrize("call", CALLS)
def test_what_was_taken_before_a_cancellation_is_reachable(call: str) -> None:
    async def cancel(sending: Awaitable[object]) -> None:
        task = asyncio.ensure_future(sending)
        asyncio.get_running_loop().call_later(0.5, task.cancel)
        await task

    error, offsets = interrupted(call, cancel)
    assert error is asyncio.CancelledError
    assert offsets == [5, 5]


def refuse_bad(value: bytes) -> bytes:
    if value == b"bad":
        raise ValueError("bad")
    return value


def test_what_was_taken_before_a_value_that_no_serializer_takes_is_reachable(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, value_serializer=refuse_bad) as client:
        with pytest.raises(SerializationError) as caught:
            client.send_many(topic, [b"a", b"b", b"bad", b"c"], partition=0)
        assert [future.result(10).offset for future in sent_before(caught.value)] == [0, 1]
        with pytest.raises(SerializationError) as caught:
            client.send_many(topic, [b"bad"], partition=0)
        assert sent_before(caught.value) == []
        assert client.send(topic, b"d", partition=0).result(10).offset == 2


def test_rows_before_one_that_is_too_large_are_reachable(bootstrap: str, topic: str) -> None:
    rows = pa.table({"value": [b"a" * 900, b"b" * 900, b"c" * 5000]})
    with Producer(bootstrap_servers=bootstrap, batch_size=1000, max_request_size=2000) as client:
        with pytest.raises(KafkaError) as caught:
            client.send_batch(topic, rows, partition=0)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert [future.result(10).offset for future in sent_before(caught.value)] == [0, 1]


def test_an_error_of_something_else_has_no_futures() -> None:
    assert sent_before(ValueError("x")) == []
