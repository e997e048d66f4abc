"""A cluster of three nodes, broker and controller in one each: Odradek's and JVM Kafka 4.3.1's beside.

    python -m bench.cluster [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

How it is measured: bench/comparison.py. Both clusters stay and are measured in turns, and the processes of the one that is not measured are
stopped; so that its nodes do not take each other for dead when they go on, the time limits of those rows are an hour. Failures are measured
on clusters of their own, with the time limits that each side has by default. Topics have three replicas, of which two have to acknowledge.
CPU is that of all three processes together.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.acks import ack_latencies
from bench.comparison import MB, SIDES, ColdRow, Figures, Row, Target, Turns, at_least, at_most, awake, below, run_on
from bench.failover import first_ack, first_ack_by_librdkafka, first_topic, leader_of
from interop.cluster import Member, MixedCluster, ask
from interop.waiting import eventually, until
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

NODES = (1, 2, 3)
_HOUR = "3600000"
_COPIES: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "log.retention.check.interval.ms": _HOUR,
    "log.segment.delete.delay.ms": "1000",
    # What `interop.cluster` makes small, so that many nodes fit on a machine, is Kafka's default here.
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
}
_PATIENT: Mapping[str, str] = {
    "broker.session.timeout.ms": _HOUR,
    "replica.lag.time.max.ms": _HOUR,
    "replica.socket.timeout.ms": _HOUR,
    "controller.quorum.fetch.timeout.ms": _HOUR,
    "controller.quorum.request.timeout.ms": _HOUR,
}
"""For clusters whose processes are stopped while the other is measured."""

AnyRow = Row[MixedCluster] | ColdRow[MixedCluster]


def make_cluster(side: str, folder: Path, settings: Mapping[str, str]) -> MixedCluster:
    return MixedCluster(folder, {node: Member(side) for node in NODES}, settings={**_COPIES, **settings}, as_shipped=True)


class Clusters:
    """Both clusters, in turns (`comparison.Turns`)."""

    def __init__(self, folder: Path) -> None:
        self.clusters = {side: make_cluster(side, folder / side, _PATIENT) for side in SIDES}

    @contextlib.contextmanager
    def running(self) -> Iterator[Turns[MixedCluster]]:
        try:
            for cluster in self.clusters.values():
                begin(cluster)
                for node in cluster.nodes.values():
                    node.pause()
            yield self
        finally:
            for cluster in self.clusters.values():
                cluster.kill()

    @contextlib.contextmanager
    def turn(self, side: str) -> Iterator[MixedCluster]:
        """See `Turns`."""
        cluster = self.clusters[side]
        with awake(list(cluster.nodes.values())):
            yield cluster


def begin(cluster: MixedCluster) -> None:
    """Formats and starts the nodes, and waits until all brokers are there."""
    cluster.format()
    cluster.start(timeout=180)
    until(lambda: sum(not fenced for fenced in brokers(cluster).values()) == len(NODES), "all brokers", 60)


def brokers(cluster: MixedCluster) -> dict[int, bool]:
    """Broker -> fenced?, as the first node says."""
    try:
        return cluster.brokers(NODES[0])
    except OSError:
        return {}


def cpu_seconds(cluster: MixedCluster) -> float:
    return sum(node.cpu_seconds() for node in cluster.nodes.values())


def create_topic(cluster: MixedCluster, name: str, partitions: int = 3) -> None:
    """Returns when every partition has a leader and all its replicas in sync, by what each broker says."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(120)

    def complete(node: int) -> bool | None:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        # A broker that makes the files of thousands of replicas on a busy disk may not answer for seconds.
        response = ask(cluster.nodes[node].port, request, 12, timeout=60)
        assert isinstance(response, MetadataResponse)
        (topic,) = response.topics
        there = [each for each in topic.partitions if each.error_code == 0 and len(each.isr_nodes) == 3]
        return True if len(there) == partitions else None

    for node in cluster.nodes:
        eventually(lambda node=node: complete(node), f"the topic {name} on node {node}", 120)  # type: ignore[misc]


def delete_topic(cluster: MixedCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(60)


def producer(cluster: MixedCluster, **settings: str | int) -> Producer:
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, **keys})


