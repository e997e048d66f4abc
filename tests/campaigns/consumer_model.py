"""A consumer against a model of what it has handed out, with a real broker.

    python -m tests.campaigns.consumer_model --runs 20000 --seed 1

One run is a consumer of its own (blocking or asyncio, assigned or a member of a group) and a random script: poll, iterate and break,
iterate and raise, chunks, calls that are interrupted or cancelled, seek, pause, position, commit, refused and failed requests, leaders
that say they lead no more, rebalances, close. The model is one number for each partition: the offset after the last record handed out.

- each record comes once and in order (`next_record`), from where the last seek or the committed offset was;
- position() is that number, and what is committed is that number (`position`, `committed`);
- at the end all that is left is read (`rest`), and close() commits it (`closed`).

A failure prints its seed and number; `--seed S --only N` plays that run again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from odradek.client import AsyncConsumer, Consumer, KafkaError, Producer, RebalanceListener, TopicPartition
from odradek.testing import EmbeddedBroker
from tests.client.interrupts import CtrlC

TOPIC = "model"
PARTITIONS = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))
COUNT = 24
"""Records of a partition, in batches of six."""
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000", "auto.create.topics.enable": "false"}
_POLL_MS = 50
_PATIENCE = 200
"""So many polls may give nothing before a run counts as stuck."""


class ViolationError(AssertionError):
    """The consumer is not as the model."""


class Left(Exception):
    """Ends a loop."""


class Face(Protocol):
    """Either of the two consumers, as the model uses them: (partition, offset) of what was handed out."""

    client: Any

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any: ...

    async def loop(self, count: int, *, raises: bool, each: Callable[[Any], Awaitable[None]]) -> None: ...

    async def interrupted(self, method: str, at: int, *arguments: Any) -> tuple[bool, Any]: ...


class Blocking:
    """The blocking consumer; Ctrl-C at a line."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.client = Consumer(settings)

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self.client, method)(*arguments, **named)

    async def loop(self, count: int, *, raises: bool, each: Callable[[Any], Awaitable[None]]) -> None:
        try:
            for record in self.client:
                count -= 1
                await each(record)
                if not count:
                    if raises:
                        raise Left
                    break
        except Left:
            return

    async def interrupted(self, method: str, at: int, *arguments: Any) -> tuple[bool, Any]:
        try:
            return True, CtrlC(at).during(lambda: getattr(self.client, method)(*arguments))
        except KeyboardInterrupt:
            return False, None


