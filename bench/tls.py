"""Over TLS: producing, consuming, shaking hands and resting. Odradek and JVM Kafka 4.3.1 driven by the same clients.

    python -m bench.tls [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

How it is measured: bench/comparison.py. The rows that produce and consume are those of bench/brokers.py, by a listener with TLS 1.3 and
a certificate of RSA with 2048 bits; which cipher is spoken the two sides agree on, as they come.
- Java's client: the producer of kafka-producer-perf-test, which fills records of TLS (16 KB). librdkafka writes one for each piece of a
  batch, mostly two for each record of 1 KB, and OpenSSL takes more than a microsecond for each of them, however small.
- handshakes: four of `openssl s_time -new`, each one connection after the other; "CPU us" is the broker's for one.
- 5,000 idle connections: each has been served ApiVersions and waits. "KB each" is what the broker's resident memory grew by, over their
  number.
- neighbours: 200 acknowledgements a second on a connection that is there, while the four shake hands without end.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Producer

from bench.acks import ack_latencies
from bench.brokers import consume_load, create_topic, delete_topic, produce_load
from bench.comparison import MB, AnyRow, ColdRow, Figures, Peers, Row, at_least, at_most, below, make_broker, run_on
from bench.wire import request_frame
from interop.peers import BrokerProcess, free_port, jvm_command
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.client.certificates import Certificates

KB = 1_000
_HANDSHAKING = 4
_TOPIC = "consume"
_RATE = re.compile(r"\(([\d.]+) MB/sec\)")
_DONE = re.compile(rb"(\d+) connections in ([\d.]+) real seconds")


class Secured:
    """What brokers and clients need of TLS; each broker's port is known by its folder."""

    def __init__(self, folder: Path) -> None:
        self.made = Certificates(folder)
        self._ports: dict[Path, int] = {}

    def secure(self, broker: BrokerProcess) -> BrokerProcess:
        port = self._ports[broker.folder] = free_port()
        broker.overrides = {
            **broker.overrides,
            "listeners": f"PLAINTEXT://{broker.bootstrap},CONTROLLER://127.0.0.1:{broker.controller_port},TLS://localhost:{port}",
            "advertised.listeners": f"PLAINTEXT://{broker.bootstrap},TLS://localhost:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.made.broker),
        }
        return broker

    def port(self, broker: BrokerProcess) -> int:
        return self._ports[broker.folder]

    def client(self, broker: BrokerProcess) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": f"localhost:{self.port(broker)}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.made.authority),
        }

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.made.authority))


def shake_hands(port: int, seconds: float) -> tuple[int, float]:
    """How many handshakes, and in how many seconds."""
    command = ["openssl", "s_time", "-connect", f"localhost:{port}", "-new", "-time", str(max(1, round(seconds)))]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(_HANDSHAKING)]
    count, took = 0, 0.0
    for process in running:
        found = _DONE.search(process.communicate()[0])
        if found is None:
            raise RuntimeError("openssl s_time has counted nothing")
        count += int(found[1])
        took = max(took, float(found[2]))
    return count, took


