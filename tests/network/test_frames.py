"""Frames come out of the receive buffer whole, in order and unchanged, however the bytes arrive; memory follows what has arrived."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.network.frames import FLOOR_CAPACITY, BufferPool, FrameReceiver, FrameSizeError

MIB = 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(receiver: FrameReceiver, data: bytes, step: int = 1 << 30, *, keep: list[memoryview] | None = None) -> list[bytes]:
    """Runs the receiver's cycle over `data`, `step` bytes at most at a time; returns the frames."""
    frames: list[bytes] = []
    view = memoryview(data)
    while view:
        assert receiver.reserve()
        space = receiver.space()
        size = min(len(space), len(view), step)
        assert size > 0
        space[:size] = view[:size]
        del space
        receiver.received(size)
        view = view[size:]
        while (frame := receiver.next_frame()) is not None:
            frames.append(bytes(frame))
            if keep is not None:
                keep.append(frame)
            del frame
        receiver.frame_done()
    return frames


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=30),
    step=st.integers(1, 5000),
    base=st.sampled_from([16, 64, 1024, 8192]),
    keep=st.booleans(),
)
def test_frames_are_what_was_sent(sizes: list[int], step: int, base: int, keep: bool) -> None:
    bodies = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    kept: list[memoryview] | None = [] if keep else None
    receiver = FrameReceiver(BufferPool(1 << 30, base_capacity=base), 1 << 20)
    assert feed(receiver, framed(*bodies), step, keep=kept) == bodies
    if kept is not None:
        assert [bytes(frame) for frame in kept] == bodies


def test_a_kept_view_of_a_large_frame_never_changes() -> None:
    rng = random.Random(1)
    receiver = FrameReceiver(BufferPool(1 << 30), 10 * MIB)
    bodies = [rng.randbytes(rng.randrange(5_000, 400_000)) for _ in range(20)]
    kept: list[memoryview] = []
    feed(receiver, framed(*bodies), 70_000, keep=kept)
    assert [bytes(frame) for frame in kept] == bodies


def test_an_unshared_buffer_is_used_again() -> None:
    pool = BufferPool(1 << 30)
    receiver = FrameReceiver(pool, 10 * MIB)
    feed(receiver, framed(b"x" * 100_000))
    assert receiver.capacity == 0
    assert pool.in_use == 0
    receiver.reserve()
    first = receiver._buffer  # pyright: ignore[reportPrivateUsage]
    receiver.release()
    receiver.reserve()
    assert receiver._buffer is first  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 1025, 2**31 - 1])
def test_a_size_that_is_not_allowed_is_refused_before_memory_is_taken(size: int) -> None:
    pool = BufferPool(1 << 30, base_capacity=64)
    receiver = FrameReceiver(pool, 1024)
    with pytest.raises(FrameSizeError, match="bytes"):
        feed(receiver, struct.pack(">i", size))
    assert pool.in_use == 64


def test_a_declared_size_takes_no_memory_until_its_bytes_arrive() -> None:
    pool = BufferPool(1 << 30)
    receiver = FrameReceiver(pool, 100 * MIB)
    feed(receiver, struct.pack(">i", 99 * MIB) + b"x" * 1000)
    assert receiver.capacity <= 256 * 1024
    feed(receiver, b"x" * MIB)
    assert receiver.capacity <= 4 * MIB


def test_a_waiting_connection_shrinks_to_the_floor_and_goes_on() -> None:
    pool = BufferPool(1 << 30)
    receiver = FrameReceiver(pool, MIB)
    data = framed(b"a" * 100_000)
    feed(receiver, data[:100])
    receiver.shrink()
    assert pool.in_use == FLOOR_CAPACITY
    assert feed(receiver, data[100:]) == [b"a" * 100_000]


def test_without_memory_every_connection_still_has_its_floor_and_one_may_go_on() -> None:
    pool = BufferPool(300 * 1024)
    first, second, third = (FrameReceiver(pool, 10 * MIB) for _ in range(3))
    large = framed(b"b" * 2 * MIB)
    feed(first, large[: 200 * 1024])
    feed(second, large[:4096])
    assert second.capacity == FLOOR_CAPACITY
    assert second.reserve()  # overdraws: somebody has to get on
    feed(third, framed(b"small"))
    feed(third, large[:4096])
    assert third.capacity == FLOOR_CAPACITY
    assert not third.reserve()
    woken: list[bool] = []

    def try_again() -> None:
        woken.append(third.reserve())
        if not woken[-1]:
            pool.wait(try_again)

    pool.wait(try_again)
    assert feed(second, large[4096:]) == [large[4:]]
    assert woken[-1]


def test_a_connection_that_goes_in_the_middle_of_a_frame_passes_the_right_to_overdraw_on() -> None:
    pool = BufferPool(300 * 1024)
    first, second, third = (FrameReceiver(pool, 10 * MIB) for _ in range(3))
    large = framed(b"b" * 2 * MIB)
    feed(first, large[: 200 * 1024])
    for receiver in (second, third):
        feed(receiver, large[:4096])
    assert second.reserve()
    assert not third.reserve()
    second.release()
    assert third.reserve()
    assert feed(third, large[4096:]) == [large[4:]]


