"""Mutated messages for the decoders, in process.

    python -m tests.campaigns.frames --count 1000000 --seed 1

Every request, response and stored record in every version is mutated: bits flipped, bytes deleted, inserted, repeated or overwritten with
hostile lengths, two messages spliced. Named checks:
  only-protocol-errors   a decoder returns a message or raises ProtocolError;
  no-hang                no single message takes longer than the deadline;
  memory-bounded         the peak memory of the process grows by less than the limit.
A failure prints the message, version and bytes; `--seed` repeats the run.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from dataclasses import dataclass, field

from odradek.base.errors import ProtocolError
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.headers import decode_request_header, encode_request_header
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record
from odradek.protocol.schema import Message
from odradek.protocol.varint import encode_uvarint
from tests.protocol.generate import Generator, all_messages, versions_of

DEADLINE = 0.5
MEMORY_GROWTH_LIMIT = 64 << 20
LARGEST = 20_000
NUMBERS = (-1, -2, 0, 1, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 0x7FFFFFF0, 1_000_000)
HOSTILE = (
    *[number.to_bytes(4, "big", signed=True) for number in NUMBERS],
    *[number.to_bytes(2, "big", signed=True) for number in NUMBERS if -0x8000 <= number <= 0x7FFF],
    *[encode_uvarint(number) for number in (0, 1, 127, 128, 32_769, 1_000_000, 0x7FFFFFFF, 0xFFFFFFFF)],
    b"\xff" * 5,
    b"\xff" * 10,
    b"\x80" * 12,
)


@dataclass
class Outcome:
    """Results of a run."""

    frames: int = 0
    accepted: int = 0
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """Valid bytes and their form: `kind` is "message", "request" (with header) or "metadata" (framed)."""

    kind: str
    message: type[Message]
    version: int
    data: bytes


def samples(seed: int) -> list[Sample]:
    """Return two messages for every class and version; requests and metadata records also in their frames."""
    found: list[Sample] = []
    for message in all_messages():
        for version in versions_of(message):
            for number in range(2):
                original = Generator((seed, message.__name__, version, number), version).message(message)
                data = original.encode(version)
                found.append(Sample("message", message, version, data))
                if message.__module__.endswith("metadata_records"):
                    found.append(Sample("metadata", message, version, encode_metadata_record(original, version)))
                elif message.__name__.endswith("Request"):
                    found.append(Sample("request", message, version, encode_request_header(message.API_KEY, version, 7, "fuzz") + data))
    return found


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return `data` after one to four mutations."""
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        position = rng.randint(0, len(mutated))
        match rng.randrange(7):
            case 0 | 1 if mutated:
                mutated[position % len(mutated)] ^= 1 << rng.randrange(8)
            case 2:
                del mutated[position:]
            case 3:
                mutated[position:position] = rng.randbytes(rng.randint(1, 8))
            case 4:
                number = rng.choice(HOSTILE)
                mutated[position : position + len(number)] = number
            case 5:
                piece = mutated[position : position + rng.randint(1, 64)]
                mutated[position:position] = piece * rng.randint(1, 16)
            case _:
                start = rng.randint(0, len(other))
                mutated[position:] = other[start:]
    return bytes(mutated[:LARGEST])


def read(sample: Sample, data: bytes) -> None:
    if sample.kind == "metadata":
        decode_metadata_record(data)
        return
    offset = 0
    message, version = sample.message, sample.version
    if sample.kind == "request":
        header, offset = decode_request_header(data)
        info = API_INFO[ApiKey(header.api_key)]
        if not info.min_version <= header.api_version <= info.max_version or header.api_key != message.API_KEY:
            return
        version = header.api_version
    decoded, end = message.decode_prefix(data, version, offset)
    if not offset <= end <= len(data):
        raise AssertionError(f"read {end} of {len(data)} bytes")
    repr(decoded)


def run(count: int, seed: int) -> Outcome:
    """Decode `count` mutated messages."""
    rng = random.Random(seed)
    corpus = samples(seed)
    outcome = Outcome()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while outcome.frames < count and len(outcome.failures) < 10:
        sample = rng.choice(corpus)
        data = mutate(rng, sample.data, rng.choice(corpus).data)
        outcome.frames += 1
        started = time.process_time()
        try:
            read(sample, data)
            outcome.accepted += 1
        except ProtocolError:
            pass
        except BaseException as error:
            outcome.failures.append(f"{sample.kind} {sample.message.__name__} version {sample.version}: {error!r} for {data.hex()}")
        taken = time.process_time() - started
        outcome.slowest = max(outcome.slowest, taken)
        if taken > DEADLINE:
            outcome.failures.append(f"{sample.message.__name__} version {sample.version} took {taken:.2f} s for {data.hex()}")
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if growth > MEMORY_GROWTH_LIMIT + 100 * len(corpus):
        outcome.failures.append(f"the peak memory grew by {growth >> 20} MiB")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    outcome = run(options.count, options.seed)
    seconds = time.monotonic() - started
    print(
        f"{outcome.frames} frames with seed {options.seed} in {seconds:.0f} s: {outcome.accepted} still valid, "
        f"slowest {outcome.slowest * 1e3:.1f} ms, {len(outcome.failures)} failures"
    )
    for failure in outcome.failures:
        print(failure)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
