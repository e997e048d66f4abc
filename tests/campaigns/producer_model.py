"""Model of the producer on three brokers, and of the committed records that a reader sees afterwards. Hypothesis chooses the calls.

    python -m tests.campaigns.producer_model --runs 20000 --seed 1

One run is a producer (blocking or asyncio, idempotent or transactional) and a script. Its steps: send, send_many, flush, bad items,
callbacks that raise, offsets, commit and abort, calls that are cancelled or interrupted, forks, refused requests (some of which took
effect), cut connections, leaders that move, close.

- Every future ends (`future`), and every callback is called once (`callback`).
- Every acknowledged record exists once, in the order of the calls. Records of an aborted transaction and refused records do not exist
  (`read`).
- A transaction ends as requested (`outcome`). No call ends in an error unless a broker has refused a request for good.

Runs are played in portions of 250. A failure prints its script at once. The end prints the shortest failing script and the portion's seed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from odradek.base.errors import OdradekError
from odradek.client import AsyncProducer, Consumer, KafkaError, Producer, TopicPartition
from odradek.client.admin.types.topics import OffsetSpec
from odradek.client.calls import loop_thread
from odradek.client.core.transactions import IllegalTransactionState
from odradek.client.producer import blocking
from odradek.client.types import ConsumerGroupMetadata
from tests.campaigns.model_faces import LIMIT_S, Blocking, Coroutines, Face, drive
from tests.campaigns.model_world import TOPIC, Model, ModelWorld, ViolationError, play

PARTITIONS = 2
STEPS = 14
_RAISED = (SystemExit, KeyboardInterrupt, asyncio.CancelledError, ValueError)

_MOVED = "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"
FAULTS: dict[str, tuple[str, ...]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"),
    "Metadata": (),
    "InitProducerId": (*_MOVED[:1], "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": (*_MOVED, "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": (*_MOVED, "CONCURRENT_TRANSACTIONS"),
    "TxnOffsetCommit": _MOVED,
    "EndTxn": _MOVED,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
}
_FOR_GOOD = "TOPIC_AUTHORIZATION_FAILED"
"""Error after which a batch has failed for good."""


class Sent(NamedTuple):
    """Records of one call, in one batch. `transaction` is a number, 0 outside of transactions. The future is None when the call was ended
    early.
    """

    values: list[bytes]
    future: Any
    transaction: int


class BlockingProducer(Blocking):
    """Blocking producer, interrupted in its lines and in those that wait for the loop's thread."""

    modules = (blocking, loop_thread)


WHERE = st.integers(0, PARTITIONS - 1)
LEFT = st.one_of(st.none(), st.integers(1, 12))
"""None: the call is not ended early."""


