"""Model of the producer: random calls against a broker in this process, and what readers of committed records see afterwards.

Every future ends, every acknowledged record is there once and in the order of the calls, records of an aborted transaction are not, and a
transaction is there as a whole or not at all; under cancelled calls, callbacks that raise, bad items, forks, transactions and close.

    .venv/bin/python -m tests.campaigns.producer_model --runs 20000 --seed 1

A failure prints the seed of its run: `--runs 1 --seed SEED` repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
from collections import defaultdict
from collections.abc import Awaitable
from typing import Any

from odradek.base.errors import OdradekError
from odradek.client import AsyncConsumer, AsyncProducer, TopicPartition
from odradek.client.core.transactions import State
from odradek.client.types import ConsumerGroupMetadata
from odradek.testing import EmbeddedBroker

TOPIC = "model"
PARTITIONS = 3
_LIMIT_S = 30.0
_RAISED = (SystemExit, KeyboardInterrupt, asyncio.CancelledError, ValueError)


class Sent:
    """Records of one call: their values, where they went, and the transaction that they belong to (-1: none)."""

    def __init__(self, values: list[bytes], future: Any, transaction: int) -> None:
        self.values, self.future, self.transaction = values, future, transaction


class Run:
    """One producer and what it was told."""

    def __init__(self, seed: int, servers: str) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.sent: dict[int, list[Sent]] = defaultdict(list)
        self.count = 0
        self.transaction = -1
        self.outcomes: dict[int, bool | None] = {}
        """Of each transaction: committed, aborted, or None where nobody knows."""
        self.told = 0
        self.telling = 0
        more = {"transactional_id": f"model-{seed % 3}"} if self.rng.random() < 0.5 else {}
        self.transactional = bool(more)
        self.producer = AsyncProducer(bootstrap_servers=servers, linger_ms=self.rng.choice([0, 1, 5]), **more)

    def value(self) -> bytes:
        self.count += 1
        return b"%d:%d" % (self.seed, self.count)

    async def play(self) -> None:
        """Make a dozen calls and close the producer."""
        await self.producer.start()
        if self.transactional:
            await self.producer.init_transactions()
        calls = [self.send, self.send, self.send_many, self.send_many, self.flush, self.bad_item]
        calls += [self.offsets, self.end] if self.transactional else []
        calls += [self.fork] if self.rng.random() < 0.02 else []
        for _ in range(self.rng.randint(4, 12)):
            if self.transactional and self.transaction not in self.outcomes:
                await self.begin()
            await self.rng.choice(calls)()
        await self.close()

    async def left(self, call: Awaitable[object]) -> bool:
        """Make the call, and sometimes leave it; whether it ended."""
        if self.rng.random() < 0.6:
            await asyncio.wait_for(call, _LIMIT_S)
            return True
        task = asyncio.ensure_future(call)
        for _ in range(self.rng.randint(0, 6)):
            await asyncio.sleep(0)
        left = task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome
        return not left

    async def begin(self) -> None:
        if self.producer.engine.transactions.core.state is State.READY:
            self.producer.begin_transaction()
            self.transaction = self.count = self.count + 1
            self.outcomes[self.transaction] = None

    def callback(self, *_: object) -> None:
        self.told += 1
        raise self.rng.choice(_RAISED)()

    async def send(self) -> None:
        if self.may_send():
            value, partition, told = self.value(), self.rng.randrange(PARTITIONS), self.rng.random() < 0.3
            self.telling += told
            future = await self.producer.send(TOPIC, value, partition=partition, on_delivery=self.callback if told else None)
            self.sent[partition].append(Sent([value], future, self.transaction))

    async def send_many(self) -> None:
        if self.may_send():
            values, partition = [self.value() for _ in range(self.rng.randint(1, 20))], self.rng.randrange(PARTITIONS)
            for future in await self.producer.send_many(TOPIC, values, partition=partition):
                run, values = values[: future.record_count], values[future.record_count :]
                self.sent[partition].append(Sent(run, future, self.transaction))
            assert not values

    def may_send(self) -> bool:
        return not self.transactional or self.producer.engine.transactions.core.state is State.IN_TRANSACTION

    async def flush(self) -> None:
        await self.left(self.producer.flush())

    async def bad_item(self) -> None:
        for bad in ({"headers": [(b"k", b"v")]}, {"timestamp": "now"}, {"key": "\ud800"}):
            try:
                await self.producer.send(TOPIC, b"bad", partition=0, **bad)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                continue
            raise AssertionError(f"a bad item was taken: {bad}")

    async def offsets(self) -> None:
        if self.may_send():
            await self.left(self.producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): self.count}, ConsumerGroupMetadata("g")))

    async def end(self) -> None:
        if not self.may_send():
            return
        commit = self.rng.random() < 0.6
        call = self.producer.commit_transaction if commit else self.producer.abort_transaction
        if not await self.left(call()):
            # Begun or not, the same call ends it.
            await asyncio.wait_for(call(), _LIMIT_S) if self.producer.engine.transactions.core.state is not State.READY else None
        assert self.producer.engine.transactions.core.state is State.READY, "a call that has returned has ended nothing"
        self.outcomes[self.transaction] = commit
        self.transaction = -1

    async def fork(self) -> None:
        self.in_a_child()

    def in_a_child(self) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.producer.engine  # noqa: B018  (every call asks for it)
            except OdradekError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a call in a forked child was taken"

    async def close(self) -> None:
        if self.transactional and self.may_send():
            self.outcomes[self.transaction] = False
        await self.left(self.producer.close())
        await asyncio.wait_for(self.producer.close(), _LIMIT_S)

    def judge(self, found: dict[int, list[bytes]]) -> None:
        """Compare with what is read; AssertionError."""
        assert self.told == self.telling, f"{self.telling} callbacks were to be called, {self.told} were"
        for partition in range(PARTITIONS):
            wanted: list[bytes] = []
            for each in self.sent[partition]:
                assert each.future.done(), f"a future of {each.values} has not ended"
                error = each.future.exception()
                outcome = True if each.transaction < 0 else self.outcomes[each.transaction]
                assert error is None or not outcome, f"{each.values}: {error!r}"
                if outcome:
                    wanted += each.values
            assert found[partition] == wanted, f"partition {partition}: read {found[partition]}, sent {wanted}"


async def read(consumer: AsyncConsumer) -> dict[int, list[bytes]]:
    """Return what was committed since the last call, by partition."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    ends = await consumer.end_offsets(places)
    found: dict[int, list[bytes]] = defaultdict(list)
    while any([await consumer.position(each) < ends[each] for each in places]):
        for record in await consumer.poll(100):
            found[record.partition].append(record.value)
    return found


async def play(servers: str, runs: int, seed: int) -> None:
    """Play the runs one after the other; AssertionError names the seed of one that fails."""
    async with AsyncConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest", fetch_max_wait_ms=10
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        for number in range(seed, seed + runs):
            run = Run(number, servers)
            try:
                await run.play()
                run.judge(await read(consumer))
            except Exception as error:
                raise AssertionError(f"--runs 1 --seed {number}: {error!r}") from error


def campaign(runs: int, seed: int) -> None:
    """Play the runs against a broker of their own."""
    with EmbeddedBroker({"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        asyncio.run(play(broker.bootstrap_servers, runs, seed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    campaign(chosen.runs, chosen.seed)
    print(f"{chosen.runs} runs from seed {chosen.seed}: every future ended, every record once and in order")
