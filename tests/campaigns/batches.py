"""Mutated record batches against the codec, compiled and interpreted.

    python -m tests.campaigns.batches --count 1000000 --seed 1

Every batch is read, validated for an append and decoded into Arrow columns. Every fifth time a run of batches, some of them mutated, is
indexed, filtered, and scanned for compaction and recovery. Named checks:
  our-errors-only   only KafkaError and ProtocolError are raised;
  builds-agree      the compiled and the interpreted codec give the same result (every tenth batch; all with --compare);
  what-passes-reads a batch that is accepted for an append can be read by consumers;
  runs-as-batches   loops over many batches give the results of calls for single batches, and ignore bytes outside their range.
For the build with bounds checks and address sanitizer:
    ODRADEK_CODEC=checked python setup.py build_ext --inplace
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 python -m tests.campaigns.batches
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from types import ModuleType

from odradek.base.errors import KafkaError, ProtocolError
from odradek.records import native
from odradek.records.batch import decode_records, read_header
from odradek.records.validation import AppendRules, validate_append
from tests.records.mutated_runs import mutated_run, treatment, verdict
from tests.records.strategies import mutated

RULES = AppendRules(1 << 20, max_uncompressed=1 << 20)


def accepted_is_readable(batch: bytes) -> bool:
    """Return False when a batch passes validation but cannot be read."""
    try:
        result = validate_append(memoryview(batch), 0, read_header(batch), RULES, now_ms=1_700_000_000_000)
    except (KafkaError, ProtocolError):
        return True
    return len(decode_records(result.batch)) == result.record_count


def run_finding(name: str, source: ModuleType | None) -> str:
    """Return the violation in the processing of a run of batches, or "". `source` is another build to compare with, or None."""
    run, did = mutated_run(random.Random(name))
    place = f"{name} ({did}): {run.hex()}"
    ours = native.codec
    try:
        answer = treatment(run, random.Random(name))
        if source is not None:
            native.codec = source
            if treatment(run, random.Random(name)) != answer:
                return f"builds-agree: {place}"
    except AssertionError as error:
        return f"runs-as-batches: {error} {place}"
    except Exception as error:
        return f"our-errors-only: {error!r} {place}"
    finally:
        native.codec = ours
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--compare", action="store_true", help="ask both builds about every batch")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, codec {'compiled' if native.codec_is_compiled() else 'interpreted'}", flush=True)
    ours = native.codec
    source = native.load_interpreted()
    started = time.monotonic()
    for index in range(arguments.count):
        batch, did = mutated(random.Random(f"{seed}/{index}"))
        place = f"seed {seed} index {index} ({did}): {batch.hex()}"
        try:
            answer = verdict(batch)
            readable = accepted_is_readable(batch)
        except Exception as error:
            print(f"our-errors-only: {error!r} {place}")
            return 1
        if not readable:
            print(f"what-passes-reads: {place}")
            return 1
        if (arguments.compare or index % 10 == 0) and ours is not source:
            native.codec = source
            other = verdict(batch)
            native.codec = ours
            if other != answer:
                print(f"builds-agree: {place}")
                return 1
        if index % 5 == 0:
            compare = (arguments.compare or index % 50 == 0) and ours is not source
            finding = run_finding(f"{seed}/run/{index}", source if compare else None)
            if finding:
                print(finding)
                return 1
    print(f"{arguments.count} batches, no finding, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
