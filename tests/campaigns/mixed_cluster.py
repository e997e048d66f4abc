"""Three brokers of both kinds under controllers of either kind, with clients and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from interop.cluster import Member, MixedCluster, ask
from interop.waiting import eventually, until
from odradek.coordinator.partitioning import partition_of
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.testing.history.logs import check_replicas

BROKERS = (1, 2, 3)
FIRST_CONTROLLER = 11
PATIENCE_S = 60.0
SESSION_S = 6.0
SETTINGS = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "180000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
CLIENT: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "log_level": 0,
    # A paused broker does not answer.
    "socket.timeout.ms": 5000,
    # See tests/campaigns/copiers.py.
    "metadata.recovery.strategy": "none",
}
INTERNAL: dict[str, dict[str, str]] = {
    "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer"},
    "__transaction_state": {"cleanup.policy": "compact", "compression.type": "uncompressed", "min.insync.replicas": "2"},
}
"""Internal topics with their configurations. The test creates them before a coordinator does, to choose the leader of each partition."""


class PartitionState(NamedTuple):
    leader: int
    isr: frozenset[int]
    replicas: tuple[int, ...]


class MixedBrokers(MixedCluster):
    """Brokers 1 to 3 of the given kinds, and controllers from 11 on. Without controllers every broker is also a controller."""

    def __init__(self, folder: Path, brokers: Sequence[str], controllers: Sequence[str] = (), *, dynamic: bool = False) -> None:
        roles = "broker" if controllers else "broker,controller"
        members = {node: Member(kind, roles) for node, kind in zip(BROKERS, brokers, strict=True)}
        members |= {node: Member(kind, "controller") for node, kind in enumerate(controllers, FIRST_CONTROLLER)}
        super().__init__(folder, members, dynamic=dynamic, settings=SETTINGS)
        self.paused: set[int] = set()

    def __str__(self) -> str:
        return ", ".join(f"{node} {member.kind} ({member.roles})" for node, member in self.members.items())

    # -- roles of brokers -------------------------------------------------------------------------------------------------------------

    def others(self, broker: int) -> list[int]:
        """Return the other brokers, those of the other kind first."""
        kind = self.members[broker].kind
        return sorted((each for each in BROKERS if each != broker), key=lambda each: (self.members[each].kind == kind, each))

    def of_kind(self, kind: str) -> int:
        """Return the first broker of the kind."""
        return next(broker for broker in BROKERS if self.members[broker].kind == kind)

    def living(self) -> list[int]:
        """Return the brokers that run and are not paused."""
        return [broker for broker in BROKERS if self.nodes[broker].running and broker not in self.paused]

    def pause(self, broker: int) -> None:
        self.paused.add(broker)
        self.nodes[broker].pause()

    def resume(self, broker: int) -> None:
        self.nodes[broker].resume()
        self.paused.discard(broker)

    @property
    def one_of_each(self) -> tuple[int, int]:
        return self.of_kind("odradek"), self.of_kind("jvm")

    def coordinated_by(self, broker: int, label: str) -> str:
        """Return a name for a group or a transactional id whose coordinator is this broker, as long as it leads its preferred
        partitions.
        """
        names = (f"{label}-{number}" for number in range(1000))
        return next(name for name in names if partition_of(name, len(BROKERS)) == BROKERS.index(broker))

    # -- topics -----------------------------------------------------------------------------------------------------------------------

    def create(self, name: str, *replicas: Sequence[int], through: int | None = None, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with a partition for each list of replicas, led by the first. Wait until all brokers know the topic.

        `through`: the broker that gets the request.
        """
        assignment = CreateTopicsRequest.CreatableReplicaAssignment
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment(partition_index=index, broker_ids=list(brokers)) for index, brokers in enumerate(replicas)],
            configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        asked = through or self.living()[0]
        response = ask(self.nodes[asked].port, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7, timeout=30)
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == 0, response
        until(lambda: all((name, 0) in self.states(each) for each in self.living()), f"all brokers to know {name}", PATIENCE_S)

    def create_spread(self, name: str, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with three partitions of three replicas. Each broker leads one partition; a broker of the other kind is the next
        replica.
        """
        self.create(name, *([broker, *self.others(broker)] for broker in BROKERS), configs=configs)

    def open(self) -> None:
        """Format and start the nodes, and create the internal topics of the coordinators."""
        self.format()
        self.start()
        until(lambda: self.unfenced() == set(BROKERS), "all brokers", PATIENCE_S)
        for name, configs in INTERNAL.items():
            self.create_spread(name, configs)

    def unfenced(self) -> set[int]:
        """Return the brokers that all living brokers report as unfenced."""
        said = [{broker for broker, fenced in self.brokers(asked).items() if not fenced} for asked in self.living()]
        return set.intersection(*said)

    def states(self, asked: int) -> dict[tuple[str, int], PartitionState]:
        """Return (topic, partition) -> its state, as one broker reports it."""
        response = ask(self.nodes[asked].port, MetadataRequest(topics=None), 12)
        assert isinstance(response, MetadataResponse)
        return {
            (topic.name or "", each.partition_index): PartitionState(each.leader_id, frozenset(each.isr_nodes), tuple(each.replica_nodes))
            for topic in response.topics
            for each in topic.partitions
        }

    def wait_until_all(self, hold: Callable[[PartitionState], bool], what: str) -> None:
        """Wait until the condition holds for every partition, according to all living brokers."""

        def reached() -> bool | None:
            return all(hold(state) for asked in self.living() for state in self.states(asked).values()) or None

        try:
            eventually(reached, what, PATIENCE_S)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {[self.states(asked) for asked in self.living()]}") from error

    def wait_for_isr(self, *without: int) -> None:
        """Wait until every partition has a leader, and all replicas except those of `without` are in sync."""
        self.wait_until_all(
            lambda state: state.leader >= 0 and state.isr == frozenset(state.replicas) - set(without), f"all but {without} to be in sync"
        )

    def wait_for_preferred_leaders(self) -> None:
        self.wait_until_all(lambda state: state.leader == state.replicas[0], "the preferred leaders")

    # -- log files ----------------------------------------------------------------------------------------------------------------------

    def stored(self, broker: int, name: str, partition: int) -> bytes:
        folder = self.nodes[broker].data / f"{name}-{partition}"
        return b"".join([path.read_bytes() for path in sorted(folder.glob("*.log"))])

    def differing(self) -> list[str]:
        """Wait until the files of all replicas are equal, while no client writes. Return the differences after the timeout."""
        partitions = {place: state.replicas for place, state in self.states(self.living()[0]).items()}

        def equal() -> bool | None:
            for (name, partition), replicas in list(partitions.items()):
                if self.differences(name, partition, replicas):
                    return None
                del partitions[name, partition]
            return True

        try:
            eventually(equal, "equal logs", PATIENCE_S)
        except TimeoutError:
            return [problem for place, replicas in partitions.items() for problem in self.differences(*place, replicas)]
        return []

    def differences(self, name: str, partition: int, replicas: Sequence[int]) -> list[str]:
        """Return the differences between the files of these replicas now."""
        if len({self.stored(broker, name, partition) for broker in replicas}) == 1:
            return []
        place = f"{name}-{partition}"
        folders = {f"{broker} ({self.members[broker].kind})": self.nodes[broker].data / place for broker in replicas}
        return [str(anomaly) for anomaly in check_replicas(place, folders, 1 << 62)] or [f"replicas-differ: {place}, behind the last batch"]


# -- clients ---------------------------------------------------------------------------------------------------------------------------


def write(bootstrap: str, topic: str, values: Mapping[int, Sequence[bytes]], **settings: object) -> None:
    """Write values by partition with an idempotent producer, and wait for all acknowledgements. Raises AssertionError for a failed
    record.
    """
    producer = Producer({**CLIENT, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **settings})
    failed: list[object] = []
    for partition, each in values.items():
        for value in each:
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error is not None else None
            )
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def retried(action: Callable[[], object]) -> None:
    """Repeat the action while it fails with a retriable error."""

    def done() -> bool | None:
        try:
            action()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return None
        return True

    eventually(done, "an action that can be repeated", PATIENCE_S)


class Reader:
    """Only member of a group, which reads a topic and commits."""

    def __init__(self, bootstrap: str, group: str, protocol: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.read: dict[int, list[bytes]] = {}
        self.ends: dict[int, int] = {}
        """Partition -> offset of the next record."""
        self.consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        self.consumer.subscribe([topic])

    def read_until(self, counts: Mapping[int, int]) -> None:
        """Read until each partition has given the number of records in `counts`, in total, and commit the end."""

        def enough() -> bool | None:
            for message in self.consumer.consume(500, 0.1):
                if message.error() is None:
                    partition = message.partition() or 0
                    self.read.setdefault(partition, []).append(message.value() or b"")
                    self.ends[partition] = (message.offset() or 0) + 1
            found = {partition: len(values) for partition, values in self.read.items()}
            return True if found == counts else None

        eventually(enough, f"{self.group} to read {counts}", PATIENCE_S)
        ends = [TopicPartition(self.topic, partition, end) for partition, end in self.ends.items()]
        retried(lambda: self.consumer.commit(offsets=ends, asynchronous=False))

    def committed(self) -> dict[int, int]:
        """Return partition -> committed offset, according to the current coordinator."""
        found: list[TopicPartition] = []
        retried(lambda: found.extend(self.consumer.committed([TopicPartition(self.topic, each) for each in self.read], 10)))
        return {each.partition: each.offset for each in found}

    def close(self) -> None:
        self.consumer.close()


class Moves:
    """Groups of both protocols and two transactions with one coordinator, which ends. A broker of the other kind continues them.

    Call `begin` while the broker is the coordinator, and `end` when the broker is gone.
    """

    COUNT = 60

    def __init__(self, cluster: MixedBrokers, broker: int, label: str) -> None:
        self.cluster = cluster
        self.broker = broker
        self.topic = f"moved-{label}"
        self.written = {partition: [b"%d %d" % (partition, number) for number in range(self.COUNT)] for partition in range(len(BROKERS))}
        self.committing = cluster.coordinated_by(broker, f"{label}-committing")
        self.aborting = cluster.coordinated_by(broker, f"{label}-aborting")
        self.groups = {protocol: cluster.coordinated_by(broker, f"{label}-{protocol}") for protocol in ("classic", "consumer")}
        self.offsets_of = cluster.coordinated_by(broker, f"{label}-in-transactions")
        self.members: list[Reader] = []
        self.producers: dict[str, Producer] = {}

    def begin(self) -> None:
        cluster = self.cluster
        cluster.create_spread(self.topic)
        write(cluster.bootstrap, self.topic, {partition: values[: self.COUNT // 2] for partition, values in self.written.items()})
        for name in (self.committing, self.aborting):
            producer = self.producers[name] = Producer(
                {**CLIENT, "bootstrap.servers": cluster.bootstrap, "transactional.id": name, "transaction.timeout.ms": 60_000}
            )
            retried(lambda producer=producer: producer.init_transactions(PATIENCE_S))  # type: ignore[misc]
            producer.begin_transaction()
            for partition in self.written:
                producer.produce(self.topic, f"{name} {partition} before".encode(), partition=partition)
            assert producer.flush(PATIENCE_S) == 0
        self.members = [Reader(cluster.bootstrap, group, protocol, self.topic) for protocol, group in self.groups.items()]
        for member in self.members:
            member.read_until(dict.fromkeys(self.written, self.COUNT // 2))

    def end(self) -> None:
        """End the transactions and let the groups read on. Each transaction writes more and commits an offset; one commits, one aborts."""
        reader = Consumer({**CLIENT, "bootstrap.servers": self.cluster.bootstrap, "group.id": self.offsets_of})
        for name, producer in self.producers.items():
            for partition in self.written:
                producer.produce(self.topic, f"{name} {partition} after".encode(), partition=partition)
            assert producer.flush(PATIENCE_S) == 0
            offset = TopicPartition(self.topic, 0 if name == self.committing else 1, 7)
            metadata = reader.consumer_group_metadata()
            retried(lambda: producer.send_offsets_to_transaction([offset], metadata, PATIENCE_S))  # noqa: B023
            ending = producer.commit_transaction if name == self.committing else producer.abort_transaction
            retried(lambda: ending(PATIENCE_S))  # noqa: B023
        committed: list[TopicPartition] = []
        retried(lambda: committed.extend(reader.committed([TopicPartition(self.topic, each) for each in (0, 1)], 10)))
        reader.close()
        assert [each.offset for each in committed] == [7, -1001], "the offset of the transaction that was committed, and no other"
        for member in self.members:
            assert member.committed() == member.ends
        rest = {partition: values[self.COUNT // 2 :] for partition, values in self.written.items()}
        write(self.cluster.bootstrap, self.topic, rest)
        visible = {partition: self._visible(partition) for partition in self.written}
        for member in self.members:
            member.read_until({partition: len(values) for partition, values in visible.items()})
            assert member.read == visible
            member.close()

    def _visible(self, partition: int) -> list[bytes]:
        half = self.COUNT // 2
        committed = [f"{self.committing} {partition} {when}".encode() for when in ("before", "after")]
        values = self.written[partition]
        return [*values[:half], *committed, *values[half:]]
