"""Bugs of buffers that are used again, and of rows that are encoded into them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS = "client/test_buffers.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "buffer-of-a-repetition-again",
        "client/core/sender.py",
        "if not batch.attempts and self._config.acks:",
        "if self._config.acks:",
        "A batch is overwritten while its first attempt is still on its way to a node.",
        _TESTS,
    ),
    Mutant(
        "buffer-of-the-unacknowledged-again",
        "client/core/sender.py",
        "if not batch.attempts and self._config.acks:",
        "if not batch.attempts:",
        "With acks=0 a batch is overwritten before the socket has it.",
        _TESTS,
    ),
    Mutant(
        "no-buffer-again",
        "client/core/sender.py",
        "            self.buffers.give(batch.payload)\n            batch.payload = None",
        "            batch.payload = None",
        "Every batch costs the page faults of new memory.",
        _TESTS,
    ),
    Mutant(
        "scratch-of-compression-lost",
        "client/core/sender.py",
        "                self.buffers.give(memoryview(buffer))",
        "                pass",
        "Every compressed batch costs the page faults of new memory.",
        _TESTS,
    ),
    Mutant(
        "sent-rows-changed",
        "client/core/sender.py",
        "if type(batch.payload) is memoryview and not batch.attempts:",
        "if type(batch.payload) is memoryview:",
        "What is still on its way to a node is numbered anew there, with a checksum that fits or does not.",
        _TESTS,
    ),
    Mutant(
        "in-place-without-checksum",
        "records/patch.py",
        '    struct.pack_into(">qhi", batch, 43, producer_id, producer_epoch, base_sequence)\n    seal(batch)',
        '    struct.pack_into(">qhi", batch, 43, producer_id, producer_epoch, base_sequence)',
        "Rows are refused for their checksum.",
        _TESTS,
    ),
    Mutant(
        "large-buffers-for-small-batches",
        "client/core/buffers.py",
        "if size // 2 <= needed <= size:",
        "if needed <= size:",
        "Thousands of small batches hold far more memory than buffer.memory.",
        _TESTS,
    ),
    Mutant(
        "buffers-too-small",
        "client/core/buffers.py",
        "if size // 2 <= needed <= size:",
        "if size // 2 <= needed:",
        "A batch grows out of its buffer, which copies it.",
        _TESTS,
    ),
    Mutant(
        "foreign-buffers-kept",
        "client/core/buffers.py",
        "if type(buffer) is bytearray and (free := self._free.get(len(buffer))) is not None:",
        "if (free := self._free.get(len(payload))) is not None:",
        "The pool hands out a user's bytes, or a buffer larger than it says.",
        _TESTS,
    ),
    Mutant(
        "every-buffer-kept",
        "client/core/buffers.py",
        "maxlen=max(1, _KEPT_BYTES // size)",
        "maxlen=1000",
        "A burst leaves gigabytes of buffers behind.",
        _TESTS,
    ),
    Mutant(
        "rows-checked-late",
        "client/producer/arrow.py",
        "for number in [number for piece in pieces for number in _asked(piece).unique().to_pylist() if number is not None]:",
        "for number in [number for piece in pieces[:1] for number in _asked(piece).unique().to_pylist() if number is not None]:",
        "Rows are sent before a later one is refused.",
        _TESTS,
    ),
    Mutant(
        "rows-in-a-large-table-at-once",
        "records/arrow.py",
        "room(min(left, max_batch_bytes))",
        "room(left)",
        "Each batch takes a buffer for all rows that are left.",
        _TESTS,
    ),
    Mutant(
        "batches-of-others-numbered-in-place",
        "client/core/outgoing.py",
        "    copied = bytes(payload)",
        "    copied = payload",
        "A batch that was handed over as a view is changed, and its memory used for the records of others.",
        _TESTS,
    ),
)
