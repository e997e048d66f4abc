"""Process of group members, which gets orders as lines of JSON on standard input; `rebalances` starts, stops, pauses and kills many of
them.

    {"do": "join", "member": "m1", "group": "g", "topics": ["t"], "client": "confluent", "settings": {"group.protocol": "consumer"}}
    {"do": "leave", "member": "m1"}
    {"do": "end"}

Each member is a thread: it polls, commits its positions, and records its history (odradek.testing.history) in a file. Standard output has
lines of JSON with the partitions that each member owns. A commit names its author in its metadata: `member|number|generation|member id`.
Partitions that a member gives up count as its own until the rebalance listener returns: a loss is recorded as late as possible, an
assignment as early as possible, so that the checks err on the strict side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import aiokafka.abc
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from odradek.testing.history import Recorder
from tests.campaigns.group_log import generation_of

Partition = tuple[str, int]
Got = tuple[str, int, int, str]
"""Topic, partition, offset, value."""

POLL_S = 0.1
BATCH = 40
CLOSE_S = 5.0
STALL_S = 0.7
RECONNECTS = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 400}
"""Settings of librdkafka, which closes a connection after a slow request. By default it may then wait for longer than a session."""


class Client(Protocol):
    """Interface of a client library for a member."""

    def start(self) -> None: ...
    def poll(self) -> list[Got]: ...
    def commit(self, offsets: Mapping[Partition, int], metadata: str) -> None: ...
    def identity(self) -> tuple[int, str]: ...
    def close(self) -> None: ...


class Member(threading.Thread):
    """Member of a group: its partitions, its positions, and the records about both."""

    def __init__(self, order: Mapping[str, Any], bootstrap: str, folder: Path) -> None:
        super().__init__(name=order["member"], daemon=True)
        self.group: str = order["group"]
        self.topics: list[str] = order["topics"]
        self.stopping = threading.Event()
        self.recorder = Recorder(folder / f"{self.name}.jsonl", self.name)
        self.owned: dict[Partition, int] = {}
        self.positions: dict[Partition, int] = {}
        """Offsets to commit."""
        self.highest: dict[Partition, int] = {}
        self.commits = 0
        self.leaving = False
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": self.group, **order["settings"]}
        self.client: Client = _CLIENTS[order["client"]](self, settings)

    def run(self) -> None:
        try:
            self.client.start()
            last = time.monotonic()
            while not self.stopping.is_set():
                now = time.monotonic()
                if now - last > STALL_S:
                    self.insist()
                last = now
                got = self.client.poll()
                if got:
                    self.take(got)
                self.commit()
            self.leave()
        except Exception as error:
            self.recorder.info("crash", [], error=repr(error))
            say(member=self.name, died=repr(error))

    def take(self, got: Iterable[Got]) -> None:
        """Consume records of owned partitions. Ignore records of partitions that were lost in between."""
        taken = [each for each in got if each[:2] in self.owned]
        for topic, partition, offset, _ in taken:
            # librdkafka sometimes returns a record again right after an assignment.
            self.highest[topic, partition] = position = max(offset + 1, self.highest.get((topic, partition), 0))
            self.positions[topic, partition] = position
        self.recorder.ok("poll", [["poll", *each] for each in taken])

    def insist(self) -> None:
        """Repeat the last commits after a pause, when the member does not know yet whether it was removed."""
        self.positions |= {partition: self.highest[partition] for partition in self.owned if partition in self.highest}
        self.commit(insists=True)

    def commit(self, only: Iterable[Partition] | None = None, *, insists: bool = False) -> None:
        """Commit the positions of owned partitions that have changed."""
        wanted = self.owned if only is None else set(only)
        offsets = {partition: offset for partition, offset in self.positions.items() if partition in wanted}
        if not offsets:
            return
        generation, member_id = self.client.identity()
        if generation < 0:
            # The member was removed and knows. The Python clients would commit as consumers with assigned partitions; JVM Kafka's client
            # refuses.
            return
        self.commits += 1
        metadata = f"{self.name}|{self.commits}|{generation}|{member_id}"
        lines = [["commit", self.group, *partition, offset] for partition, offset in offsets.items()]
        self.recorder.invoke("commit", lines, id=self.commits, generation=generation)
        try:
            self.client.commit(offsets, metadata)
        except Exception as error:
            # The log of the group shows whether the commit took effect; refused commits are normal here.
            self.recorder.info("commit", lines, id=self.commits, insists=insists, error=repr(error))
            return
        self.recorder.ok("commit", lines, id=self.commits)
        for partition in offsets:
            self.positions.pop(partition, None)

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Record an assignment. Called first in the rebalance listener."""
        if self.leaving:
            return  # aiokafka ends a running rebalance before it leaves
        generation, member_id = self.client.identity()
        new = [partition for partition in partitions if partition not in self.owned]
        self.owned |= dict.fromkeys(new, generation)
        lines = [["assigned", self.group, *partition, generation] for partition in new]
        self.recorder.ok("rebalance", lines, member_id=member_id)
        say(member=self.name, owns=sorted(self.owned), id=member_id, generation=generation)

    def revoked(self, partitions: Iterable[Partition], *, lost: bool = False, commits: bool = True) -> None:
        """Record a revocation. Called first in the rebalance listener. Commit before, unless the partitions are lost or the client cannot
        commit there.
        """
        gone = [partition for partition in partitions if partition in self.owned]
        if commits and not lost:
            self.commit(gone)
        lines = [["revoked", self.group, *partition, self.owned.pop(partition)] for partition in gone]
        for partition in gone:
            self.positions.pop(partition, None)
            self.highest.pop(partition, None)
        self.recorder.ok("rebalance", lines, lost=lost)
        say(member=self.name, owns=sorted(self.owned))

    def leave(self) -> None:
        """Give all partitions up and leave the group."""
        self.recorder.invoke("subscribe", [], leaves=True)
        self.leaving = True
        self.revoked(list(self.owned))
        self.client.close()
        self.recorder.ok("subscribe", [], leaves=True)
        say(member=self.name, left=True)