def test_a_connection_that_has_logged_in_takes_its_memory_along_and_leaves_the_right_to_overdraw() -> None:
    logins, clients = BufferPool(2 * FLOOR_CAPACITY, base_capacity=FLOOR_CAPACITY), BufferPool(MIB)
    large = framed(b"b" * 100_000)
    for rounds in range(1, 3):
        first, second = FrameReceiver(logins, MIB), FrameReceiver(logins, MIB)
        for receiver in (first, second):
            feed(receiver, large[:FLOOR_CAPACITY])
        assert first.reserve()
        assert not second.reserve()
        woken: list[bool] = []

        def try_again(second: FrameReceiver = second, woken: list[bool] = woken) -> None:
            woken.append(second.reserve())
            if not woken[-1]:
                logins.wait(try_again)

        logins.wait(try_again)
        first.use(logins)
        assert not second.reserve(), "it has not changed its pool"
        first.use(clients)
        assert woken[-1], f"round {rounds}"
        assert (logins.in_use, clients.in_use) == (second.capacity, first.capacity)
        for receiver in (first, second):
            assert feed(receiver, large[FLOOR_CAPACITY:]) == [large[4:]]
            receiver.release()
        assert (logins.in_use, clients.in_use) == (0, 0)


def test_a_client_that_trusts_its_broker_takes_the_frame_s_size_at_once() -> None:
    receiver = FrameReceiver(BufferPool(1 << 40), 100 * MIB, eager_bytes=64 * MIB)
    feed(receiver, struct.pack(">i", 5 * MIB) + b"x")
    receiver.reserve()
    assert receiver.capacity == 5 * MIB + 256 * 1024, "as many as are needed, in steps that answers of about that size share"


def test_a_frame_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    assert feed(FrameReceiver(BufferPool(1 << 20), 100), framed(b"x" * 100)) == [b"x" * 100]
    with pytest.raises(FrameSizeError, match="a frame of 101 bytes"):
        feed(FrameReceiver(BufferPool(1 << 20), 100), framed(b"x" * 101))


def test_who_waits_for_memory_is_woken_by_what_is_given_back() -> None:
    pool = BufferPool(2 * MIB, base_capacity=MIB)
    first, second = pool.take(MIB), pool.take(MIB)
    assert first is not None
    assert second is not None
    assert pool.take(MIB) is None
    woken: list[int] = []
    pool.wait(lambda: woken.append(pool.in_use))
    pool.give_back(first)
    assert woken == [MIB]
    pool.give_back(second)
    assert woken == [MIB], "once"


