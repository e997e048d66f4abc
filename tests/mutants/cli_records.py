"""Bugs of the commands that read and write records."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "cli/test_console.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- as Kafka's console tools ---------------------------------------------------------------------------------------------------------
    Mutant(
        "console-null-key-is-empty",
        "cli/console_formatter.py",
        "of_key(null if record.key is None else record.key)",
        'of_key(record.key or b"")',
        "Null is shown as null.literal, and stays apart from empty.",
        _TESTS,
    ),
    Mutant(
        "console-headers-after-the-key",
        "cli/console_formatter.py",
        '"delivery", "headers", "key", "value")',
        '"delivery", "key", "headers", "value")',
        "Headers stand before the key.",
        _TESTS,
    ),
    Mutant(
        "console-short-numbers-are-decoded",
        "cli/console_formatter.py",
        "if len(content) != size:",
        "if len(content) > size:",
        "A number has the size of its type.",
        _TESTS,
    ),
    Mutant(
        "console-line-of-two-reads-ends-twice",
        "cli/console_reader.py",
        'if not rest and block.endswith(b"\\r"):',
        'if not rest and block.endswith(b"\\r\\r"):',
        "A carriage return and the newline of the next read end one line.",
        _TESTS,
    ),
    Mutant(
        "console-empty-headers-at-the-end",
        "cli/console_reader.py",
        "while pieces and not pieces[-1]:",
        "while len(pieces) > 2 and not pieces[-1]:",
        "Nothing behind the last separator is no header.",
        _TESTS,
    ),
    Mutant(
        "console-marker-of-headers-unseen",
        "cli/console_reader.py",
        "[] if headers is None or headers == marker else",
        "[] if headers is None else",
        "The null marker in place of headers stands for none.",
        _TESTS,
    ),
    Mutant(
        "console-file-of-properties-wins",
        "cli/client_command.py",
        "        found[name] = value\n    return found",
        "        found.setdefault(name, value)\n    return found",
        "A property of the command line goes before that of a file.",
        _TESTS,
    ),
    Mutant(
        "console-lines-before-a-mistake-are-lost",
        "cli/sending.py",
        "                self.finish()\n                raise",
        "                raise",
        "What was read before a line that cannot be parsed is written.",
        _TESTS,
    ),
    Mutant(
        "console-starts-at-the-beginning",
        "cli/consume.py",
        "default = END if console and not from_beginning else BEGINNING",
        "default = BEGINNING",
        "kafka-console-consumer starts at the end, unless told otherwise.",
        _TESTS,
    ),
    Mutant(
        "console-timeout-never-starts-again",
        "cli/consume.py",
        "if came:\n                last",
        "if False:\n                last",
        "The pause is measured from the last record.",
        _TESTS,
    ),
    Mutant(
        "console-isolation-of-a-file-wins",
        "cli/consume.py",
        'chosen["isolation.level"] = isolation_level',
        'chosen.setdefault("isolation.level", isolation_level)',
        "--isolation-level goes before a configuration.",
        _TESTS,
    ),
    Mutant(
        "console-first-bad-record-hides-the-rest",
        "cli/consume.py",
        'click.echo(f"odradek consume: skipped {where}", err=True)',
        'click.echo(f"odradek consume: skipped {where}", err=True)\n                return',
        "The records after one that is skipped are printed.",
        _TESTS,
    ),
    # -- JSON -----------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "json-base64-of-a-header-unsaid",
        "cli/record_json.py",
        'f"headers[{2 * index + 1}]"',
        'f"headers[{index}]"',
        "The list says which member is base64.",
        "cli/test_record_json.py",
    ),
    Mutant(
        "json-time-is-now",
        "cli/sending.py",
        "            timestamp=line.timestamp,\n",
        "",
        "A record keeps its timestamp.",
        "cli/test_record_json.py",
    ),
)
