"""As test_mistakes.py, for what reads and writes records."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.conftest import Command
from tests.cli.test_mistakes import SEE, Mistake, pattern

CONSUME, PRODUCE = SEE.format("consume"), SEE.format("produce")
MISTAKES = (
    # -- consume ----------------------------------------------------------------------------------------------------------------------
    Mistake("kafka-console-consumer", 2, f"odradek consume: one of --topic, --include is needed; {CONSUME}"),
    Mistake("consume -t there --include t.*", 2, f"odradek consume: one of --topic, --include is needed, not both; {CONSUME}"),
    Mistake("consume --include t.* -p 0", 2, f"odradek consume: --include excludes -p; {CONSUME}"),
    Mistake("consume --include t[", 2, f"odradek consume: --include t[: this is no regular expression: <*>; {CONSUME}"),
    Mistake("consume --include t.* -o 5", 2, f"odradek consume: -o 5: with --include this must be beginning or end; {CONSUME}"),
    Mistake("consume -t there --from-beginning -o 3", 2, f"odradek consume: --from-beginning excludes -o; {CONSUME}"),
    Mistake(
        "consume -t there -G a -o beginning -X auto.offset.reset=latest",
        2,
        f"odradek consume: -o beginning: auto.offset.reset says latest; {CONSUME}",
    ),
    Mistake(
        "consume --include t.* --from-beginning -X auto.offset.reset=latest",
        2,
        f"odradek consume: --from-beginning: auto.offset.reset says latest; {CONSUME}",
    ),
    Mistake("consume -t there -G a -X group.id=b", 2, f"odradek consume: -G a: group.id says b; {CONSUME}"),
    Mistake(
        "consume -t there --property print.key", 2, f"odradek consume: --formatter-property print.key: this must be name=value; {CONSUME}"
    ),
    Mistake(
        "consume -t there --property print.epoch=true",
        2,
        f"odradek consume: --formatter-property print.epoch: there is no such property; there are print.timestamp, <*>; {CONSUME}",
    ),
    Mistake(
        "consume -t there --property print.key=true -J", 2, f"odradek consume: --formatter and its properties exclude -J and -f; {CONSUME}"
    ),
    Mistake(
        "consume -t there --console -K :",
        2,
        f"odradek consume: -K and -D are for kcat's lines; --formatter-property has key.separator and line.separator; {CONSUME}",
    ),
    Mistake(
        "consume -t there --key-deserializer Avro",
        2,
        f"odradek consume: key.deserializer Avro: there is no such deserializer; there are StringDeserializer, <*>; {CONSUME}",
    ),
    Mistake("consume -t there --formatter-config @/none", 1, "odradek consume: @/none: No such file or directory"),
    Mistake("consume -t there --enable-systest-events", 2, f"odradek consume: No such option '--enable-systest-events'<*>; {CONSUME}"),
    # -- produce ----------------------------------------------------------------------------------------------------------------------
    Mistake("kafka-console-producer", 2, f"odradek produce: Missing option '-t' / '--topic'; {PRODUCE}"),
    Mistake(
        "produce -t there --property parse.keys=true",
        2,
        f"odradek produce: --reader-property parse.keys: there is no such property; there are parse.key, <*>; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --property parse.key", 2, f"odradek produce: --reader-property parse.key: this must be name=value; {PRODUCE}"
    ),
    Mistake(
        "produce -t there --property null.marker=,",
        2,
        f"odradek produce: --reader-property: null.marker and headers.separator may not be equal; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --property key.separator=",
        2,
        f"odradek produce: --reader-property key.separator: this needs at least one character; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --property headers.separator=[",
        2,
        f"odradek produce: --reader-property headers.separator: this is no regular expression: <*>; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --console -K :",
        2,
        f"odradek produce: --console and --reader-property exclude -K, -k, -D, -H and -Z; its properties say the same; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --console -l @/f",
        2,
        f"odradek produce: --console and --reader-property read standard input, which excludes -l and FILE; {PRODUCE}",
    ),
    Mistake(
        "produce -t there -J -K :",
        2,
        f"odradek produce: -J reads lines of JSON, which excludes -K, -k, -D, -H, -Z, FILE, --console and --reader-property; {PRODUCE}",
    ),
    Mistake("produce -t there --timeout soon", 1, "odradek produce: <*>linger.ms<*>"),
    Mistake("produce -t there --line-reader Mine", 2, f"odradek produce: No such option '--line-reader'<*>; {PRODUCE}"),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_told(mistake: Mistake, bootstrap: str, command: Command) -> None:
    folder = "/nowhere"
    answer = command(*shlex.split(mistake.typed.replace("@", folder)), "-b", bootstrap)
    assert re.fullmatch(pattern(mistake.answer.replace("@", folder)), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
