"""How fast one log takes and gives batches, without network: `python -m bench.storage [--directory DIR] [--profile]`.

Prints appends and reads per second, and what an append costs beyond the write system call and the checksum; then loading and recovery.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from bench.clock import WallClock
from odradek.base.ids import TopicPartition
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig
from odradek.records.batch import check_crc, encode_batch, iter_headers, read_header
from odradek.storage.disk import OsDisk
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from tests.storage.support import load_all

PARTITION = TopicPartition("bench", 0)


def open_manager(directory: str, config: TopicConfig) -> LogManager:
    manager = LogManager(OsDisk(), WallClock(), [directory], BrokerConfig.__new__(BrokerConfig), random=random.Random(1))
    load_all(manager, lambda _: config)
    return manager


def per_call_us(count: int, call: Callable[[int], object]) -> float:
    began = time.perf_counter()
    for index in range(count):
        call(index)
    return (time.perf_counter() - began) / count * 1e6


def batch_of(size: int) -> memoryview:
    """A batch of about `size` bytes in records of 1 KB."""
    count = max(size // 1040, 1)
    now = time.time_ns() // 1_000_000
    return memoryview(encode_batch([(now, b"key", b"v" * 1000, ())] * count))


def bench_appends(log: Log, size: int, total_bytes: int, floor_file: str) -> None:
    batch = batch_of(size)
    count = max(total_bytes // len(batch), 1)
    append_us = per_call_us(count, lambda _: log.append_as_leader(batch, 0))
    descriptor = os.open(floor_file, os.O_RDWR | os.O_CREAT)
    parts = [batch[:8], batch[8:12], batch[12:16], batch[16:]]
    write_us = per_call_us(count, lambda index: os.pwritev(descriptor, parts, index * len(batch)))
    os.close(descriptor)
    os.remove(floor_file)
    header = read_header(batch)
    crc_us = per_call_us(2000, lambda _: check_crc(batch, 0, header))
    own_us = append_us - write_us - crc_us
    rate, megabytes = 1e6 / append_us, len(batch) / append_us
    print(
        f"append {len(batch):>8} B  {rate:>9,.0f}/s  {megabytes:>7,.0f} MB/s  {append_us:6.1f} us"
        f" = write {write_us:.1f} + crc {crc_us:.1f} + own {own_us:.1f}"
    )


def bench_reads(log: Log) -> None:
    end = log.log_end_offset
    rng = random.Random(1)
    starts = [rng.randrange(end) for _ in range(20_000)]

    def tail(_: int) -> None:
        log.read(end - 1, max_bytes=1 << 20, max_offset=end, min_one_message=True).release()

    def anywhere(index: int) -> None:
        log.read(starts[index], max_bytes=1 << 20, max_offset=end, min_one_message=True).release()

    def empty(_: int) -> None:
        log.read(end, max_bytes=1 << 20, max_offset=end, min_one_message=True).release()

    for label, call in (("at the tail", tail), ("anywhere", anywhere), ("at the end, nothing there", empty)):
        cost = per_call_us(20_000, call)
        print(f"read {label:<28} {1e6 / cost:>9,.0f}/s  {cost:6.1f} us (positions only)")
    began, moved = time.perf_counter(), 0
    for segment in log.segments:
        offset = segment.base_offset
        while (found := log.read(offset, max_bytes=1 << 20, max_offset=end, min_one_message=True)).size:
            data = found.slices[0].read(0, found.size)
            found.release()
            moved += len(data)
            offset = max(header.next_offset for _, header in iter_headers(data))
            if log.segments.index_at(offset) != log.segments.index_at(segment.base_offset):
                break
    print(f"read everything in slices of 1 MiB  {moved / (time.perf_counter() - began) / 1e6:,.0f} MB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", help="where to put the log (default: a temporary directory)")
    parser.add_argument("--bytes", type=int, default=400_000_000)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(dir=arguments.directory)
    config = TopicConfig.build(None, {})
    try:
        manager = open_manager(directory, config)
        log = manager.create_log(PARTITION, UUID(int=1 << 100), config)
        for size in (1 << 10, 1 << 14, 1 << 20):
            bench_appends(log, size, arguments.bytes if size > 1024 else arguments.bytes // 20, str(Path(directory) / "floor"))
        bench_reads(log)
        if arguments.profile:
            batch = batch_of(1 << 14)
            profile = cProfile.Profile()
            profile.runcall(lambda: [log.append_as_leader(batch, 0) for _ in range(20_000)])
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        size = log.size
        manager.directories[0].release()
        began = time.perf_counter()
        again = open_manager(directory, config)
        taken = time.perf_counter() - began
        print(f"recovery after a kill: {size / 1e6:,.0f} MB in {taken:.2f} s = {size / taken / 1e6:,.0f} MB/s")
        again.shutdown()
        began = time.perf_counter()
        open_manager(directory, config)
        print(f"start after a clean shutdown: {(time.perf_counter() - began) * 1000:.1f} ms")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
