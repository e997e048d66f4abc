"""How long acknowledgements take when records come at a given rate."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Producer

from bench.comparison import Figures


def ack_latencies(producer: Producer, topic: str, *, rate: int, seconds: float, warm_up: int, partitions: int = 1) -> Figures:
    """`rate` records of 100 B a second, each sent at its moment, to the partitions in turns; milliseconds until its acknowledgement.

    The first `warm_up` records do not count. RuntimeError when a record was not acknowledged.
    """
    producer.list_topics(topic, timeout=30)
    latencies: list[float] = []
    refused: list[object] = []
    value = b"x" * 100

    def send(number: int) -> None:
        sent_at = time.perf_counter()

        def told(error: object, _: object) -> None:
            if error is not None:
                refused.append(error)
            latencies.append((time.perf_counter() - sent_at) * 1000)

        producer.produce(topic, value, partition=number % partitions, on_delivery=told)

    # librdkafka connects to each leader with the first record for it, and may take half a second for that.
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition)
    producer.flush(30)
    # Answers are taken by a thread that sleeps until there are some: polling in between would spin for waits below a millisecond, and take
    # the brokers on the same machine a core away.
    over = threading.Event()

    def take_answers() -> None:
        while not over.is_set():
            producer.poll(0.1)

    answers = threading.Thread(target=take_answers)
    answers.start()
    try:
        start = time.perf_counter()
        for number in range(int(rate * seconds) + warm_up):
            if (left := start + number / rate - time.perf_counter()) > 0:
                time.sleep(left)
            send(number)
    finally:
        over.set()
        answers.join()
    if producer.flush(30) or refused:
        raise RuntimeError(f"records were not acknowledged: {refused[:1]}")
    latencies = sorted(latencies[warm_up:])
    return {"p50 ms": latencies[len(latencies) // 2], "p99 ms": latencies[int(len(latencies) * 0.99)]}