class Confluent:
    """Client with librdkafka, for either protocol."""

    def __init__(self, member: Member, settings: dict[str, Any]) -> None:
        self.member = member
        # In the consumer protocol librdkafka logs the heartbeats that it gives up (a notice, level 5).
        level = 5 if settings.get("group.protocol") == "consumer" else 0
        common = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": level, "fetch.wait.max.ms": 100, **RECONNECTS}
        self.fatal: confluent_kafka.KafkaError | None = None
        self.consumer = confluent_kafka.Consumer(
            {**common, "client.id": member.name, "enable.auto.offset.store": False, "error_cb": self._error, **settings}
        )

    def start(self) -> None:
        self.consumer.subscribe(self.member.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _error(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            self.fatal = error

    def _assigned(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.member.assigned((each.topic, each.partition) for each in partitions)

    def _revoked(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.member.revoked((each.topic, each.partition) for each in partitions)

    def _lost(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.member.revoked(((each.topic, each.partition) for each in partitions), lost=True)

    def poll(self) -> list[Got]:
        got: list[Got] = []
        deadline = time.monotonic() + POLL_S
        while len(got) < BATCH and (left := deadline - time.monotonic()) > 0:
            message = self.consumer.poll(left)
            if self.fatal is not None:
                raise confluent_kafka.KafkaException(self.fatal)
            if message is None:
                break
            error = message.error()
            if error is not None and error.fatal():
                raise confluent_kafka.KafkaException(error)
            if error is None:
                got.append((message.topic() or "", message.partition() or 0, message.offset() or 0, (message.value() or b"").decode()))
        return got

    def commit(self, offsets: Mapping[Partition, int], metadata: str) -> None:
        wanted = [confluent_kafka.TopicPartition(*partition, offset, metadata) for partition, offset in offsets.items()]
        for each in self.consumer.commit(offsets=wanted, asynchronous=False) or ():
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)

    def identity(self) -> tuple[int, str]:
        return generation_of(self.consumer)

    def close(self) -> None:
        self.consumer.close()


class KafkaPython(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Client with kafka-python, for the classic protocol."""

    def __init__(self, member: Member, settings: dict[str, Any]) -> None:
        self.member = member
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor as Range

        assignors = {"range": Range, "cooperative-sticky": CooperativeStickyAssignor}
        assignor = assignors[settings.pop("partition.assignment.strategy", "range")]
        settings.setdefault("max.poll.interval.ms", 300_000)
        self.consumer = kafka.KafkaConsumer(
            auto_offset_reset="earliest", enable_auto_commit=False, partition_assignment_strategy=[assignor], fetch_max_wait_ms=100,
            max_poll_records=BATCH, **{key.replace(".", "_"): value for key, value in settings.items()},
        )  # fmt: skip

    def start(self) -> None:
        self.consumer.subscribe(self.member.topics, listener=self)

    def on_partitions_assigned(self, assigned: Iterable[kafka.TopicPartition]) -> None:
        self.member.assigned((each.topic, each.partition) for each in assigned)

    def on_partitions_revoked(self, revoked: Iterable[kafka.TopicPartition]) -> None:
        # The listener runs in the event loop for which a commit would have to wait.
        self.member.revoked(((each.topic, each.partition) for each in revoked), commits=False)

    def on_partitions_lost(self, lost: Iterable[kafka.TopicPartition]) -> None:
        self.member.revoked(((each.topic, each.partition) for each in lost), lost=True)

    def poll(self) -> list[Got]:
        polled = self.consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [(each.topic, each.partition, each.offset, each.value.decode()) for records in polled.values() for each in records]

    def commit(self, offsets: Mapping[Partition, int], metadata: str) -> None:
        wanted = {kafka.TopicPartition(*each): kafka.OffsetAndMetadata(offset, metadata, -1) for each, offset in offsets.items()}
        self.consumer.commit(wanted, timeout_ms=int(CLOSE_S * 1000))

    def identity(self) -> tuple[int, str]:
        generation = self.consumer._coordinator._generation
        return generation.generation_id, generation.member_id

    def close(self) -> None:
        self.consumer.close(timeout_ms=int(CLOSE_S * 1000))


class Aiokafka(aiokafka.abc.ConsumerRebalanceListener):
    """Client with aiokafka, for the classic protocol, with an event loop in the member's thread."""

    def __init__(self, member: Member, settings: dict[str, Any]) -> None:
        self.member = member
        self.loop = asyncio.new_event_loop()
        settings["partition.assignment.strategy"] = (RangePartitionAssignor,)
        self.settings = {key.replace(".", "_"): value for key, value in settings.items()}
        self.consumer: aiokafka.AIOKafkaConsumer | None = None

    def start(self) -> None:
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            auto_offset_reset="earliest", enable_auto_commit=False, fetch_max_wait_ms=100, **self.settings
        )
        self.consumer.subscribe(self.member.topics, listener=self)
        await self.consumer.start()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.member.assigned((each.topic, each.partition) for each in assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        # No commit here: the task that waits for this listener would have to run `commit`.
        self.member.revoked(((each.topic, each.partition) for each in revoked), commits=False)

    def poll(self) -> list[Got]:
        assert self.consumer is not None
        polled = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH))
        return [(each.topic, each.partition, each.offset, each.value.decode()) for records in polled.values() for each in records]

    def commit(self, offsets: Mapping[Partition, int], metadata: str) -> None:
        assert self.consumer is not None
        wanted = {aiokafka.TopicPartition(*partition): (offset, metadata) for partition, offset in offsets.items()}
        self.loop.run_until_complete(asyncio.wait_for(self.consumer.commit(wanted), CLOSE_S))

    def identity(self) -> tuple[int, str]:
        assert self.consumer is not None
        coordinator = self.consumer._coordinator
        return coordinator.generation, coordinator.member_id

    def close(self) -> None:
        assert self.consumer is not None
        self.loop.run_until_complete(asyncio.wait_for(self.consumer.stop(), CLOSE_S))


_CLIENTS: Mapping[str, Callable[[Member, dict[str, Any]], Client]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
_said = threading.Lock()


def say(**fields: object) -> None:
    """Write one line for the parent process."""
    with _said:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def watch(recorder: Recorder) -> None:
    """Record when this process got no processor time: the broker is not to blame for removing a silent member."""
    last = time.monotonic()
    while True:
        time.sleep(0.1)
        now = time.monotonic()
        if now - last > STALL_S:
            recorder.info("crash", [], stalled_since=last)
        last = now


def main() -> None:
    name, bootstrap, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    members: dict[str, Member] = {}
    threading.Thread(target=watch, args=(Recorder(folder / f"{name}.jsonl", name),), daemon=True).start()
    say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "join":
            member = members[order["member"]] = Member(order, bootstrap, folder)
            member.start()
        elif order["do"] == "leave":
            members[order["member"]].stopping.set()
        else:
            break
    for member in members.values():
        member.stopping.set()
    for member in members.values():
        with contextlib.suppress(RuntimeError):
            member.join(3 * CLOSE_S)


if __name__ == "__main__":
    main()
