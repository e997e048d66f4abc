"""Mistakes in the command lines of `odradek produce` and `odradek consume`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, check

CONSUME, PRODUCE = SEE.format("consume"), SEE.format("produce")
MISTAKES = (
    # -- produce -------------------------------------------------------------------------------------------------------------------------
    Mistake("produce", 2, f"odradek produce: Missing option '-t' / '--topic'; {SEE.format('produce')}"),
    Mistake("produce -t only -k a -K :", 2, f"odradek produce: -k cannot be used with -K; {SEE.format('produce')}"),
    Mistake("produce -t only -D ''", 2, f"odradek produce: -D and -K must not be empty; {SEE.format('produce')}"),
    Mistake("produce -t only -K ''", 2, f"odradek produce: -D and -K must not be empty; {SEE.format('produce')}"),
    Mistake("produce -t only -H =x", 2, f"odradek produce: -H =x: expected NAME=VALUE; {SEE.format('produce')}"),
    Mistake(
        "produce -t only -l @/lines @/lines",
        2,
        "odradek produce: FILE (one record per file) cannot be used with -l and -D; to read the lines of a file, use -l FILE; "
        f"{SEE.format('produce')}",
    ),
    Mistake(
        "produce -t only -z brotli",
        2,
        "odradek produce: Invalid value for '-z' / '--compression' / '--compression-codec': "
        "'brotli' is not one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'; " + SEE.format("produce"),
    ),
    Mistake("produce -t only @/none", 1, "odradek produce: @/none: No such file or directory"),
    Mistake("produce -t only @/lines @", 1, "odradek produce: @: Is a directory"),
    Mistake("produce -t only -l @/none", 1, "odradek produce: @/none: No such file or directory"),
    Mistake("produce -t only -X acks=9", 1, "odradek produce: Invalid value 9 for configuration acks: <*>"),
    Mistake(
        "produce -t only -X transactional.id=t -X acks=1",
        1,
        "odradek produce: transactional.id needs acks=all",
    ),
    Mistake(
        "produce -t there -p 2 -l @/lines",
        1,
        "odradek produce: UNKNOWN_TOPIC_OR_PARTITION: topic there has partitions 0 to 1, not 2; `odradek topics describe` shows topics "
        "and partitions",
    ),
    Mistake(
        "produce -t 'bad name' -l @/lines",
        1,
        "odradek produce: INVALID_TOPIC_EXCEPTION: topic bad name; a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-'",
    ),
    Mistake(
        "produce -t there @/big",
        1,
        "odradek produce: MESSAGE_TOO_LARGE: <*>; `odradek topics config TOPIC --set max.message.bytes=N` raises the limit of a topic",
    ),
    Mistake("kafka-console-producer", 2, f"odradek produce: Missing option '-t' / '--topic'; {PRODUCE}"),
    Mistake(
        "produce -t there --property parse.keys=true",
        2,
        f"odradek produce: --reader-property parse.keys: unknown property; the properties are parse.key, <*>; {PRODUCE}",
    ),
    Mistake("produce -t there --property parse.key", 2, f"odradek produce: --reader-property parse.key: expected NAME=VALUE; {PRODUCE}"),
    Mistake(
        "produce -t there --property null.marker=,",
        2,
        f"odradek produce: --reader-property: null.marker and headers.separator may not be equal; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --property key.separator=",
        2,
        f"odradek produce: --reader-property key.separator: expected at least one character; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --property headers.separator=[",
        2,
        f"odradek produce: --reader-property headers.separator: invalid regular expression: <*>; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --console -K :",
        2,
        "odradek produce: --console and --reader-property cannot be used with -K, -k, -D, -H and -Z; use reader properties such as "
        f"parse.key=true; {PRODUCE}",
    ),
    Mistake(
        "produce -t there --console -l @/f",
        2,
        f"odradek produce: --console and --reader-property read standard input and cannot be used with -l and FILE; {PRODUCE}",
    ),
    Mistake(
        "produce -t there -J -K :",
        2,
        "odradek produce: -J reads lines of JSON and cannot be used with -K, -k, -D, -H, -Z, FILE, --console and --reader-property; "
        f"{PRODUCE}",
    ),
    Mistake("produce -t there --timeout soon", 1, "odradek produce: <*>linger.ms<*>"),
    Mistake("produce -t there --line-reader Mine", 2, f"odradek produce: No such option '--line-reader'<*>; {PRODUCE}"),
    Mistake(
        "produce -t there --rate 0", 2, f"odradek produce: Invalid value for '--rate': 0 is not in the range 0.001<=x<=1000000; {PRODUCE}"
    ),
    Mistake(
        "produce -t there --rate nan",
        2,
        f"odradek produce: Invalid value for '--rate': nan is not in the range 0.001<=x<=1000000; {PRODUCE}",
    ),
    Mistake("produce -t there --rate fast", 2, f"odradek produce: Invalid value for '--rate': 'fast' is not a valid float; {PRODUCE}"),
    Mistake("produce -t there --transaction-size 5", 2, f"odradek produce: --transaction-size requires --transactional-id ID; {PRODUCE}"),
    Mistake(
        "produce -t there --transactional-id a -X transactional.id=b",
        2,
        f"odradek produce: --transactional-id a contradicts transactional.id=b; {PRODUCE}",
    ),
    # -- consume -------------------------------------------------------------------------------------------------------------------------
    Mistake("consume", 2, f"odradek consume: one of --topic, --include is required; {SEE.format('consume')}"),
    Mistake(
        "consume -t only -o middle",
        2,
        "odradek consume: -o middle: expected beginning, end, N, +N, -N, <*>TIME, or a range of two of them, START:END; "
        + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -o s@noon",
        2,
        "odradek consume: -o s@noon: expected a time such as 2023-11-14, 2023-11-14T22:13:20 (UTC without a zone), -2h or -1d12h, or "
        "milliseconds "
        "since 1970; " + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -o 99999999999999999999",
        2,
        "odradek consume: -o 99999999999999999999: expected beginning, end, N, +N, -N, <*>TIME, or a range of two of them, START:END; "
        + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -c 0",
        2,
        f"odradek consume: Invalid value for '-c' / '--count' / '--max-messages': 0 is not in the range x>=1; {SEE.format('consume')}",
    ),
    Mistake("consume -t only -J -f %s", 2, f"odradek consume: -J cannot be used with -f and -K; {SEE.format('consume')}"),
    Mistake("consume -t only -f %s -K :", 2, f"odradek consume: -f cannot be used with -K; use %k for the key; {SEE.format('consume')}"),
    Mistake("consume -t only -J -D ;", 2, f"odradek consume: -D cannot be used with -f and -J; {SEE.format('consume')}"),
    Mistake(
        "consume -t only -f %z",
        2,
        f"odradek consume: -f: unknown directive %z; the directives are %s %S %k %K %h %t %p %o %T; {SEE.format('consume')}",
    ),
    Mistake(
        "consume -t none",
        1,
        "odradek consume: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake("consume -t there -p 9", 1, "odradek consume: topic there has no partition 9; its partitions are 0 to 1"),
    Mistake(
        "consume -t there -G g -p 1",
        2,
        f"odradek consume: -p cannot be used with -G: the group assigns the partitions; {SEE.format('consume')}",
    ),
    Mistake(
        "consume -t there -G g -o 5", 2, f"odradek consume: -o 5: with -G the offset must be beginning or end; {SEE.format('consume')}"
    ),
    Mistake(
        "consume -t there -t none -G g",
        1,
        "odradek consume: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake("kafka-console-consumer", 2, f"odradek consume: one of --topic, --include is required; {CONSUME}"),
    Mistake("consume -t there --include t.*", 2, f"odradek consume: one of --topic, --include is required, not both; {CONSUME}"),
    Mistake("consume --include t.* -p 0", 2, f"odradek consume: --include cannot be used with -p; {CONSUME}"),
    Mistake("consume --include t[", 2, f"odradek consume: --include t[: invalid regular expression: <*>; {CONSUME}"),
    Mistake("consume --include t.* -o 5", 2, f"odradek consume: -o 5: with --include the offset must be beginning or end; {CONSUME}"),
    Mistake("consume -t there --from-beginning -o 3", 2, f"odradek consume: --from-beginning cannot be used with -o; {CONSUME}"),
    Mistake(
        "consume -t there -G a -o beginning -X auto.offset.reset=latest",
        2,
        f"odradek consume: -o beginning contradicts auto.offset.reset=latest; {CONSUME}",
    ),
    Mistake(
        "consume --include t.* --from-beginning -X auto.offset.reset=latest",
        2,
        f"odradek consume: --from-beginning contradicts auto.offset.reset=latest; {CONSUME}",
    ),
    Mistake("consume -t there -G a -X group.id=b", 2, f"odradek consume: -G a contradicts group.id=b; {CONSUME}"),
    Mistake("consume -t there --property print.key", 2, f"odradek consume: --formatter-property print.key: expected NAME=VALUE; {CONSUME}"),
    Mistake(
        "consume -t there --property print.epoch=true",
        2,
        f"odradek consume: --formatter-property print.epoch: unknown property; the properties are print.timestamp, <*>; {CONSUME}",
    ),
    Mistake(
        "consume -t there --property print.key=true -J",
        2,
        f"odradek consume: --formatter and --formatter-property cannot be used with -J and -f; {CONSUME}",
    ),
    Mistake(
        "consume -t there --console -K :",
        2,
        "odradek consume: -K and -D cannot be used with --console and --formatter; use --formatter-property key.separator=DELIM and "
        f"line.separator=DELIM; {CONSUME}",
    ),
    Mistake(
        "consume -t there --key-deserializer Avro",
        2,
        f"odradek consume: key.deserializer Avro: unknown deserializer; the deserializers are StringDeserializer, <*>; {CONSUME}",
    ),
    Mistake("consume -t there --formatter-config @/none", 1, "odradek consume: @/none: No such file or directory"),
    Mistake("consume -t there --enable-systest-events", 2, f"odradek consume: No such option '--enable-systest-events'<*>; {CONSUME}"),
    Mistake("consume -t there -o 20:10", 2, f"odradek consume: -o 20:10: the range ends before it starts; {CONSUME}"),
    Mistake("consume -t there -o 1 -o 2", 2, f"odradek consume: -o 2: another -o gives the start already; {CONSUME}"),
    Mistake(
        "consume -t there -o stored",
        2,
        f"odradek consume: -o stored: to read from the committed offsets of a group, use -G GROUP; {CONSUME}",
    ),
    Mistake(
        "consume -t there -o @2h",
        2,
        f"odradek consume: -o @2h: the range starts in the future; for a time in the past write -2h; {CONSUME}",
    ),
    Mistake(
        "consume -t there -o @noon",
        2,
        "odradek consume: -o @noon: expected a time such as 2023-11-14, 2023-11-14T22:13:20 (UTC without a zone), -2h or -1d12h, or 10 "
        f"digits (seconds since 1970) or 13 digits (milliseconds); {CONSUME}",
    ),
    Mistake("consume -t there -G g -o :end", 2, f"odradek consume: -o :end: with -G the offset must be beginning or end; {CONSUME}"),
    Mistake("consume -t there -G g -o e@5", 2, f"odradek consume: -o e@5: with -G the offset must be beginning or end; {CONSUME}"),
    Mistake("consume --include t.* -o 1:2", 2, f"odradek consume: -o 1:2: with --include the offset must be beginning or end; {CONSUME}"),
    # -- options of kcat -----------------------------------------------------------------------------------------------------------------
    Mistake("consume -C -t there", 2, f"odradek consume: No such option '-C'; to read records use `odradek consume` without -C; {CONSUME}"),
    Mistake(
        "produce -P -t there", 2, f"odradek produce: No such option '-P'; to write records use `odradek produce` without -P; {PRODUCE}"
    ),
    Mistake(
        "consume -L",
        2,
        "odradek consume: No such option '-L'; instead of kcat's -L use `odradek topics describe`, and `odradek cluster list-endpoints` "
        "for the "
        "brokers; see `odradek consume --help`",
    ),
    Mistake(
        "-L",
        2,
        "odradek: No such option '-L'; instead of kcat's -L use `odradek topics describe`, and `odradek cluster list-endpoints` for the "
        "brokers; "
        "see `odradek --help`",
    ),
    Mistake(
        "consume -Q -t there:0:5",
        2,
        f"odradek consume: No such option '-Q'; instead of kcat's -Q use `odradek offsets -t TOPIC:PARTITION:MS`; {CONSUME}",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_reported_in_one_line(
    mistake: Mistake, tmp_path: Path, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    (tmp_path / "lines").write_bytes(b"k:v\n")
    (tmp_path / "big").write_bytes(b"x" * 2_000_000)
    check(mistake, command, tmp_path)


def test_each_command_line_is_listed_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