def test_all_who_wait_for_memory_are_woken_and_may_wait_again() -> None:
    pool = BufferPool(2 * MIB, base_capacity=MIB)
    woken: list[str] = []

    def again() -> None:
        woken.append("again")
        pool.wait(again)

    pool.charge(2 * MIB)
    pool.wait(lambda: woken.append("once"))
    pool.wait(again)
    pool.charge(-MIB)
    assert woken == ["once", "again"]
    pool.charge(100)
    assert woken == ["once", "again"], "less than before"
    taken = pool.take(MIB // 2)
    assert taken is not None
    pool.give_back(taken)
    assert woken == ["once", "again", "again"]
    pool.charge(-100)
    assert woken == ["once", "again", "again", "again"]


def test_the_right_to_overdraw_passes_on_when_its_owner_is_done() -> None:
    pool = BufferPool(MIB, base_capacity=MIB)
    taken = [pool.take(MIB), pool.take(MIB, "first")]
    assert pool.take(MIB, "second") is None
    woken: list[bool] = []
    pool.wait(lambda: woken.append(pool.take(MIB, "second") is not None))
    pool.settle("second")
    assert woken == [], "it is another's"
    pool.settle("first")
    assert woken == [True]
    assert pool.take(MIB, "third") is None
    assert None not in taken


def test_the_pool_keeps_so_much_and_no_more() -> None:
    pool = BufferPool(1 << 30, retained=3 * MIB)
    buffers = [pool.take(MIB) for _ in range(10)]
    for buffer in buffers:
        assert buffer is not None
        pool.give_back(buffer)
    assert pool.retained == 3 * MIB
    assert pool.in_use == 0
    odd = pool.take(MIB + 1)
    assert odd is not None
    pool.give_back(odd)
    assert pool.retained == 3 * MIB, "odd sizes are not kept"


def test_a_connection_that_lives_long_needs_one_small_buffer() -> None:
    pool = BufferPool(1 << 30)
    for _ in range(100):
        buffer = pool.take_floor()
        pool.give_back(buffer)
    assert pool.retained == len(buffer.data)
    assert pool.take_floor() is buffer
    assert pool.retained == 0


class TestLentBuffers:
    """Large answers that somebody still reads while the next ones come."""

    def test_memory_is_used_again_once_nobody_reads_it(self) -> None:
        pool = BufferPool(1 << 30, lent=64 * MIB)
        buffer = pool.take(16 * MIB)
        assert buffer is not None
        frame = memoryview(buffer.data)[5:]
        part = frame[:100]
        pool.give_back(buffer)
        other = pool.take(16 * MIB)
        assert other is not None
        assert other is not buffer, "it is being read"
        pool.give_back(other)
        frame.release()
        assert pool.take(16 * MIB) is other
        assert pool.take(16 * MIB) is not buffer, "a part of it is being read"
        part.release()
        assert pool.take(16 * MIB) is buffer

    def test_one_that_is_a_little_larger_will_do_and_counts_whole(self) -> None:
        pool = BufferPool(1 << 30, lent=64 * MIB)
        buffer = pool.take(16 * MIB)
        assert buffer is not None
        pool.give_back(buffer)
        assert pool.take(16 * MIB + 1) is not buffer
        assert pool.take(7 * MIB) is not buffer, "that would waste more than half of it"
        before = pool.in_use
        assert pool.take(10 * MIB) is buffer
        assert pool.in_use == before + 16 * MIB
        pool.give_back(buffer)
        assert pool.in_use == before

    def test_no_more_is_remembered_than_the_limit(self) -> None:
        pool = BufferPool(1 << 30, lent=40 * MIB)
        buffers = [pool.take(16 * MIB) for _ in range(4)]
        for buffer in buffers:
            assert buffer is not None
            pool.give_back(buffer)
        assert [pool.take(16 * MIB) in buffers[2:] for _ in range(3)] == [True, True, False]
        large = pool.take(41 * MIB)
        assert large is not None
        pool.give_back(large)
        assert pool.take(41 * MIB) is not large

    def test_each_call_to_forget_frees_one(self) -> None:
        pool = BufferPool(1 << 30, lent=64 * MIB)
        buffers = [pool.take(16 * MIB) for _ in range(2)]
        for buffer in buffers:
            assert buffer is not None
            pool.give_back(buffer)
        pool.forget_lent()
        assert pool.take(16 * MIB) is buffers[1]
        assert pool.take(16 * MIB) not in buffers
        pool.forget_lent()  # of none

    def test_buffers_below_a_mebibyte_are_not_worth_it(self) -> None:
        pool = BufferPool(1 << 30, lent=64 * MIB)
        buffer = pool.take(MIB - 1)
        assert buffer is not None
        pool.give_back(buffer)
        assert pool.take(MIB - 1) is not buffer

    def test_servers_remember_none(self) -> None:
        pool = BufferPool(1 << 30)
        buffer = pool.take(16 * MIB)
        assert buffer is not None
        pool.give_back(buffer)
        assert pool.take(16 * MIB) is not buffer

    def test_answers_of_a_client_that_differ_a_little_come_into_the_same_memory(self) -> None:
        receiver = FrameReceiver(BufferPool(1 << 30, lent=64 * MIB), 100 * MIB, eager_bytes=64 * MIB)
        seen: list[int] = []
        for size in (16 * MIB + 50, 16 * MIB + 70, 16 * MIB):
            data = framed(b"z" * size)
            at = 0
            while at < len(data):
                receiver.reserve()
                space = receiver.space()
                piece = data[at : at + len(space)]
                space[: len(piece)] = piece
                receiver.received(len(piece))
                at += len(piece)
                if (frame := receiver.next_frame()) is not None:
                    assert len(frame) == size
                    seen.append(id(frame.obj))
                    del frame
            assert not receiver.frame_done()
        assert seen[0] == seen[1] == seen[2]


def test_what_nobody_needs_is_freed_and_what_is_in_use_now_and_then_is_kept() -> None:
    pool = BufferPool(1 << 30, retained=16 * MIB)
    for buffer in [pool.take(MIB) for _ in range(8)]:
        assert buffer is not None
        pool.give_back(buffer)
    pool.release_spare()
    assert pool.retained == 8 * MIB, "they were needed since the last time"
    for buffer in [pool.take(MIB) for _ in range(3)]:
        assert buffer is not None
        pool.give_back(buffer)
    pool.release_spare()
    assert pool.retained == 3 * MIB
    pool.release_spare()
    assert pool.retained == 0


def test_a_peer_that_has_sent_much_gets_a_large_buffer_for_its_next_request_and_not_for_a_look() -> None:
    pool = BufferPool(1 << 30)
    receiver = FrameReceiver(pool, 10 * MIB)
    feed(receiver, framed(b"x" * MIB))
    assert receiver.capacity == 0
    receiver.reserve()
    assert receiver.capacity == FLOOR_CAPACITY
    data = framed(b"y" * MIB)
    receiver.space()[:] = data[:FLOOR_CAPACITY]
    receiver.received(FLOOR_CAPACITY)
    assert receiver.next_frame() is None
    assert receiver.reserve()
    assert receiver.capacity >= len(data), "all of it at once"
    assert feed(receiver, data[FLOOR_CAPACITY:]) == [b"y" * MIB]
