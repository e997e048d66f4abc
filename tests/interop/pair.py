"""The same command of JVM Kafka's tools, unmodified, against Odradek and against the JVM broker: what it prints has to be the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess
from interop.tools import Done, JvmTools

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PATIENCE_S = 60.0

Made = TypeVar("Made")

_IDS = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=adminclient)-\d+")
"""What a coordinator or a client puts behind a name."""


class Pair:
    """Two brokers that were told the same. `spellings` of each: words that only one of them says, and what both then say for it."""

    def __init__(self, ours: BrokerProcess, theirs: BrokerProcess, tools: JvmTools) -> None:
        self.brokers = (ours, theirs)
        self.tools = tools
        self.spellings: dict[str, dict[str, str]] = {broker.name: {} for broker in self.brokers}

    def each(self, make: Callable[[BrokerProcess], Made]) -> dict[str, Made]:
        return {broker.name: make(broker) for broker in self.brokers}

    def run(self, main_class: str, *arguments: str, stdin: bytes = b"") -> list[Done]:
        """The command against both at once, Odradek's first; `{name}` in an argument is the broker's."""
        calls = [
            self.tools.start(
                main_class,
                *("--bootstrap-server", broker.bootstrap),
                *(argument.replace("{name}", broker.name) for argument in arguments),
                stdin=stdin,
            )
            for broker in self.brokers
        ]
        return [call.result(PATIENCE_S) for call in calls]

    def same(self, main_class: str, *arguments: str, hide: Sequence[str] = (), status: int | None = None) -> list[str]:
        """What both print: lines in order, their words one blank apart. `hide` has patterns of what differs by nature,
        `status` the exit status, where it has to be this one.

        Neither order nor what is on standard error beside lines that begin with a word is compared: stack traces name threads.
        """
        spoken = []
        for broker, done in zip(self.brokers, self.run(main_class, *arguments), strict=True):
            lines = [*done.stdout.decode().splitlines(), *done.stderr.decode().splitlines()]
            said = [self._plain(line, broker, hide) for line in lines if line.strip() and not re.match(r"\s+(at |\.\.\. )", line)]
            spoken.append((done.returncode, sorted(said)))
        (our_status, ours), (their_status, theirs) = spoken
        assert ours == theirs, f"{arguments}: what Odradek says that the JVM does not: {_beside(ours, theirs)}"
        assert our_status == their_status == (their_status if status is None else status), (arguments, our_status, their_status, ours)
        return ours

    def _plain(self, line: str, broker: BrokerProcess, hide: Sequence[str]) -> str:
        line = _IDS.sub("-(id)", line.replace(broker.bootstrap, "(bootstrap)"))
        line = line.replace(f"port: {broker.port}", "(port)")
        for pattern in hide:
            line = re.sub(pattern, "(hidden)", line)
        spellings = self.spellings[broker.name]
        return " ".join(spellings.get(word, word) for word in line.split())


def _beside(ours: list[str], theirs: list[str]) -> str:
    return "\n".join(
        ["", *(f"  odradek {line}" for line in ours if line not in theirs), *(f"  jvm     {line}" for line in theirs if line not in ours)]
    )


# -- what a test does to either broker ---------------------------------------------------------------------------------------------------


def create(broker: BrokerProcess, **topics: int) -> None:
    """Topics with that many partitions each."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        future.result(PATIENCE_S)


def write(broker: BrokerProcess, topic: str, counts: Mapping[int, int], timestamp: int) -> None:
    """That many records in each partition, a second apart."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=timestamp + number * 1_000)
    assert producer.flush(PATIENCE_S) == 0


def commit(broker: BrokerProcess, group: str, **offsets: Sequence[int]) -> None:
    """As an administrator does it for a group without members: topic -> the offset of each partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partitions = [TopicPartition(topic, number, offset) for topic, each in offsets.items() for number, offset in enumerate(each)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])[group].result(PATIENCE_S)
