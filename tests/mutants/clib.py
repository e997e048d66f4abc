"""Bugs of the commands for files, clusters and topics."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- dump-log -------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "dump-reads-the-whole-rest",
        "cli/dumping/batches.py",
        "data = file.pread(size, position)",
        "data = file.pread(end - position, position)[:size]",
        "One batch at a time is in memory, however large the segment.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-gaps-unseen-across-batches",
        "cli/dumping/log_text.py",
        "            self._last_offset = record.offset\n",
        "            self._last_offset = max(self._last_offset, record.offset - 1)\n",
        "Offsets that do not follow one another are told with those that they stand between.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-sequence-of-the-batch",
        "cli/dumping/log_text.py",
        "record.offset - header.base_offset)",
        "header.base_offset - header.base_offset)",
        "Each record has a sequence of its own.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-tagged-defaults-shown",
        "protocol/as_json.py",
        "elif not (field.tagged.includes(version) and _is_default(message, field, value)):",
        "else:",
        "A tagged field at its default is left out, as in Kafka's JSON.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-fields-of-other-versions",
        "protocol/as_json.py",
        "if not field.ignorable and not _is_default",
        "if not _is_default",
        "A field that the version lacks and that may get lost is left out.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-index-zeros-are-entries",
        "cli/dumping/index_text.py",
        "if relative == 0 and number > 0:  # zeros",
        "if relative == 0 and number < 0:  # what",
        "Zeros that a crash left at the end of an index are no entries.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-mismatch-of-the-first-batch-only",
        "cli/dumping/index_text.py",
        "batch.header.last_offset >= offset), None)",
        "batch.header.last_offset > offset), None)",
        "A time index is held to the batch that ends with the entry's offset.",
        "cli/test_dump_log.py",
    ),
    Mutant(
        "dump-inner-checksum-of-the-wrapper",
        "records/legacy.py",
        "found.append((record, inner, at, inner_header))",
        "found.append((record, inner, at, header))",
        "An old message inside a compressed one has a checksum of its own.",
        "cli/test_dump_log.py",
    ),
    # -- clusters -------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "describe-cluster-asks-controllers-for-brokers",
        "client/admin/quorum.py",
        "_CONTROLLERS if self._config.uses_controllers else _BROKERS",
        "_BROKERS",
        "describe_cluster works with bootstrap.controllers.",
        "client/test_controllers.py",
    ),
    # -- log-dirs, delete-records -----------------------------------------------------------------------------------------------------------
    Mutant(
        "delete-records-at-once",
        "cli/delete_records.py",
        "if execute and asked else {}",
        "if asked else {}",
        "Nothing is deleted without --execute.",
        "cli/test_replica_commands.py",
    ),
    Mutant(
        "delete-records-script-only-tells",
        "cli/delete_records.py",
        'arguments = ["--execute", *arguments]',
        "arguments = [*arguments]",
        "A command line of Kafka's script deletes.",
        "cli/test_replica_commands.py",
    ),
    Mutant(
        "delete-records-dry-run-overruled",
        "cli/delete_records.py",
        'arguments = ["--execute", *arguments]',
        'arguments = [*arguments, "--execute"]',
        "--dry-run deletes nothing, also with a file.",
        "cli/test_replica_commands.py",
    ),
    Mutant(
        "log-dirs-of-all-topics",
        "cli/log_dirs.py",
        "partitions=partitions)",
        "partitions=None)",
        "--topic-list shows the replicas of those topics only.",
        "cli/test_replica_commands.py",
    ),
)
