"""A batch that the broker finds too large goes out in pieces, and each record has the outcome of its own piece."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.core.sender import BatchAnswer, Dispatch
from odradek.client.producer.futures import RecordFuture
from odradek.records.batch import decode_records, read_header
from tests.client.sender_support import CONFIG, SenderWorld


class Split(SenderWorld):
    """Four records, refused as one batch, on their way as four."""

    def __init__(self, *, idempotent: bool = True, records: int = 4) -> None:
        config = CONFIG if idempotent else CONFIG._replace(idempotent=False, max_in_flight=1)
        super().__init__(1, 0.0, partitions=1, config=config)
        self.leaders = [0]
        self.send(records)
        self.now += 10
        self.turn()
        self.futures = [future for *_, future in self.placed]
        self.whole = self.answer(BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)).batches[0]

    def answer(self, answer: BatchAnswer) -> Dispatch:
        """Answers what was sent first, and lets the sender go on."""
        dispatch, _ = self.wire[0].popleft()
        self.sender.on_response(dispatch, [answer] * len(dispatch.batches), self.now)
        self.turn()
        return dispatch

    def values(self) -> list[bytes | None]:
        """The records that are on the wire."""
        return [record.value for _, payloads in self.wire[0] for payload in payloads for record in decode_records(payload)]


def code_of(future: RecordFuture) -> ErrorCode | None:
    error = future.exception()
    assert error is None or isinstance(error, KafkaError)
    return None if error is None else error.code


def test_each_record_has_the_offset_of_its_own_piece() -> None:
    world = Split()
    for offset in (10, 100, 200, 300):
        world.answer(BatchAnswer(ErrorCode.NONE, offset))
    assert [future.result().offset for future in world.futures] == [10, 100, 200, 300]


def test_each_record_has_the_timestamp_of_its_own_piece() -> None:
    world = Split()
    for number in range(4):
        world.answer(BatchAnswer(ErrorCode.NONE, number, 1000 + number))
    assert [future.result().timestamp for future in world.futures] == [1000, 1001, 1002, 1003]


def test_a_failed_piece_fails_its_own_records_only() -> None:
    world = Split()
    world.answer(BatchAnswer(ErrorCode.NONE, 10))
    world.answer(BatchAnswer(ErrorCode.INVALID_RECORD, message="no", record_errors={0: "this one"}))
    while world.wire[0]:
        world.answer(BatchAnswer(ErrorCode.NONE, 50))
    assert [code_of(future) for future in world.futures] == [None, ErrorCode.INVALID_RECORD, None, None]
    assert str(world.futures[1].exception()).endswith("this one")


def test_a_record_is_done_with_its_own_piece() -> None:
    world = Split()
    told: list[int] = []
    for number, future in enumerate(world.futures):
        future.add_done_callback(lambda _, number=number: told.append(number))
    world.answer(BatchAnswer(ErrorCode.NONE, 10))
    assert [future.done() for future in world.futures] == [True, False, False, False]
    assert told == [0]
    while world.wire[0]:
        world.answer(BatchAnswer(ErrorCode.NONE, 50))
    assert told == [0, 1, 2, 3]


def test_a_callback_from_before_the_split_is_called_once_too() -> None:
    world = SenderWorld(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(4)
    told: list[int] = []
    for *_, future in world.placed:
        future.add_done_callback(lambda future: told.append(future.result().offset))
    world.now += 10
    world.turn()
    world.sender.on_response(world.wire[0].popleft()[0], [BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)], world.now)
    assert told == []
    world.turn()
    for offset in (10, 100, 200, 300):
        world.sender.on_response(world.wire[0].popleft()[0], [BatchAnswer(ErrorCode.NONE, offset)], world.now)
        world.turn()
    assert told == [10, 100, 200, 300]


def test_a_piece_may_be_split_again() -> None:
    world = SenderWorld(1, 0.0, partitions=1, config=CONFIG._replace(batch_size=400))
    world.leaders = [0]
    world.send(12)
    world.now += 10
    world.turn()
    assert len(world.wire[0]) == 1
    world.logs[0].max_batch = 75
    world.run(0)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert world.logs[0].too_large >= 3


class TestRuns:
    """Records that were handed over together have one future."""

    def test_fails_when_a_later_piece_does(self) -> None:
        world = Split()
        run = RecordFuture(world.whole, 0, 0, record_count=4)
        world.answer(BatchAnswer(ErrorCode.NONE, 10))
        world.answer(BatchAnswer(ErrorCode.NONE, 20))
        assert not run.done()
        world.answer(BatchAnswer(ErrorCode.INVALID_RECORD))
        while world.wire[0]:
            world.answer(BatchAnswer(ErrorCode.NONE, 50))
        assert code_of(run) is ErrorCode.INVALID_RECORD

    def test_is_done_with_its_last_piece_and_has_the_offset_of_its_first(self) -> None:
        world = Split()
        run = RecordFuture(world.whole, 1, 0, record_count=2)
        told: list[int] = []
        run.add_done_callback(lambda future: told.append(future.result().offset))
        world.answer(BatchAnswer(ErrorCode.NONE, 10))
        world.answer(BatchAnswer(ErrorCode.NONE, 20))
        assert not run.done()
        assert not told
        world.answer(BatchAnswer(ErrorCode.NONE, 30))
        assert told == [20]
        assert run.done()


def test_awaiting_and_waiting_follow_the_piece() -> None:
    world = Split()

    async def scenario() -> list[int]:
        async def offset(future: RecordFuture) -> int:
            return (await future).offset

        tasks = [asyncio.create_task(offset(future)) for future in world.futures]
        await asyncio.sleep(0)
        for number in range(4):
            world.answer(BatchAnswer(ErrorCode.NONE, 100 * number))
        return await asyncio.gather(*tasks)

    with pytest.raises(TimeoutError):
        world.futures[0].result(timeout=0)
    assert asyncio.run(scenario()) == [0, 100, 200, 300]


def test_sequences_go_on_through_the_pieces() -> None:
    world = Split()
    sequences = [read_header(payload).base_sequence for _, payloads in world.wire[0] for payload in payloads]
    assert sequences[0] == 0
    while world.wire[0]:
        payload = world.wire[0][0][1][0]
        sequences.append(read_header(payload).base_sequence)
        world.answer(BatchAnswer(ErrorCode.NONE, 50))
    assert sorted(set(sequences)) == [0, 1, 2, 3]


def test_without_sequences_the_pieces_go_out_in_order() -> None:
    world = Split(idempotent=False)
    world.send(3)
    order = []
    while world.wire[0]:
        order += world.values()
        world.answer(BatchAnswer(ErrorCode.NONE, 50))
        world.now += 10
        world.turn()
    assert order == [b"%d" % number for number in range(7)]


def test_the_memory_of_the_pieces_is_given_back() -> None:
    world = Split()
    assert world.accumulator.used > 0
    while world.wire[0]:
        world.answer(BatchAnswer(ErrorCode.NONE, 50))
    assert world.accumulator.used == 0


def test_a_single_record_that_is_too_large_is_not_split() -> None:
    world = SenderWorld(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(1)
    world.now += 10
    world.turn()
    world.sender.on_response(world.wire[0].popleft()[0], [BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)], world.now)
    assert code_of(world.placed[0][2]) is ErrorCode.MESSAGE_TOO_LARGE
    assert world.sender.outstanding == 0


def test_a_callback_that_fails_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    world = Split()

    def broken(_: RecordFuture) -> None:
        raise RuntimeError("broken on purpose")

    for future in world.futures:
        future.add_done_callback(broken)
    with caplog.at_level(logging.CRITICAL):
        while world.wire[0]:
            world.answer(BatchAnswer(ErrorCode.NONE, 50))
    assert all(future.done() for future in world.futures)
    assert world.sender.outstanding == 0


def test_pieces_have_no_more_time_than_their_whole_had() -> None:
    world = Split()
    world.now = world.whole.created_ms + CONFIG.delivery_timeout_ms
    world.answer(BatchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert code_of(world.futures[0]) is ErrorCode.REQUEST_TIMED_OUT
