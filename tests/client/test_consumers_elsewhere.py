"""A consumer or admin client that is used in another event loop, or in a forked child, says so at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from odradek.base.errors import OdradekError
from odradek.client import AsyncAdmin, AsyncConsumer, Consumer, Producer, TopicPartition

CALLS: dict[str, Callable[[AsyncConsumer, TopicPartition], Awaitable[object]]] = {
    "poll": lambda client, _: client.poll(5000),
    "next_chunk": lambda client, _: client.next_chunk(5000),
    "next_batch": lambda client, _: client.next_batch(5000),
    "iterate": lambda client, _: anext(aiter(client)),
    "position": lambda client, where: client.position(where),
    "commit": lambda client, _: client.commit(),
    "committed": lambda client, where: client.committed([where]),
    "end_offsets": lambda client, where: client.end_offsets([where]),
    "list_topics": lambda client, _: client.list_topics(),
    "unsubscribe": lambda client, _: client.unsubscribe(),
    "close": lambda client, _: client.close(),
}


def test_every_call_in_another_event_loop_says_so(bootstrap: str, topic: str) -> None:
    where = TopicPartition(topic, 0)

    async def make() -> tuple[AsyncConsumer, AsyncAdmin]:
        client = await AsyncConsumer(bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False).start()
        client.assign([where])
        return client, await AsyncAdmin(bootstrap_servers=bootstrap).start()

    async def use(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(OdradekError, match="created in another event loop"):
            await call()

    with asyncio.Runner() as home:
        client, admin = home.run(make())
        for call in CALLS.values():
            asyncio.run(use(lambda call=call: call(client, where)))  # type: ignore[misc]
        asyncio.run(use(admin.list_topics))
        with pytest.raises(OdradekError, match="created in another event loop"):
            client.seek(where, 0)
        home.run(client.close())
        home.run(admin.close())


def test_a_forked_child_gets_no_record_of_its_parent(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [b"x"] * 5, partition=0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as client:
        client.assign([TopicPartition(topic, 0)])
        records = iter(client)
        assert next(records).offset == 0
        child = os.fork()
        if child == 0:
            refused = 0
            for read in (lambda: next(records), lambda: client.poll(1000), lambda: client.next_chunk(1000)):
                try:
                    read()
                except OdradekError as error:
                    refused += "before a fork" in str(error)
                except BaseException:
                    os._exit(9)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert [record.offset for record in client.poll(5000)] == [1, 2, 3, 4]
