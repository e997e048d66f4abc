"""What the hot calls of the blocking clients gain by being written by hand: each beside its derived form.

    python -m bench.faces [--rounds N] [--calls N]

The forms are measured alternately in one process, with a broker in another. A figure is the least CPU time of a round, in microseconds a
call, because a busy machine only adds to it. The CPU time of the loop thread counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from odradek.client.calls.blocking import awaited_here, blocking
from odradek.client.consumer.aio import AsyncConsumer
from odradek.client.consumer.blocking import Consumer
from odradek.client.producer.aio import AsyncProducer
from odradek.client.producer.blocking import Producer
from odradek.testing.kit.embedded import EmbeddedBroker

_TOPIC = "faces"
_VALUE = b"x" * 100


class DerivedProducer(Producer):
    """Producer whose `send` is derived."""

    send = awaited_here(AsyncProducer.send)


class DerivedConsumer(Consumer):
    """Consumer whose `poll` is derived."""

    poll = blocking(AsyncConsumer.poll)


def sending(producer: Producer, calls: int, partition: int | None) -> float:
    """Return the CPU seconds of `calls` sends."""
    producer.flush()
    begin = time.process_time()
    for _ in range(calls):
        producer.send(_TOPIC, _VALUE, partition=partition)
    taken = time.process_time() - begin
    producer.flush()
    return taken


def polling(consumer: Consumer, calls: int) -> float:
    """Return the CPU seconds of `calls` polls for one record each, which the consumer has fetched before."""
    consumer.seek_to_beginning()
    while not consumer.poll(1000, 1):
        pass
    begin = time.process_time()
    for _ in range(calls):
        consumer.poll(1000, 1)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    calls: int = options.calls
    with EmbeddedBroker(topics=[_TOPIC], memory=True, process=True) as broker:
        bootstrap = broker.bootstrap_servers
        reading = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "max_partition_fetch_bytes": 64 << 20}
        with (
            Producer(bootstrap_servers=bootstrap) as producer,
            DerivedProducer(bootstrap_servers=bootstrap) as derived_producer,
            Consumer(reading) as consumer,
            DerivedConsumer(reading) as derived_consumer,
        ):
            for each in (consumer, derived_consumer):
                each.assign([(_TOPIC, 0)])
            rows: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
                "send": (lambda: sending(producer, calls, None), lambda: sending(derived_producer, calls, None)),
                "send to a partition": (lambda: sending(producer, calls, 0), lambda: sending(derived_producer, calls, 0)),
                "poll": (lambda: polling(consumer, calls // 10), lambda: polling(derived_consumer, calls // 10)),
            }
            for name, forms in rows.items():
                made = calls // 10 if name == "poll" else calls
                rounds = [[form() / made * 1e6 for form in forms] for _ in range(options.rounds)]
                by_hand, derived = (min(column) for column in zip(*rounds, strict=True))
                print(f"{name:20} by hand {by_hand:7.2f} us   derived {derived:7.2f} us   {derived / by_hand:5.2f}x")


if __name__ == "__main__":
    main()
