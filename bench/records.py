"""Figures of the record codec's hot loops: python bench/records.py [--json FILE] [--compaction]

Prints millions of records (and GB of batches) a second, the best of several runs, for the compiled codec and its source. One core, no IO.
Then a scan, an index and a filter of a log whose keys come back, JVM Kafka's beside: `--compaction` prints these alone.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from odradek.records import native
from odradek.records.arrow import decode_to_arrow, encode_from_arrow
from odradek.records.batch import HEADER_SIZE, BatchBuilder, check_crc, decode_records, encode_batch, read_header
from odradek.records.compaction import OffsetMap, filter_batch, index_batch
from odradek.records.compression import Compression, compress, decompress
from odradek.records.runs import RunFilter, SegmentBooks, index_run, is_plain
from odradek.records.scan import ScanEnd, scan_batches
from odradek.records.validation import AppendRules, validate_append

ROOT = Path(__file__).parents[1]
VALUE = bytes(range(100))
TIMESTAMP = 1_700_000_000_000
RUNS = 15


def best(act: Callable[[], object], runs: int = RUNS) -> float:
    """Seconds of the fastest run."""
    fastest = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        act()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


def build(count: int) -> bytes:
    builder = BatchBuilder(1 << 20)
    append = builder.append
    for _ in range(count):
        append(TIMESTAMP, None, VALUE)
    return builder.close()


def loops(count: int) -> dict[str, float]:
    """Seconds of each loop over `count` records of 100 bytes in one batch of 1 MB."""
    records = [(TIMESTAMP, None, VALUE, ())] * count
    batch = encode_batch(records)
    view = memoryview(batch)
    header = read_header(batch)
    table = decode_to_arrow(batch, topic="t", partition=0)
    rules = AppendRules(1 << 30)
    return {
        "walk": best(lambda: native.codec.walk(view, HEADER_SIZE, len(batch), count, header.base_timestamp)),
        "CRC-32C": best(lambda: check_crc(batch, 0, header)),
        "validate for append": best(lambda: validate_append(view, 0, header, rules, now_ms=TIMESTAMP)),
        "encode_batch": best(lambda: encode_batch(records)),
        "BatchBuilder.append": best(lambda: build(count)),
        "decode_records": best(lambda: decode_records(batch)),
        "to Arrow": best(lambda: decode_to_arrow(batch, topic="t", partition=0, check_crcs=False)),
        "from Arrow": best(lambda: list(encode_from_arrow(table))),
    }


def codecs() -> dict[str, tuple[float, float, float]]:
    """(compress MB/s, decompress MB/s, ratio) of each compression on 1 MB of text-like records."""
    data = b"".join(b'{"flight": %d, "origin": "EWR", "delay": %d}' % (i, i * i % 97) for i in range(22_000))
    output: dict[str, tuple[float, float, float]] = {}
    for codec in list(Compression)[1:]:
        packed = compress(data, codec)
        megabytes = len(data) / 1e6
        output[codec.name.lower()] = (
            megabytes / best(lambda codec=codec: compress(data, codec)),  # type: ignore[misc]
            megabytes / best(lambda packed=packed, codec=codec: decompress(packed, codec)),  # type: ignore[misc]
            len(packed) / len(data),
        )
    return output


def make_log(value_size: int, per_batch: int, total: int, compression: Compression) -> tuple[list[bytes], int, int]:
    """Batches of records whose values compress by half, every key about five times; their bytes uncompressed, and how many records."""
    rng = random.Random(value_size)
    count = total // (value_size + 24)
    values = [rng.randbytes(value_size // 2) + bytes(value_size - value_size // 2) for _ in range(64)]
    log: list[bytes] = []
    for offset in range(0, count, per_batch):
        records = [(TIMESTAMP, b"key-%012d" % rng.randrange(count // 5), rng.choice(values), ()) for _ in range(per_batch)]
        log.append(encode_batch(records, base_offset=offset, compression=compression))
    records_of_log = len(log) * per_batch
    return log, records_of_log * (value_size + 24), records_of_log


def clean(log: list[bytes]) -> tuple[float, float, float]:
    """Seconds of scanning, of filling the map, of filtering."""
    whole = b"".join(log)
    batches = [(memoryview(batch), read_header(batch)) for batch in log]
    offset_map = OffsetMap(128 << 20)

    def scan() -> None:
        found = scan_batches(whole)
        while found.reason == ScanEnd.LIMIT:
            found = scan_batches(whole, found.end, next_offset=found.next_offset)

    view = memoryview(whole)
    plain = is_plain(view, 0)
    books = SegmentBooks(0, 4096, 0, -1, 0)
    chunk = 1 << 20

    def index() -> None:
        offset_map.clear()
        position = 0
        while plain and position < len(view):
            position = index_run(offset_map, view, position, min(position + chunk, len(view)), 0)
        for batch, header in batches if not plain else ():
            index_batch(offset_map, batch, header, 0)

    runs = RunFilter(offset_map, buffer_bytes=chunk, held_offsets=(), now_ms=0, delete_retention_ms=1)

    def keep() -> None:
        position = 0
        while plain and position < len(view):
            position = runs.run(view, position, min(position + chunk, len(view)), books).end
        for batch, header in batches if not plain else ():
            filter_batch(batch, header, offset_map, discard_records=False, retain_empty=False, now_ms=0, delete_retention_ms=1)

    return best(scan, 5), best(index, 5), best(keep, 5)


def compaction() -> dict[str, dict[str, float]]:
    """MB a second (uncompressed) of each loop and log, ours and the JVM's where its classes have been fetched."""
    libs = ROOT / ".cache/jvm/libs"
    report: dict[str, dict[str, float]] = {}
    print("\ncompaction, MB/s uncompressed, ours / JVM Kafka's" + "scan".rjust(16) + "index".rjust(16) + "filter".rjust(16))
    for compression in (Compression.NONE, Compression.LZ4, Compression.ZSTD):
        for value_size, per_batch in ((1000, 16), (100, 140), (1000, 1), (100, 1)):
            log, size, _ = make_log(value_size, per_batch, 32 << 20 if per_batch > 1 else 8 << 20, compression)
            ours = clean(log)
            theirs = (math.nan,) * 3
            if libs.is_dir():
                with tempfile.NamedTemporaryFile() as file:
                    file.write(b"".join(log))
                    file.flush()
                    command = ["java", "-Xmx1g", "-cp", f"{libs}/*", str(ROOT / "bench/jvm/RecordsBench.java"), "8", file.name]
                    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
                theirs = tuple(int(word) / 1e9 for word in answer.split())
            name = f"{compression.name.lower()}, {value_size} B, {per_batch} a batch"
            cells = [f"{size / mine / 1e6:.0f} / {size / other / 1e6:.0f}" for mine, other in zip(ours, theirs, strict=True)]
            print(f"  {name:47}" + "".join(cell.rjust(16) for cell in cells), flush=True)
            report[name] = dict(zip(("scan", "index", "filter"), (size / mine / 1e6 for mine in ours), strict=True))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--compaction", action="store_true", help="only what compaction and recovery do")
    arguments = parser.parse_args()
    if arguments.compaction:
        compaction()
        return
    builds = {"interpreted": (native.load_interpreted(), 9_000)}
    if native.codec_is_compiled():
        builds = {"compiled": (native.codec, 9_000), **builds}
    report: dict[str, object] = {}
    for name, (native.codec, count) in builds.items():
        print(f"\n{name}, records of 100 B" + "".rjust(12) + "M records/s     GB/s")
        size = len(encode_batch([(TIMESTAMP, None, VALUE, ())] * count))
        seconds = loops(count)
        for loop, taken in seconds.items():
            print(f"  {loop:32}{count / taken / 1e6:14.2f}{size / taken / 1e9:9.2f}")
        report[name] = {loop: count / taken for loop, taken in seconds.items()}
    print("\ncompression (1 MB, default levels)   compress MB/s  decompress MB/s   size")
    for name, (packing, unpacking, ratio) in codecs().items():
        print(f"  {name:32}{packing:16.0f}{unpacking:17.0f}{ratio:7.2f}")
        report[name] = {"compress_mb_s": packing, "decompress_mb_s": unpacking, "ratio": ratio}
    native.codec = builds["compiled" if "compiled" in builds else "interpreted"][0]
    report["compaction"] = compaction()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
