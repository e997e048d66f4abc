"""Bugs of the clients' Arrow batches."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ROWS = "client/producer/arrow.py"
_TESTS = "client/test_arrow.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "column-beaten-by-key",
        _ROWS,
        "pc.coalesce(asked, by_key)",
        "pc.coalesce(by_key, asked)",
        "The column partition is ignored for rows with a key.",
        "spark/test_without_spark.py -k Sink",
    ),
    Mutant(
        "null-key-hashed",
        _ROWS,
        "rows.filter(numbers.is_null() if number is None else pc.equal(numbers, number))",
        "rows.filter(pc.equal(numbers, number))",
        "Rows without a key are lost.",
        "spark/test_without_spark.py -k Sink",
    ),
    Mutant(
        "partition-not-checked",
        _ROWS,
        "    if number not in partitions:",
        "    if number > len(partitions) + 9:",
        "A row for a partition that does not exist waits until its time is up.",
        _TESTS,
    ),
    Mutant(
        "only-the-first-partition-checked",
        _ROWS,
        "_asked(piece).unique().to_pylist() if number is not None]:",
        "_asked(piece).unique().to_pylist()[:1] if number is not None]:",
        "A row for a partition that does not exist is found when others have been sent.",
        _TESTS,
    ),
    Mutant(
        "null-partition-ignores-key",
        _ROWS,
        "and (asked is None or asked.null_count):",
        "and asked is None:",
        "A row with a key and no partition goes anywhere when the rows have a column of that name.",
        "spark/test_without_spark.py::TestSink::test_the_column_beats_the_key_and_the_key_beats_chance",
    ),
    Mutant(
        "unknown-columns-dropped",
        _ROWS,
        "if name not in COLUMNS]",
        "if not name]",
        "A column with a typing error in its name is not sent, and nobody says so.",
        _TESTS,
    ),
    Mutant(
        "one-of-two-partitions-taken",
        _ROWS,
        "            if partition is not None:\n                raise ValueError",
        "            if False:\n                raise ValueError",
        "Rows that ask for partitions go to another one.",
        _TESTS,
    ),
    Mutant(
        "batches-beyond-the-request",
        "client/producer/engine.py",
        'else _ROWS_SIZE, config.integer("max.request.size")),',
        "else _ROWS_SIZE, 1 << 30),",
        "Batches larger than max.request.size are refused.",
        "spark/test_without_spark.py -k Sink",
    ),
    Mutant(
        "rows-in-crumbs",
        "client/config.py",
        '        "262144",\n        MEDIUM,\n        "Bytes of records',
        '        "16384",\n        MEDIUM,\n        "Bytes of records',
        "Records cost the broker and the client a batch every 16 KiB.",
        _TESTS,
    ),
    Mutant(
        "batch-size-of-rows-not-heard",
        "client/producer/engine.py",
        'rows_size=min(config.integer("batch.size") if config.was_given("batch.size") else _ROWS_SIZE,',
        "rows_size=min(_ROWS_SIZE,",
        "Who sets batch.size gets batches that a topic with a small max.message.bytes refuses.",
        _TESTS,
    ),
    Mutant(
        "aborted-rows-handed-out",
        "client/consumer/arrow.py",
        "aborted=chunk.aborted if read_committed else (),",
        "aborted=(),",
        "A reader of committed records gets those of aborted transactions as rows.",
        _TESTS,
    ),
    Mutant(
        "read-rows-again",
        "client/consumer/arrow.py",
        "min_offset=chunk.offset,",
        "min_offset=0,",
        "Rows before the position come along with the batch that it stands in.",
        _TESTS,
    ),
    Mutant(
        "batch-of-nothing",
        "client/consumer/engine.py",
        "            if batch.num_rows:\n                return at_hand, batch\n",
        "            return at_hand, batch\n",
        "Somebody who takes an empty batch for the end stops at an aborted transaction.",
        _TESTS,
    ),
    Mutant(
        "corrupt-rows-passed-over",
        "client/consumer/engine.py",
        "the chunk must not be skipped.\n                self._put_back(chunk.topic_partition)\n",
        "the chunk must not be skipped.\n                self.hand_out.clear()\n",
        "A batch that cannot be decoded is passed over after one exception.",
        _TESTS,
    ),
    Mutant(
        "deserializers-forgotten",
        "client/consumer/engine.py",
        "        need_pyarrow()\n        if self.deserializers is not None:\n",
        "        need_pyarrow()\n        if False:\n",
        "A consumer with deserializers hands out columns that they have not seen.",
        _TESTS,
    ),
)
