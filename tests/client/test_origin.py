"""Clients used where they cannot work, in a forked child or in another event loop, and callbacks that raise what ends threads."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, AsyncProducer, Consumer, Producer
from odradek.client.calls.loop_thread import LoopThread
from odradek.client.types import ConsumerGroupMetadata
from odradek.records.batch import encode_batch

_SECONDS = 20


def in_a_child(action: Callable[[], object]) -> str:
    """Call `action` in a forked child and return what it raised there; a child that hangs is ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_SECONDS)
            try:
                said = f"returned {action()!r}"
            except BaseException as error:
                said = f"{type(error).__mro__[:-3]!r} {error} {traceback.format_exc()[-500:]}"
            os.write(writing, said.encode()[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said or f"it hung for {_SECONDS} s"


def producer_calls(producer: Producer, topic: str) -> dict[str, Callable[[], object]]:
    """Every call of a producer that waits, sends or changes something."""
    batch = encode_batch([(0, None, b"x", ())])
    where = TopicPartition(topic, 0)
    return {
        "send": lambda: producer.send(topic, b"x"),
        "send with a key": lambda: producer.send(topic, b"x", key=b"k"),
        "send to a partition": lambda: producer.send(topic, b"x", partition=0),
        "send with a callback": lambda: producer.send(topic, b"x", on_delivery=print),
        "send to a new topic": lambda: producer.send("other", b"x"),
        "send_many": lambda: producer.send_many(topic, [b"x"]),
        "send_encoded": lambda: producer.send_encoded(where, batch, 1),
        "partitions_for": lambda: producer.partitions_for(topic),
        "flush": producer.flush,
        "metrics": producer.metrics,
        "init_transactions": producer.init_transactions,
        "begin_transaction": producer.begin_transaction,
        "send_offsets_to_transaction": lambda: producer.send_offsets_to_transaction({where: 1}, ConsumerGroupMetadata("g")),
        "commit_transaction": producer.commit_transaction,
        "abort_transaction": producer.abort_transaction,
        "transaction": lambda: producer.transaction().__enter__(),
        "close": producer.close,
    }


@pytest.mark.parametrize("transactional", [False, True])
def test_every_call_of_a_producer_in_a_forked_child_says_so_at_once(bootstrap: str, topic: str, transactional: bool) -> None:
    more = {"transactional_id": topic} if transactional else {}
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000, **more) as producer:
        if transactional:
            producer.init_transactions()
            producer.begin_transaction()
        # Open batches for all ways of `send`.
        waiting = [producer.send(topic, b"x"), producer.send(topic, b"x", key=b"k"), producer.send(topic, b"x", partition=0)]

        def all_calls() -> dict[str, str]:
            found: dict[str, str] = {}
            calls = producer_calls(producer, topic)
            for name, call in [*calls.items(), ("result", waiting[0].result)]:
                try:
                    found[name] = f"returned {call()!r}"
                except OdradekError as error:
                    if "created before a fork" not in str(error):
                        found[name] = repr(error)
            return found

        # A thread that holds the producer's lock during the fork is gone in the child.
        with producer._engine.lock:
            assert in_a_child(all_calls) == "returned {}"
        producer.flush()
        assert [future.exception() for future in waiting] == [None] * 3
        if transactional:
            producer.commit_transaction()


def test_a_forked_child_makes_clients_of_its_own(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"parent", partition=0).result(10)

        def send() -> int:
            with Producer(bootstrap_servers=bootstrap) as own:
                return own.send(topic, b"child", partition=0).result(10).offset

        assert in_a_child(send) == "returned 1"
        assert producer.send(topic, b"parent", partition=0).result(10).offset == 2


@pytest.mark.parametrize("kind", [Consumer, Admin])
def test_other_blocking_clients_say_so_too(bootstrap: str, topic: str, kind: type[Any]) -> None:
    with kind(bootstrap_servers=bootstrap) as client:
        calls = {"Consumer": ["poll", "close"], "Admin": ["list_topics", "close"]}[kind.__name__]
        for name in calls:
            assert "created before a fork" in in_a_child(getattr(client, name))


def test_an_asyncio_producer_in_another_event_loop_says_so_at_once(bootstrap: str, topic: str) -> None:
    async def made() -> AsyncProducer:
        producer = await AsyncProducer(bootstrap_servers=bootstrap, transactional_id=topic).start()
        await producer.init_transactions()
        return producer

    async def use(producer: AsyncProducer) -> None:
        calls: list[Callable[[], Any]] = [
            producer.start,
            lambda: producer.send(topic, b"x"),
            lambda: producer.send_many(topic, [b"x"]),
            lambda: producer.send_and_wait(topic, b"x"),
            lambda: producer.partitions_for(topic),
            producer.flush,
            producer.commit_transaction,
            producer.close,
        ]
        for call in calls:
            with pytest.raises(OdradekError, match="another event loop"):
                await asyncio.wait_for(call(), 5)
        with pytest.raises(OdradekError, match="another event loop"):
            producer.begin_transaction()

    loop = asyncio.new_event_loop()
    try:
        producer = loop.run_until_complete(made())
        asyncio.run(use(producer))
        assert "created before a fork" in in_a_child(lambda: asyncio.run(producer.flush()))
        loop.run_until_complete(producer.close())
    finally:
        loop.close()


RAISED = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), ZeroDivisionError()]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("with_uvloop", [True, False])
def test_the_loop_thread_outlives_what_its_callbacks_and_tasks_raise(
    error: BaseException, with_uvloop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_uvloop:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    thread = LoopThread()

    def fail() -> None:
        raise error

    async def fails() -> None:
        raise error

    async def works() -> str:
        await asyncio.sleep(0)
        return "works"

    thread.call_soon(fail)
    assert thread.run(works) == "works"
    with pytest.raises((type(error), OdradekError)):  # A cancelled call is an OdradekError.
        thread.run(fails)
    assert thread.run(works) == "works"
    assert thread.usable
    thread.call_soon(thread.loop.stop)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_callbacks_that_raise_anything_keep_nothing_from_the_others(bootstrap: str, topic: str, error: BaseException) -> None:
    told: list[int] = []

    class Watching:
        def on_acknowledgement(self, *_: object) -> None:
            raise error

    def fail(*_: object) -> None:
        raise error

    with Producer(bootstrap_servers=bootstrap, interceptor_classes=[Watching()], linger_ms=0) as hooked:
        assert hooked.send(topic, b"0", partition=1, on_delivery=lambda metadata, _: told.append(metadata.offset)).result(10).offset == 0
        hooked.flush()
        assert told == [0]
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        futures = [producer.send(topic, b"x", partition=0, on_delivery=fail) for _ in range(3)]
        last = producer.send(topic, b"x", partition=0, on_delivery=lambda metadata, _: told.append(metadata.offset))
        futures[0].add_done_callback(fail)
        producer.flush()
        assert [future.result(10).offset for future in [*futures, last]] == [0, 1, 2, 3]
        futures[0].add_done_callback(fail)
    assert told == [0, 3]


def test_an_asyncio_producer_goes_on_as_well(bootstrap: str, topic: str) -> None:
    async def story() -> list[int]:
        def fail(*_: object) -> None:
            raise SystemExit(3)

        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            futures = [await producer.send(topic, b"x", partition=0, on_delivery=fail) for _ in range(3)]
            await producer.flush()
            return [(await future).offset for future in futures]

    assert asyncio.run(story()) == [0, 1, 2]


def test_a_result_waited_for_in_the_clients_own_loop_is_an_error_and_no_standstill(bootstrap: str, topic: str) -> None:
    said: list[BaseException] = []
    heard = threading.Event()

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:

        def wait(*_: object) -> None:
            try:
                producer.send(topic, b"y", partition=1).result()
            except OdradekError as error:
                said.append(error)
            heard.set()

        producer.partitions_for(topic)
        producer.send(topic, b"x", partition=0, on_delivery=wait)
        assert heard.wait(_SECONDS)
        assert "pass the work to another thread" in str(said[0])