class ProducerModel(Model):
    """One run of one producer."""

    done: ClassVar[Counter[str]] = Counter()
    reader: ClassVar[Consumer]
    ends: ClassVar[dict[TopicPartition, int]]
    """Offsets at which the next run begins in the shared topic."""

    @initialize(
        asynchronous=st.booleans(),
        transactional=st.booleans(),
        linger=st.sampled_from((0, 1, 5)),
        size=st.sampled_from((60, 16_384)),
        moves=st.integers(0, 3).map(lambda number: number == 3),
    )
    def begin(self, asynchronous: bool, transactional: bool, linger: int, size: int, moves: bool) -> None:
        """Make the producer."""
        self.topic = self.world.lend() if moves else TOPIC
        self.runner = asyncio.Runner() if asynchronous else None
        self.transactional = transactional
        self.sent: dict[int, list[Sent]] = defaultdict(list)
        self.count = 0
        self.transaction = 0
        """Number of the open transaction, or 0."""
        self.outcomes: dict[int, bool] = {0: True}
        self.told = self.telling = 0
        self.forked = self.refusing = self.unsure = False
        """`refusing`: whether a broker has refused a request for good. `unsure`: whether a response was lost, so that refused records may
        exist.
        """
        self.script.append(f"{'asyncio' if asynchronous else 'blocking'} {transactional=} {linger=} {size=} {moves=}")
        settings: dict[str, Any] = {
            **self.client_settings(),
            "linger.ms": linger,
            "batch.size": size,
        }
        if transactional:
            settings["transactional.id"] = f"model-{self.number % 3}"
        self.settings = settings

        async def start() -> None:
            self.face: Face = BlockingProducer(Producer(settings)) if self.runner is None else Coroutines(AsyncProducer(settings))
            await self.face.start()
            if transactional:
                await self.face.call("init_transactions")

        self.step(start, "start")

    def step(self, action: Callable[[], Awaitable[None]], name: str) -> None:
        """Perform a step."""
        self.script.append(name)
        type(self).done[name.split()[0]] += 1
        try:
            self.run(action())
        except BaseException as error:
            self.tell(error)
            raise

    async def left(self, at: int | None, method: str, *arguments: Any) -> bool:
        """Make the call, and end it early after `at`. Return whether the call returned."""
        if at is None:
            await self.face.call(method, *arguments)
            return True
        returned, _ = await self.face.left(method, at, *arguments)
        self.done["ended early"] += not returned
        return returned

    async def tried(self, action: Coroutine[Any, Any, Any]) -> bool:
        """Return whether the action succeeds. It may fail only if a broker has refused a request for good."""
        try:
            await action
        except KafkaError:
            if not self.refusing:
                raise
            return False
        return True

    async def opened(self) -> bool:
        """Begin a transaction if necessary."""
        if self.transactional and not self.transaction:
            await self.face.call("begin_transaction")
            self.count += 1
            self.transaction = self.count
        return True

    def value(self) -> bytes:
        self.count += 1
        return b"%d:%d" % (self.number, self.count)

    # -- steps ----------------------------------------------------------------------------------------------------------------------

    @rule(where=WHERE, raising=st.one_of(st.none(), st.sampled_from(_RAISED)), at=st.one_of(st.none(), st.none(), st.integers(1, 30)))
    def send(self, where: int, raising: type[BaseException] | None, at: int | None) -> None:
        def callback(*_: object) -> None:
            self.told += 1
            if raising is not None:
                raise raising

        async def action() -> None:
            await self.opened()
            value = self.value()
            if at is None:
                future = await self.face.call("send", self.topic, value, partition=where, on_delivery=callback)
                self.telling += 1
            else:
                _, future = await self.face.left("send", at, self.topic, value, partition=where)
            self.sent[where].append(Sent([value], future, self.transaction))

        self.step(lambda: self.refusable(action()), f"send {where} left={at}")

    @rule(where=WHERE, count=st.integers(1, 20))
    def send_many(self, where: int, count: int) -> None:
        async def action() -> None:
            await self.opened()
            values = [self.value() for _ in range(count)]
            for future in await self.face.call("send_many", self.topic, values, partition=where):
                self.sent[where].append(Sent(values[: future.record_count], future, self.transaction))
                values = values[future.record_count :]
            if values:
                raise ViolationError(f"future: none for {values}")

        self.step(lambda: self.refusable(action()), f"send_many {where} {count}")

    async def refusable(self, action: Coroutine[Any, Any, None]) -> None:
        """Perform an action on the transaction. Abort the transaction if a request was refused, as it takes no more records."""
        if not await self.tried(action) and self.transaction:
            await self.abort()

    async def abort(self) -> None:
        self.outcomes[self.transaction] = False
        await self.face.call("abort_transaction")
        self.transaction = 0

    @rule(at=LEFT)
    def flush(self, at: int | None) -> None:
        async def action() -> None:
            await self.left(at, "flush")

        self.step(action, f"flush left={at}")

    @rule(bad=st.sampled_from(({"headers": [(b"k", b"v")]}, {"timestamp": "now"}, {"key": "\ud800"})))
    def bad_item(self, bad: dict[str, Any]) -> None:
        async def action() -> None:
            await self.opened()
            try:
                await self.face.call("send", self.topic, b"bad", partition=0, **bad)
            except (TypeError, ValueError):
                return
            raise ViolationError(f"a bad item was taken: {bad}")

        self.step(lambda: self.refusable(action()), "bad_item")

    @rule(at=LEFT)
    def offsets(self, at: int | None) -> None:
        async def action() -> None:
            await self.opened()
            group = ConsumerGroupMetadata("model-offsets")
            await self.left(at, "send_offsets_to_transaction", {TopicPartition(self.topic, 0): self.count}, group)

        if self.transactional:
            self.step(lambda: self.refusable(action()), f"offsets left={at}")

    @rule(commit=st.booleans(), at=LEFT)
    def end(self, commit: bool, at: int | None) -> None:
        method = "commit_transaction" if commit else "abort_transaction"

        async def action() -> None:
            if not await self.left(at, method):
                # The same call again joins the call that was ended early, or is refused when that has ended.
                try:
                    await self.face.call(method)
                except IllegalTransactionState:
                    self.done["ended unseen"] += 1
            self.outcomes[self.transaction] = commit
            self.transaction = 0

        if self.transaction:
            self.step(lambda: self.refusable(action()), f"{method} left={at}")

    @rule()
    def fork(self) -> None:
        if not self.forked and self.number % 8 == 0:
            self.forked = True
            self.script.append("fork")
            self.done["fork"] += 1
            self.in_a_child()

    def in_a_child(self) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                drive(self.face.call("partitions_for", self.topic)) if self.runner is None else self.face.client.engine
            except OdradekError:
                code = 0
            finally:
                os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            self.failed = True
            raise ViolationError("a call in a forked child was taken")

    @rule(what=st.sampled_from([(api, error) for api, errors in FAULTS.items() for error in (*errors, None)]), applied=st.booleans())
    def refused(self, what: tuple[str, str | None], applied: bool) -> None:
        """Refuse the next request of this kind, or cut its connection, before or after the request took effect."""
        api, error = what
        self.script.append(f"refused {api} {error} {applied}")
        self.done["refused"] += 1
        self.unsure |= applied and api == "Produce"
        self.world.fail(api, error, self.settings["client.id"], applied=applied, topic=self.topic if api == "Produce" and error else None)

    @rule()
    def refused_for_good(self) -> None:
        self.refusing = True
        self.script.append("refused_for_good")
        self.done["refused_for_good"] += 1
        self.world.fail("Produce", _FOR_GOOD, self.settings["client.id"], applied=False, topic=self.topic)

    @rule()
    def cut(self) -> None:
        """Close all connections of the run."""
        self.script.append("cut")
        self.done["cut"] += 1
        self.unsure = True
        self.world.cluster.faults.disconnect(self.settings["client.id"])

    @rule(where=WHERE)
    def leader_moves(self, where: int) -> None:
        if self.topic != TOPIC:
            self.script.append(f"leader_moves {where}")
            self.done["leader_moves"] += 1
            # A resigning leader answers NOT_LEADER_OR_FOLLOWER even for records that it has appended and others have copied.
            self.unsure = True
            self.world.move(TopicPartition(self.topic, where))

    # -- the end --------------------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Close the producer, and compare with the records read."""
        if not hasattr(self, "face"):
            return
        try:
            if self.failed:
                self.world.cluster.faults.clear()
                self.run(self.face.call("close", 1.0))
                return
            self.step(self.close, "close")
            self.compare()
        finally:
            self.world.cluster.faults.clear()
            if self.failed:
                self.begins_behind()
            if self.runner is not None:
                self.runner.close()

    async def close(self) -> None:
        if self.transaction:
            self.outcomes[self.transaction] = False
        await self.left(self.number % 13 or None, "close")
        await self.face.call("close")

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    def begins_behind(self) -> None:
        """Let the next run skip the records of this run, after a failure."""
        self.ends.update(self.log_ends())

    def log_ends(self) -> dict[TopicPartition, int]:
        return {
            where: found.offset for where, found in self.world.admin.list_offsets(dict.fromkeys(self.places(), OffsetSpec.LATEST)).items()
        }

    def compare(self) -> None:
        try:
            found = self.read()
            if self.told != self.telling:
                raise ViolationError(f"callback: {self.telling} were to be called, {self.told} were")
            for partition in range(PARTITIONS):
                self.judge(partition, found[partition])
        except Exception as error:
            self.tell(error)
            raise

    def judge(self, partition: int, found: list[bytes]) -> None:
        """Compare the records read with the records sent.

        A record may exist or not if its call was ended early, or if it was refused after a response was lost or uninformative.
        """
        left = list(found)
        wanted: list[bytes] = []
        for each in self.sent[partition]:
            outcome = self.outcomes[each.transaction]
            if each.future is not None and not each.future.done():
                raise ViolationError(f"future: that of {each.values} has not ended")
            error = None if each.future is None else each.future.exception()
            if error is not None and outcome and not self.refusing:
                raise ViolationError(f"future: {each.values} failed with {error!r}")
            must = outcome and each.future is not None and error is None
            wanted += each.values if must else []
            if left[: len(each.values)] == each.values and (must or (outcome and (each.future is None or self.unsure))):
                del left[: len(each.values)]
            elif must:
                raise ViolationError(f"read: partition {partition} has {found}, and {wanted} were sent")
        if left:
            raise ViolationError(f"read: partition {partition} has {left} too many")

    def read(self) -> dict[int, list[bytes]]:
        """Return the committed records of this run, by partition."""
        ends, limit = self.log_ends(), time.monotonic() + LIMIT_S
        self.reader.assign(self.places())
        for where in self.places():
            self.reader.seek(where, self.ends.get(where, 0))
        found: dict[int, list[bytes]] = defaultdict(list)
        while any(self.reader.position(where) < ends[where] for where in self.places()):
            for record in self.reader.poll(100):
                found[record.partition].append(record.value)
            if time.monotonic() > limit:
                raise ViolationError(f"read: {found}, and no more up to {ends}")
        self.ends.update(ends)
        return found


def campaign(runs: int, seed: int, *, lent: int = 100) -> tuple[int, Counter[str]]:
    """Play the runs. Return the number of failed portions, and the number of steps by kind."""
    done: Counter[str] = Counter()
    with (
        ModelWorld(PARTITIONS, lent=lent) as world,
        Consumer(bootstrap_servers=world.servers, isolation_level="read_committed", fetch_max_wait_ms=5) as reader,
    ):
        return play(ProducerModel, world, runs, seed, STEPS, done=done, reader=reader, ends={}), done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # Do not print exceptions of callbacks in the loop's thread.
    threading.excepthook = lambda _: None
    failed, done = campaign(options.runs, options.seed)
    print(f"{options.runs} runs from seed {options.seed}, {failed} portions failed; {dict(done)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
