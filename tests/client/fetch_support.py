"""Logs that were truncated, and sessions of fetches, for tests with a broker and with JVM Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from odradek.base.errors import ErrorCode, code_of
from odradek.client import Admin, AsyncConsumer, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.core.positions import LogTruncation
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse


async def session_of_a_reader(bootstrap: str) -> tuple[int, ErrorCode, ErrorCode]:
    """The session that a consumer has after it has read "t", and what the broker says of it before and after the consumer is closed."""
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(3):
            await producer.send_and_wait("t", b"%d" % number, partition=number)
    async with AsyncConsumer(bootstrap_servers=bootstrap) as other:
        await other.partitions_for("t")

        async def said_of(session_id: int) -> ErrorCode:
            # An epoch that no session is at: only one that is there minds.
            cluster = other.engine.cluster
            request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=1_000_000)
            return code_of((await cluster.call(await cluster.node(next(iter(cluster.view.brokers))), request, FetchResponse)).error_code)

        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms="100") as client:
            client.assign([TopicPartition("t", number) for number in range(3)])
            found: set[bytes] = set()
            while len(found) < 3:
                found.update(record.value for record in await client.poll(5000))
            await client.poll(300)
            [session] = client.engine._fetching._sessions.values()  # pyright: ignore[reportPrivateUsage]
            session_id = session._session_id  # pyright: ignore[reportPrivateUsage]
            before = await said_of(session_id)
        return session_id, before, await said_of(session_id)


@contextmanager
def diverged(bootstrap: str, kill: Callable[[int], None], start: Callable[[int], None]) -> Iterator[tuple[Consumer, Consumer]]:
    """Consumers, with and without a policy, that have read 8 records, of which the log kept 3 before 10 others were written."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        admin.create_topics([NewTopic("log", assignments={0: [1, 2]}, configs=configs)])
    with (
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as forgiving,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as strict,
    ):
        write(bootstrap, [b"common-%d" % number for number in range(3)], acks="all")
        kill(2)
        write(bootstrap, [b"lost-%d" % number for number in range(5)], acks="all")
        for client in (forgiving, strict):
            client.assign([TopicPartition("log", 0)])
            client.seek(TopicPartition("log", 0), 0)
            assert len(read_values(client, 8)) == 8
        kill(1)
        start(2)
        write(bootstrap, [b"new-%d" % number for number in range(10)], acks="1")
        yield forgiving, strict


def write(bootstrap: str, values: list[bytes], acks: str) -> None:
    with Producer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence="false") as producer:
        for sent in [producer.send("log", value, partition=0) for value in values]:
            sent.result(60)


def read_values(client: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    for _ in range(60):
        values += [record.value for record in client.poll(1000)]
        if len(values) >= count:
            break
    return values


def judge(forgiving: Consumer, strict: Consumer) -> None:
    """After `diverged`: what is new is read to the last record, or the truncation told."""
    assert read_values(forgiving, 10) == [b"new-%d" % number for number in range(10)]
    with pytest.raises(LogTruncation) as caught:
        read_values(strict, 10)
    assert caught.value.offset == 8
    assert caught.value.divergent is not None
    assert caught.value.divergent.offset == 3
