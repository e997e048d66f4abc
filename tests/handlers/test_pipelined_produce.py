"""Produce requests of one connection follow one another while the replicas catch up: over a real socket, into real logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.network.acceptor import Acceptor, Listener
from odradek.network.limits import AcceptorLimits
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import Message
from odradek.server.clock import LoopClock
from tests.handlers.support import Broker, batch
from tests.network.support import Peer, framed, peer
from tests.waiting import until

VERSION = 9


def request(correlation_id: int, message: Message, version: int) -> bytes:
    return encode_request_header(message.API_KEY, version, correlation_id, "test") + message.encode(version)


def produce(correlation_id: int, *values: bytes, acks: int = -1, timeout_ms: int = 1000, records: memoryview | None = None) -> bytes:
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch(*values) if records is None else records)
    topics = [ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])]
    return request(correlation_id, ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics), VERSION)


class PipelineWorld:
    """A leader whose follower is broker 2, played by the test."""

    def __init__(self, acceptor: Acceptor, client: Peer) -> None:
        self.broker = Broker()
        self.id = self.broker.create_topic("orders", replicas=(1, 2))
        self.acceptor = acceptor
        self.client = client
        acceptor.handler = self.broker.dispatcher

    async def appended(self, log_end: int) -> None:
        await until(lambda: self.broker.log_end("orders") == log_end)

    def replicated(self, offset: int) -> None:
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=200),
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=self.id, partitions=[partition])],
        )
        self.broker.ask(fetch, 17)

    async def answers(self, count: int) -> Sequence[tuple[int, int, int]]:
        """(correlation id, error, base offset) of each."""
        found: list[tuple[int, int, int]] = []
        for _ in range(count):
            body = await self.client.frame()
            correlation_id, offset = decode_response_header(body, ApiKey.PRODUCE, VERSION)
            [topic] = ProduceResponse.decode(memoryview(body)[offset:], VERSION).responses
            [partition] = topic.partition_responses
            found.append((correlation_id, partition.error_code, partition.base_offset))
        return found


@asynccontextmanager
async def world() -> AsyncIterator[PipelineWorld]:
    loop = asyncio.get_running_loop()
    acceptor = Acceptor(loop, LoopClock(loop), None, AcceptorLimits())  # type: ignore[arg-type]
    bound = await acceptor.bind(Listener("PLAINTEXT", "broker", "127.0.0.1", 0))
    await acceptor.serve(bound)
    try:
        async with peer(bound) as client:
            yield PipelineWorld(acceptor, client)
    finally:
        await acceptor.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 10))


def test_requests_are_appended_in_their_order_and_acknowledged_together() -> None:
    async def main() -> None:
        async with world() as it:
            it.client.send(*[produce(number, b"%d" % number) for number in range(5)])
            await it.appended(5)
            it.replicated(3)
            assert await it.answers(3) == [(number, 0, number) for number in range(3)]
            it.replicated(5)
            assert await it.answers(2) == [(number, 0, number) for number in (3, 4)]

    run(main())


def test_what_does_not_wait_for_replicas_is_answered_in_its_turn() -> None:
    async def main() -> None:
        async with world() as it:
            it.client.send(produce(1, b"a"), produce(2, b"b", acks=1), produce(3, b"c", acks=0), produce(4, records=memoryview(b"")))
            await it.appended(3)
            it.replicated(3)
            assert await it.answers(3) == [(1, 0, 0), (2, 0, 1), (4, ErrorCode.INVALID_RECORD, -1)]

    run(main())


def test_another_request_waits_until_all_is_acknowledged() -> None:
    async def main() -> None:
        async with world() as it:
            timestamps = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
            topics = [ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[timestamps])]
            it.client.send(produce(1, b"a"), request(2, ListOffsetsRequest(topics=topics), 1), produce(3, b"c"))
            await it.appended(1)
            await asyncio.sleep(0.02)
            assert it.broker.log_end("orders") == 1
            it.replicated(1)
            assert await it.answers(1) == [(1, 0, 0)]
            assert int.from_bytes((await it.client.frame())[:4], "big") == 2
            await it.appended(2)

    run(main())


def test_acks_0_that_fails_closes_after_the_answers_ahead_of_it() -> None:
    async def main() -> None:
        async with world() as it:
            it.client.send(produce(1, b"a"), produce(2, acks=0, records=memoryview(b"")), produce(3, b"c"))
            await it.appended(1)
            it.replicated(1)
            assert await it.answers(1) == [(1, 0, 0)]
            assert await it.client.closed()
            assert it.broker.log_end("orders") == 1

    run(main())


def test_a_time_out_is_answered_when_those_ahead_of_it_are() -> None:
    async def main() -> None:
        async with world() as it:
            it.client.send(produce(1, b"a", timeout_ms=3000), produce(2, b"b", timeout_ms=1000))
            await it.appended(2)
            it.broker.clock.advance_ms(1000)
            it.replicated(2)
            assert await it.answers(2) == [(1, 0, 0), (2, ErrorCode.REQUEST_TIMED_OUT, 1)]

    run(main())


def test_requests_that_wait_hold_none_of_what_they_were_received_in() -> None:
    async def main() -> None:
        async with world() as it:
            for number in range(16):
                it.client.send(produce(number, bytes(100_000)))
                await it.appended(number + 1)
            await until(lambda: it.acceptor.pool.in_use <= 8192)
            buffers = [buffer for free in it.acceptor.pool._free.values() for buffer in free]
            assert sum(len(buffer.data) for buffer in buffers) >= 256 * 1024, (
                "the buffers are back in the pool, nobody holds a view of them"
            )
            it.replicated(16)
            assert [answer[2] for answer in await it.answers(16)] == list(range(16))

    run(main())


def test_it_is_the_frame_that_says_what_may_follow() -> None:
    broker = Broker()
    assert broker.dispatcher.may_follow(memoryview(produce(1, b"a")))
    assert not broker.dispatcher.may_follow(memoryview(request(1, ListOffsetsRequest(), 1)))
    assert not broker.dispatcher.may_follow(memoryview(framed(b"\0")[:1]))
