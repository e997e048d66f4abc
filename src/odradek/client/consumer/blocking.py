"""The blocking consumer.

with Consumer(bootstrap_servers="localhost:9092", group_id="group", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["topic"])
    for record in consumer:
        ...
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from odradek.client.calls.blocking import Face, blocking, called_here, called_in_loop
from odradek.client.consumer.aio import CLOSE_TIMEOUT_MS, AsyncConsumer
from odradek.client.consumer.deserializers import Deserializer
from odradek.client.consumer.listeners import Call
from odradek.client.core.positions import Chunk
from odradek.client.settings.config import Setting
from odradek.client.types import ArrowBatch, ConsumerRecord

T = TypeVar("T")


class Consumer(Face[AsyncConsumer]):
    """Consumer like `AsyncConsumer`, for code without an event loop. To be used by one thread at a time.

    A thread of the client sends heartbeats. Listeners and callbacks run in the thread that calls poll(), unsubscribe() or close().
    """

    def __init__(self, config: Mapping[str, Setting | Deserializer] | None = None, /, **settings: Setting | Deserializer) -> None:
        """Take the keys of `AsyncConsumer`. Raises ConfigError, which names the invalid key."""
        super().__init__(AsyncConsumer(config, **settings))
        self._thread.run(self._client.start)

    subscribe = called_in_loop(AsyncConsumer.subscribe)
    subscription = called_here(AsyncConsumer.subscription)

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        engine = self._client.engine
        self._calling(lambda: engine.unsubscribe(CLOSE_TIMEOUT_MS / 1000))

    enforce_rebalance = called_in_loop(AsyncConsumer.enforce_rebalance)
    group_metadata = called_here(AsyncConsumer.group_metadata)
    commit = blocking(AsyncConsumer.commit)
    commit_async = called_in_loop(AsyncConsumer.commit_async)
    committed = blocking(AsyncConsumer.committed)
    assign = called_in_loop(AsyncConsumer.assign)
    assign_range = called_in_loop(AsyncConsumer.assign_range)
    assignment = called_here(AsyncConsumer.assignment)
    seek = called_in_loop(AsyncConsumer.seek)

    @property
    def at_rest(self) -> bool:
        """Return whether only ranges are assigned, all of them were read to their end, and no error waits to be raised. Asks no broker."""
        return self._client.engine.at_rest

    leader_epoch = called_here(AsyncConsumer.leader_epoch)
    seek_to_beginning = called_in_loop(AsyncConsumer.seek_to_beginning)
    seek_to_end = called_in_loop(AsyncConsumer.seek_to_end)
    pause = called_in_loop(AsyncConsumer.pause)
    resume = called_in_loop(AsyncConsumer.resume)
    paused = called_here(AsyncConsumer.paused)
    position = blocking(AsyncConsumer.position)
    health = called_here(AsyncConsumer.health)
    current_lag = called_here(AsyncConsumer.current_lag)
    partitions_for = blocking(AsyncConsumer.partitions_for)
    list_topics = blocking(AsyncConsumer.list_topics)
    beginning_offsets = blocking(AsyncConsumer.beginning_offsets)
    end_offsets = blocking(AsyncConsumer.end_offsets)
    offsets_for_times = blocking(AsyncConsumer.offsets_for_times)
    wakeup = called_here(AsyncConsumer.wakeup)
    metrics = called_in_loop(AsyncConsumer.metrics)

    # By hand: records are handed out by the application's thread, so that an interrupted call has handed out none. A poll that finds
    # records does not wait for the loop thread, which takes 20 times as long (bench/faces.py).

    def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` milliseconds without records.

        A member of a group has to call poll again within max.poll.interval.ms. Rebalances, listeners and automatic commits run within poll.
        """
        engine = self._client.engine
        limit, through = engine.records_of_a_poll(max_records), self._client.through
        if not (engine.undisturbed and engine.hand_out.has_records):
            self._polling(timeout_ms, engine.ready)
        return engine.hand_out.take(limit, through)

    def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """Return the next batches as fetched, undecoded; None after `timeout_ms` milliseconds without batches."""
        engine, deadline = self._client.engine, time.monotonic() + timeout_ms / 1000
        while self._polling_until(deadline, lambda left: engine.ready(left, decoded=False)):
            mark = engine.hand_out.mark()
            try:
                chunk = engine.hand_out.take_chunk()
                if chunk is not None:
                    return chunk
            except BaseException:
                engine.hand_out.back_to(mark)
                raise
        return None

    def next_batch(self, timeout_ms: int = 1000, *, headers: bool = False) -> ArrowBatch | None:
        """Return the next records of one partition as Arrow columns; see `AsyncConsumer.next_batch`."""
        engine, deadline = self._client.engine, time.monotonic() + timeout_ms / 1000
        while found := self._polling_until(deadline, lambda left: engine.next_batch(left, headers=headers)):
            mark = engine.hand_out.mark()
            try:
                chunk, batch = found
                if engine.hand_out.finish(chunk):
                    return batch
            except BaseException:
                engine.hand_out.back_to(mark)
                raise
        return None

    def batches(self, *, headers: bool = False) -> Iterator[ArrowBatch]:
        """Yield the results of `next_batch` without end."""
        while True:
            batch = self.next_batch(3_600_000, headers=headers)
            if batch is not None:
                yield batch

    def __iter__(self) -> Iterator[ConsumerRecord]:
        engine = self._client.engine
        while True:
            if not (engine.undisturbed and engine.hand_out.has_records):
                self._polling(3_600_000, engine.ready)
            yield from engine.hand_out.draw(engine.max_poll_records, self._client.through)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit the records handed out if commits are automatic, give up the partitions, leave the group, and close the connections.

        `leave_group` (KIP-1092): False stays a member until the session runs out, True leaves even where a static member would stay. An
        error of a listener is raised when everything is closed.
        """
        engine, failure = self._client.engine, None
        if engine.closed:
            return
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            while call := self._thread.run(lambda: engine.prepare_close(max(deadline - time.monotonic(), 0.0), leave_group)):
                try:
                    self._make(call)
                except Exception as error:
                    failure = failure or error
        finally:
            self._thread.run(engine.close)
            if self._client.interceptors is not None:
                self._client.interceptors.close()
        if failure is not None:
            raise failure

    def _polling(self, timeout_ms: int, step: Callable[[float], Awaitable[T | Call]]) -> T:
        return self._polling_until(time.monotonic() + timeout_ms / 1000, step)

    def _polling_until(self, deadline: float, step: Callable[[float], Awaitable[T | Call]]) -> T:
        return self._calling(lambda: step(max(deadline - time.monotonic(), 0.0)))

    def _calling(self, step: Callable[[], Awaitable[T | Call]]) -> T:
        """Repeat `step`, and make the application's calls that it returns, until it returns something else."""
        while True:
            outcome = self._thread.run(step)
            if not isinstance(outcome, Call):
                return outcome
            self._make(outcome)

    def _make(self, call: Call) -> None:
        engine = self._client.engine
        try:
            try:
                engine.calling = True
                call.make()
            finally:
                # Do not wait: a Ctrl-C could end the wait before the loop has heard of the call.
                self._thread.call_soon(engine.called, call)
        except BaseException:
            # A Ctrl-C may have come before the line above; a second report changes nothing.
            self._thread.call_soon(engine.called, call)
            raise
