"""Figures of the record codec's hot loops: python bench/records.py [--json FILE]

Prints millions of records (and GB of batches) a second, the best of several runs, for the compiled codec and its source. One core, no IO.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from odradek.records import native
from odradek.records.arrow import decode_to_arrow, encode_from_arrow
from odradek.records.batch import HEADER_SIZE, BatchBuilder, check_crc, decode_records, encode_batch, read_header
from odradek.records.compression import Compression, compress, decompress
from odradek.records.validation import AppendRules, validate_append

VALUE = bytes(range(100))
TIMESTAMP = 1_700_000_000_000
RUNS = 15


def best(act: Callable[[], object]) -> float:
    """Seconds of the fastest of RUNS runs."""
    fastest = float("inf")
    for _ in range(RUNS):
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
        "from Arrow": best(lambda: encode_from_arrow(table)),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
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
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