def load(cluster: MixedCluster, topic: str, *, batch_bytes: int, producers: int, volume: int, partitions: int = 3) -> Figures:
    """`producers` producers share the volume of records of 1 KB; throughput of all of them."""
    value = os.urandom(1024)
    failures: list[BaseException] = []

    def produce(share: int) -> None:
        client = producer(
            cluster,
            batch_size=batch_bytes,
            batch_num_messages=batch_bytes // 1024 + 10,
            message_max_bytes=2_000_000,
            linger_ms=20 if batch_bytes > 100_000 else 5,
            queue_buffering_max_messages=400_000,
            queue_buffering_max_kbytes=256 * 1024,
        )
        refused: list[object] = []

        def told(error: object, _: object) -> None:
            if error is not None:
                refused.append(error)

        try:
            for number in range(share):
                while True:
                    try:
                        client.produce(topic, value, partition=number // 64 % partitions, on_delivery=told)
                        break
                    except BufferError:
                        client.poll(0.002)
                if number % 64 == 0:
                    client.poll(0)
            if client.flush(300) or refused:
                raise RuntimeError(f"records were not acknowledged: {refused[:1]}")
        except BaseException as error:
            failures.append(error)

    share = volume // 1024 // producers
    threads = [threading.Thread(target=produce, args=(share,)) for _ in range(producers)]
    cpu, client_cpu, start = cpu_seconds(cluster), time.process_time(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    if failures:
        raise failures[0]
    gigabytes = share * producers * 1024 / 1e9
    return {
        "MB/s": gigabytes * 1000 / elapsed,
        "CPU s/GB": (cpu_seconds(cluster) - cpu) / gigabytes,
        "client CPU s/GB": (time.process_time() - client_cpu) / gigabytes,
    }


def ack_latency(cluster: MixedCluster, topic: str, rate: int, seconds: float) -> Figures:
    """Records of 100 B at their moments, over three partitions; milliseconds until the acknowledgement."""
    client = producer(cluster, linger_ms=0, socket_nagle_disable="true")
    return ack_latencies(client, topic, rate=rate, seconds=seconds, warm_up=rate, partitions=3)


def eager_producer(cluster: MixedCluster) -> Producer:
    """One that looks for a leader as often as librdkafka lets it."""
    return producer(
        cluster,
        linger_ms=0,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        retry_backoff_ms=20,
        topic_metadata_refresh_fast_interval_ms=20,
    )


def leader_failure(cluster: MixedCluster, folder: Path) -> Figures:
    """kill -9 of a partition's leader that is not the active controller, until a record is acknowledged: by raw requests, and to a producer
    of librdkafka that has used the partition before.
    """
    begin(cluster)
    create_topic(cluster, "failing")
    controller = cluster.leader()
    leaders = {number: leader_of(cluster, "failing", number, controller) for number in range(3)}
    partition = next(number for number, leader in leaders.items() if leader != controller)
    client = eager_producer(cluster)
    first_ack_by_librdkafka(client, "failing", partition)
    start = time.perf_counter()
    cluster.nodes[leaders[partition]].kill()
    with ThreadPoolExecutor(1) as pool:
        with_librdkafka = pool.submit(first_ack_by_librdkafka, client, "failing", partition)
        raw = first_ack(cluster, "failing", partition)
        return {"first ack s": raw - start, "librdkafka first ack s": with_librdkafka.result() - start}


def controller_failure(cluster: MixedCluster, folder: Path) -> Figures:
    """kill -9 of the active controller, which is a broker too, until a topic is created, and until a record is acknowledged in a partition
    that it led.
    """
    begin(cluster)
    create_topic(cluster, "failing")
    controller = cluster.leader()
    partition = next(number for number in range(3) if leader_of(cluster, "failing", number, controller) == controller)
    start = time.perf_counter()
    cluster.nodes[controller].kill()
    with ThreadPoolExecutor(1) as pool:
        acknowledged = pool.submit(first_ack, cluster, "failing", partition)
        return {"first topic s": first_topic(cluster) - start, "first ack s": acknowledged.result() - start}


def propagation(cluster: MixedCluster, topic: str, changes: int) -> Figures:
    """Milliseconds from a change of a topic's configuration being sent until every broker shows it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    question = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=["retention.ms"])
        ]
    )
    taken: list[float] = []
    for number in range(changes):
        value = str(86_400_000 + number)
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        start = time.perf_counter()
        (done,) = admin.incremental_alter_configs([resource]).values()
        waiting = set(cluster.nodes)
        while waiting:
            for node in list(waiting):
                response = ask(cluster.nodes[node].port, question, 4)
                assert isinstance(response, DescribeConfigsResponse)
                if response.results[0].configs[0].value == value:
                    waiting.discard(node)
        taken.append((time.perf_counter() - start) * 1000)
        done.result(30)
    taken.sort()
    return {"p50 ms": taken[len(taken) // 2], "p99 ms": taken[int(len(taken) * 0.99)]}


def many_partitions(cluster: MixedCluster, folder: Path) -> Figures:
    """Throughput with three partitions, then with 3,000 beside them in the same sessions of the followers; CPU and memory of a broker."""
    begin(cluster)
    create_topic(cluster, "few")
    load(cluster, "few", batch_bytes=65_536, producers=1, volume=100 * MB)
    few = load(cluster, "few", batch_bytes=65_536, producers=1, volume=200 * MB)
    create_topic(cluster, "many", 3000)
    time.sleep(3)
    cpu = cpu_seconds(cluster)
    time.sleep(10)
    idle = (cpu_seconds(cluster) - cpu) / len(NODES) * 10
    many = load(cluster, "few", batch_bytes=65_536, producers=1, volume=200 * MB)
    return {
        "throughput, 3,000 / 3": many["MB/s"] / few["MB/s"],
        "idle CPU % of a core": idle,
        "peak RSS of a broker MB": max(node.peak_rss_bytes() for node in cluster.nodes.values()) / MB,
    }


def ready(cluster: MixedCluster, folder: Path) -> Figures:
    """Seconds until three formatted nodes that are started together answer clients and know all three brokers."""
    cluster.format()
    start = time.perf_counter()
    cluster.start(timeout=180)
    until(lambda: sum(not fenced for fenced in brokers(cluster).values()) == len(NODES), "all brokers", 60)
    return {"ready s": time.perf_counter() - start}


def rows(scale: float) -> Sequence[AnyRow]:
    def produce(name: str, batch: int, producers: int, volume: int, cpu: float) -> Row[MixedCluster]:
        def work(cluster: MixedCluster, label: str) -> Figures:
            topic = f"load-{batch}-{producers}-{label}"
            create_topic(cluster, topic)
            figures = load(cluster, topic, batch_bytes=batch, producers=producers, volume=int(volume * MB * scale))
            delete_topic(cluster, topic)
            return figures

        return Row(name, work, "CPU s/GB", {"MB/s": at_least(3), "CPU s/GB": at_most(cpu)})

    def on_a_topic(
        name: str, measure: Callable[[MixedCluster, str], Figures], settles: str, targets: Mapping[str, Target]
    ) -> Row[MixedCluster]:
        def work(cluster: MixedCluster, label: str) -> Figures:
            topic = f"{re.sub('[^a-z0-9]+', '-', name)}-{label}"
            create_topic(cluster, topic)
            figures = measure(cluster, topic)
            delete_topic(cluster, topic)
            return figures

        return Row(name, work, settles, targets)

    return (
        ColdRow("three nodes ready", ready, {"ready s": below(2, "s")}),
        ColdRow("kill -9 of a leader", leader_failure, {"first ack s": below(2, "s"), "librdkafka first ack s": below(2, "s")}),
        ColdRow("kill -9 of the controller", controller_failure, {"first topic s": below(1, "s"), "first ack s": below(2, "s")}),
        ColdRow(
            "3,000 partitions of three replicas",
            many_partitions,
            {
                "throughput, 3,000 / 3": Target(">= 0.8", least=0.8),
                "idle CPU % of a core": below(3, "%"),
                "peak RSS of a broker MB": below(150, "MB"),
            },
        ),
        produce("acks=all, 1 MB batches", 1_000_000, 1, 500, 0.2),
        produce("acks=all, 64 KB batches", 65_536, 1, 200, 1 / 3),
        produce("acks=all, 64 KB batches, 10 producers", 65_536, 10, 200, 1 / 3),
        produce("acks=all, 16 KB batches", 16_384, 1, 100, 1 / 3),
        produce("acks=all, 16 KB batches, 10 producers", 16_384, 10, 100, 1 / 3),
        on_a_topic(
            "acks=all at 200/s", lambda cluster, topic: ack_latency(cluster, topic, 200, 10 * scale), "p50 ms", {"p99 ms": at_most(0.1)}
        ),
        on_a_topic(
            "acks=all at 1,000/s", lambda cluster, topic: ack_latency(cluster, topic, 1000, 6 * scale), "p50 ms", {"p99 ms": at_most(0.1)}
        ),
        on_a_topic(
            "a change reaches all brokers",
            lambda cluster, topic: propagation(cluster, topic, int(200 * scale)),
            "p50 ms",
            {"p99 ms": below(50, "ms")},
        ),
    )


if __name__ == "__main__":
    run_on(
        __doc__,
        "cluster",
        rows,
        make=lambda side, home, talking: make_cluster(side, home, {}),
        running=lambda folder: Clusters(folder).running(),
    )
