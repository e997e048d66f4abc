"""What a follower's fetch costs its leader, by the number of partitions in the session: `python -m bench.follower_sessions`.

One partition changes at a time. A cycle is: the append, the answer to the fetch that waits, the next fetch, which tells of the progress and
waits again. All of it through the bytes of requests and answers, on a virtual disk; the append alone is measured apart and taken off.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.protocol.messages.fetch import FetchRequest
from odradek.storage.append import AppendOrigin
from tests.handlers.support import Broker, batch, through_the_wire

VERSION = 17


class Leader:
    """Broker 1 leads all partitions of a topic, broker 2 follows them in one session."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.broker = Broker(log_cleaner_enable="false")
        self.id = self.broker.create_topic("orders", partitions=partitions, replicas=(1, 2))
        self.records = batch(b"v" * 1000)
        self.offsets = [0] * partitions
        self.session = 0
        self.epoch = 0
        first = self.request(dict.fromkeys(range(partitions), 0), max_wait_ms=0)
        self.session = first.session_id
        self.request({}, max_wait_ms=0)
        self.waiting: Any = self.request({})

    def request(self, offsets: dict[int, int], *, max_wait_ms: int = 500) -> Any:
        wanted = [
            FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets.items()
        ]
        message = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=200),
            session_id=self.session,
            session_epoch=self.epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=10 << 20,
            topics=[FetchRequest.FetchTopic(topic_id=self.id, partitions=wanted)] if wanted else [],
        )
        self.epoch += 1
        return self.broker.call(fetch.handle, message, VERSION)

    def append(self, index: int) -> None:
        self.broker.manager.appender.append(
            [(TopicPartition("orders", index), self.records)], required_acks=1, timeout_ms=1000, origin=AppendOrigin.CLIENT
        )

    def cycle(self, number: int) -> None:
        index = number * 7919 % self.partitions
        self.append(index)
        self.broker.clock.run_due()
        assert isinstance(self.waiting, Deferred)
        response = through_the_wire(self.waiting.result(), VERSION)
        [topic] = response.responses
        assert index in [partition.partition_index for partition in topic.partitions]
        self.offsets[index] += 1
        self.waiting = self.request({index: self.offsets[index]})


def per_call_us(count: int, call: Callable[[int], object]) -> float:
    gc.collect()
    began = time.process_time()
    for index in range(count):
        call(index)
    return (time.process_time() - began) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[3, 30, 300, 3000])
    parser.add_argument("--cycles", type=int, default=300)
    arguments = parser.parse_args()
    for partitions in arguments.partitions:
        leader = Leader(partitions)
        per_call_us(50, leader.cycle)
        cycle = min(per_call_us(arguments.cycles, leader.cycle) for _ in range(3))
        alone = Leader(1)
        alone.broker.manager.delayed.close()
        append = min(per_call_us(arguments.cycles, lambda _, alone=alone: alone.append(0)) for _ in range(3))
        print(f"{partitions:6} partitions: {cycle - append:8.0f} us of CPU for each fetch that brings one batch")


if __name__ == "__main__":
    main()