def java_produce(secured: Secured, broker: BrokerProcess, topic: str, batch: int, volume: int) -> Figures:
    """MB/s as the tool says, whose MB are MiB; CPU of the broker."""
    properties = broker.folder / "java.properties"
    properties.write_text(
        f"bootstrap.servers=localhost:{secured.port(broker)}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.made.authority}\n"
        f"batch.size={batch}\nlinger.ms=5\nacks=1\nbuffer.memory=67108864\nmax.request.size=4194304\n"
    )
    words = ("--topic", topic, "--num-records", str(volume // 1024), "--record-size", "1024", "--throughput", "-1")
    command = jvm_command("org.apache.kafka.tools.ProducerPerformance", *words, "--command-config", str(properties))
    cpu = broker.cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _RATE.findall(done.stdout)
    if done.returncode or not found:
        raise RuntimeError(f"kafka-producer-perf-test: {done.stdout}{done.stderr}")
    return {"MB/s": float(found[-1]) * 1.048576, "CPU s/GB": (broker.cpu_seconds() - cpu) / volume * 1e9}


def hold(secured: Secured, broker: BrokerProcess, count: int) -> float:
    """Bytes that the broker's resident memory grows by with so many connections, each of which has been served once."""
    request = request_frame(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
    context = secured.context()
    before = broker.rss_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            raw = socket.create_connection(("127.0.0.1", secured.port(broker)), 30)
            connection = stack.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
            connection.sendall(request)
            connection.recv(65536)
        time.sleep(2)
        return broker.rss_bytes() - before


def rows(secured: Secured, scale: float) -> Sequence[AnyRow]:
    connections = int(5_000 * scale)

    def produce(name: str, batch: int, volume: int, *, java: bool = False) -> Row:
        size = int(volume * MB * scale)

        def work(broker: BrokerProcess, label: str) -> Figures:
            topic = f"{'java' if java else 'load'}-{batch}-{label}"
            create_topic(broker, topic)
            if java:
                figures = java_produce(secured, broker, topic, batch, size)
            else:
                figures = produce_load(broker, topic, 1024, batch, size, secured.client(broker))
            delete_topic(broker, topic)
            return figures

        return Row(name, work, "CPU s/GB", {"MB/s": at_least(2), "CPU s/GB": at_most(0.5)})

    def fill(broker: BrokerProcess) -> None:
        create_topic(broker, _TOPIC)
        produce_load(broker, _TOPIC, 1024, 1_000_000, int(700 * MB * scale))

    def handshakes(broker: BrokerProcess, label: str) -> Figures:
        cpu = broker.cpu_seconds()
        count, took = shake_hands(secured.port(broker), 4 * scale)
        return {"a second": count / took, "CPU us": (broker.cpu_seconds() - cpu) / count * 1e6}

    def neighbours(broker: BrokerProcess, label: str) -> Figures:
        topic = f"latency-{label}"
        create_topic(broker, topic)
        producer = Producer({**secured.client(broker), "linger.ms": 0, "acks": "all", "socket.nagle.disable": True})
        seconds = 5 * scale
        quiet = ack_latencies(producer, topic, rate=200, seconds=seconds, warm_up=100)
        others = threading.Thread(target=shake_hands, args=(secured.port(broker), seconds + 2))
        others.start()
        time.sleep(1)
        figures = ack_latencies(producer, topic, rate=200, seconds=seconds, warm_up=0)
        others.join()
        delete_topic(broker, topic)
        return {"p50 ms": figures["p50 ms"], "p99 ms": figures["p99 ms"], "quiet p99 ms": quiet["p99 ms"]}

    def connected(broker: BrokerProcess, _: Path) -> Figures:
        broker.start(180)
        hold(secured, broker, 100)
        return {"KB each": hold(secured, broker, connections) / connections / KB}

    return (
        ColdRow("5,000 idle connections", connected, {"KB each": below(60, "KB")}),
        produce("produce 1 KB, 1 MB batches", 1_000_000, 700),
        produce("produce 1 KB, 16 KB batches", 16_384, 300),
        produce("produce 1 KB, 1 MB batches, Java's client", 1_000_000, 1400, java=True),
        produce("produce 1 KB, 16 KB batches, Java's client", 16_384, 1400, java=True),
        Row(
            "consume 1 KB",
            lambda broker, _: consume_load(broker, _TOPIC, 1024, secured.client(broker)),
            "CPU s/GB",
            {"MB/s": at_least(2), "CPU s/GB": at_most(0.5)},
            prepare=fill,
        ),
        Row("handshakes", handshakes, "CPU us", {"a second": at_least(1), "CPU us": at_most(1)}),
        Row("neighbours of handshakes", neighbours, "p50 ms", {"p99 ms": at_most(1)}),
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="odradek-bench-tls-") as folder:
        secured = Secured(Path(folder))

        @contextlib.contextmanager
        def running(home: Path) -> Iterator[Peers]:
            peers = Peers(home, {})
            for broker in peers.brokers.values():
                secured.secure(broker)
            with peers.running() as turns:
                yield turns

        run_on(
            __doc__,
            "tls",
            lambda scale: rows(secured, scale),
            make=lambda side, home, talking: secured.secure(make_broker(side, home, {}, talking)),
            running=running,
        )


if __name__ == "__main__":
    main()