class Coroutines:
    """The asyncio consumer; cancelled after some turns of the loop."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.client = AsyncConsumer(settings)

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        result = getattr(self.client, method)(*arguments, **named)
        return await result if asyncio.iscoroutine(result) else result

    async def loop(self, count: int, *, raises: bool, each: Callable[[Any], Awaitable[None]]) -> None:
        try:
            async for record in self.client:
                count -= 1
                await each(record)
                if not count:
                    if raises:
                        raise Left
                    break
        except Left:
            return

    async def interrupted(self, method: str, at: int, *arguments: Any) -> tuple[bool, Any]:
        calling = asyncio.ensure_future(getattr(self.client, method)(*arguments))
        for _ in range(at // 3):
            await asyncio.sleep(0)
        calling.cancel()
        try:
            return True, await calling
        except asyncio.CancelledError:
            return False, None


class Story(RebalanceListener):
    """One run."""

    def __init__(self, broker: EmbeddedBroker, number: int, chance: random.Random) -> None:
        self.broker = broker
        self.chance = chance
        self.done: Counter[str] = Counter()
        self.script: list[str] = []
        self.member = chance.random() < 0.3
        self.automatic = chance.random() < 0.5
        self.group = f"model-{number}"
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": self.automatic,
            "max.poll.records": chance.choice((3, 500)),
            "max.partition.fetch.bytes": chance.choice((150, 1 << 20)),
            "fetch.max.wait.ms": 20,
            "retry.backoff.ms": 5,
            "heartbeat.interval.ms": 100,
            "partition.assignment.strategy": chance.choice(("range", "cooperative-sticky")),
        }
        self.face: Face = Coroutines(settings) if chance.random() < 0.5 else Blocking(settings)
        self.next: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)
        self.kept: dict[TopicPartition, int] = {}
        """What is known to be committed."""
        self.owned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()

    # -- the model ------------------------------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.owned.update(partitions)
        for partition in partitions:
            self.next[partition] = self.kept.get(partition, 0)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.owned.difference_update(partitions)
        self.paused.difference_update(partitions)
        if self.automatic:
            self.kept.update({partition: self.next[partition] for partition in partitions})

    def got(self, topic: str, partition: int, offset: int) -> None:
        where = TopicPartition(topic, partition)
        if where not in self.owned or where in self.paused:
            raise ViolationError(f"{where} at {offset} was handed out, and is not to be read")
        if offset != self.next[where]:
            raise ViolationError(f"next_record: {where} gave offset {offset} after {self.next[where] - 1}")
        self.next[where] += 1

    def got_all(self, records: list[Any]) -> None:
        for record in records:
            self.got(record.topic, record.partition, record.offset)

    async def check_position(self, where: TopicPartition) -> None:
        found = await self.face.call("position", where, 20_000)
        if found != self.next[where]:
            raise ViolationError(f"position: {where} is at {found}, and {self.next[where]} is next")

    async def check_committed(self) -> None:
        found = await self.face.call("committed", list(self.owned))
        for where, offset in found.items():
            if (0 if offset is None else offset.offset) != self.kept.get(where, 0):
                raise ViolationError(f"committed: {where} has {offset}, and {self.kept.get(where, 0)} was committed")

    # -- steps ----------------------------------------------------------------------------------------------------------------------

    def one(self) -> TopicPartition:
        return self.chance.choice(sorted(self.owned))

    async def poll(self) -> None:
        self.got_all(await self.face.call("poll", _POLL_MS, self.chance.choice((None, 1, 2, 7))))

    async def chunk(self) -> None:
        self.take_chunk(await self.face.call("next_chunk", _POLL_MS))

    def take_chunk(self, chunk: Any) -> None:
        if chunk is not None:
            for offset in range(chunk.offset, chunk.end_offset):
                self.got(chunk.topic_partition.topic, chunk.topic_partition.partition, offset)

    async def iterate(self) -> None:
        if not any(self.next[where] < COUNT for where in self.owned - self.paused):
            return
        left = sum(COUNT - self.next[where] for where in self.owned - self.paused)
        sought = self.chance.random() < 0.3

        async def each(record: Any) -> None:
            self.got_all([record])
            where = TopicPartition(record.topic, record.partition)
            if self.chance.random() < 0.2:
                await self.check_position(where)
            if sought and self.chance.random() < 0.2:
                await self.seek(lambda: self.chance.randrange(self.next[where] + 1), where)

        await self.face.loop(self.chance.randint(1, min(left, 8)), raises=self.chance.random() < 0.5, each=each)

    async def interrupted(self) -> None:
        method, arguments = self.chance.choice((("poll", (_POLL_MS, 4)), ("poll", (_POLL_MS,)), ("next_chunk", (_POLL_MS,))))
        returned, result = await self.face.interrupted(method, self.chance.randint(1, 60), *arguments)
        self.done["ended early"] += not returned
        if returned and method == "poll":
            self.got_all(result)
        elif returned:
            self.take_chunk(result)

    async def left_call(self) -> None:
        where = self.one()
        method, arguments = self.chance.choice((("position", (where,)), ("end_offsets", ([where],)), ("committed", ([where],))))
        await self.face.interrupted(method, self.chance.randint(1, 30), *arguments)

    async def seek(self, choose: Callable[[], int] | None = None, where: TopicPartition | None = None) -> None:
        where = where or self.one()
        offset = self.chance.randrange(COUNT) if choose is None else choose()
        await self.face.call("seek", where, offset)
        self.next[where] = offset
        if self.chance.random() < 0.5:
            await self.check_position(where)

    async def seek_to_beginning(self) -> None:
        where = self.one()
        await self.face.call("seek_to_beginning", where)
        self.next[where] = 0

    async def pause(self) -> None:
        where = self.one()
        await self.face.call("pause", where)
        self.paused.add(where)

    async def resume(self) -> None:
        for where in self.paused:
            await self.face.call("resume", where)
        self.paused.clear()

    async def position(self) -> None:
        await self.check_position(self.one())

    async def commit(self) -> None:
        if self.automatic:
            return
        for where in self.owned:
            await self.check_position(where)
        await self.face.call("commit")
        self.kept.update({where: self.next[where] for where in self.owned})
        await self.check_committed()

    async def failing(self) -> None:
        error = self.chance.choice(("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_SERVER_ERROR", "TOPIC_AUTHORIZATION_FAILED"))
        self.broker.faults.fail("Fetch", error, topic=TOPIC, partition=self.chance.randrange(2), times=1)
        await self.poll()

    async def rebalance(self) -> None:
        if not self.member:
            chosen = self.chance.choice((PARTITIONS, PARTITIONS[:1], PARTITIONS[1:]))
            if not self.automatic:
                await self.face.call("assign", chosen)
                for where in set(chosen) - self.owned:
                    self.next[where] = self.kept.get(where, 0)
                self.owned = set(chosen)
                self.paused &= self.owned
            return
        if not self.automatic:
            await self.commit()
        await self.face.call("enforce_rebalance")

    STEPS = (poll, poll, chunk, iterate, iterate, interrupted, interrupted, left_call, seek, pause, resume, position, commit, failing)
    RARE = (seek_to_beginning, rebalance)

    # -- a run ----------------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        if isinstance(self.face, Coroutines):
            await self.face.client.start()
        if self.member:
            await self.face.call("subscribe", [TOPIC], self)
        else:
            await self.face.call("assign", PARTITIONS)
            self.owned = set(PARTITIONS)
        try:
            await self.until(lambda: bool(self.owned))
            for _ in range(self.chance.randint(4, 14)):
                step = self.chance.choice(self.RARE if self.chance.random() < 0.1 else self.STEPS)
                self.script.append(step.__name__)
                self.done[step.__name__] += 1
                await self.tried(step)
                await self.until(lambda: bool(self.owned))
            self.broker.faults.clear()
            await self.resume()
            await self.until(lambda: all(self.next[where] >= COUNT for where in self.owned) and bool(self.owned))
            for where in list(self.owned):
                await self.check_position(where)
        finally:
            await self.face.call("close")
        if self.automatic and self.next:
            with Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": self.group}) as other:
                for where, offset in other.committed(list(self.owned or PARTITIONS)).items():
                    if offset is None or offset.offset != self.next[where]:
                        raise ViolationError(f"closed: {where} is committed at {offset}, and {self.next[where]} is next")

    async def tried(self, step: Callable[[Story], Awaitable[None]]) -> None:
        try:
            await step(self)
        except KafkaError as error:
            self.done["refused"] += 1
            if error.code.name not in ("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR", "REBALANCE_IN_PROGRESS"):
                raise

    async def until(self, done: Callable[[], bool]) -> None:
        for _ in range(_PATIENCE):
            if done():
                return
            await self.tried(Story.poll)
        raise ViolationError(f"rest: nothing more comes, next are {self.next} of {sorted(self.owned)}")


class World:
    """A broker with the records; runs use it one after the other."""

    def __enter__(self) -> World:
        self.broker = EmbeddedBroker(SETTINGS, memory=True).__enter__()
        self.broker.create_topic(TOPIC, len(PARTITIONS))
        with Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            for _ in range(COUNT // 6):
                for where in PARTITIONS:
                    producer.send_many(TOPIC, [b"x" * 20] * 6, partition=where.partition)
                producer.flush()
        return self

    def __exit__(self, *error: object) -> None:
        self.broker.__exit__(None, None, None)

    def run(self, seed: int, number: int) -> Counter[str]:
        """Play one run; ViolationError, or whatever the consumer raises, with its script."""
        story = Story(self.broker, number, random.Random(f"{seed}/{number}"))
        try:
            asyncio.run(story.run())
        except BaseException as error:
            self.broker.faults.clear()
            error.add_note(f"--seed {seed} --only {number}: {type(story.face).__name__} {', '.join(story.script)}")
            raise
        return story.done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None, help="play this run alone")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    done: Counter[str] = Counter()
    failed = 0
    begin = time.monotonic()
    numbers = range(options.runs) if options.only is None else [options.only]
    with World() as world:
        for number in numbers:
            try:
                done += world.run(options.seed, number)
            except Exception:
                failed += 1
                traceback.print_exc()
            if number % 500 == 499:
                print(f"{number + 1} runs, {failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"seed {options.seed}: {len(numbers)} runs, {failed} failed, {time.monotonic() - begin:.0f} s; {dict(done)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
