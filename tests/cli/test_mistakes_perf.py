"""As test_mistakes.py, for what measures and verifies."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, pattern

PRODUCE, CONSUME, LATENCY = (SEE.format(f"perf {each}") for each in ("produce", "consume", "latency"))
VERIFIABLE = SEE.format("verifiable {}")
SCRIPT = "kafka-producer-perf-test.sh --topic there --num-records 9"
MISTAKES = (
    # -- perf produce -----------------------------------------------------------------------------------------------------------------
    Mistake("perf", 2, "Usage: odradek perf [OPTIONS] COMMAND [ARGS]...<*>"),
    Mistake("perf write", 2, f"odradek perf: No such command 'write'; {SEE.format('perf')}"),
    Mistake("kafka-producer-perf-test", 2, f"odradek perf: Missing option '-t' / '--topic'; {PRODUCE}"),
    Mistake(f"{SCRIPT}", 2, f"odradek perf: one of --record-size, --payload-file, --payload-monotonic is required; {PRODUCE}"),
    Mistake(
        f"{SCRIPT} --record-size 1 --payload-monotonic",
        2,
        f"odradek perf: --record-size cannot be used with --payload-monotonic; {PRODUCE}",
    ),
    Mistake(f"{SCRIPT} --record-size 0", 2, f"odradek perf: Invalid value for '--record-size': 0 is not in the range x>=1; {PRODUCE}"),
    Mistake(
        "perf produce -t there -n 0 --record-size 1",
        2,
        f"odradek perf: Invalid value for '-n' / '--num-records': 0 is not in the range x>=1; {PRODUCE}",
    ),
    Mistake(
        f"{SCRIPT} --record-size 1 --throughput 0",
        2,
        f"odradek perf: --throughput 0: must be greater than 0, or -1 for no limit; {PRODUCE}",
    ),
    Mistake(
        f"{SCRIPT} --record-size 1 --throughput nan",
        2,
        f"odradek perf: --throughput nan: must be greater than 0, or -1 for no limit; {PRODUCE}",
    ),
    Mistake(
        f"{SCRIPT} --record-size 1 --warmup-records 9",
        2,
        f"odradek perf: --warmup-records 9: must be less than --num-records 9; {PRODUCE}",
    ),
    Mistake(
        f"{SCRIPT} --record-size 1 --transaction-duration-ms 0",
        2,
        f"odradek perf: Invalid value for '--transaction-duration-ms': 0 is not in the range x>=1; {PRODUCE}",
    ),
    Mistake(f"{SCRIPT} --payload-file @/none", 1, "odradek perf: @/none: No such file or directory"),
    Mistake(f"{SCRIPT} --payload-file @/empty", 1, "odradek perf: @/empty: the file contains no values; expected one value on each line"),
    Mistake(f"{SCRIPT} --payload-file @/latin", 1, "odradek perf: @/latin: not valid UTF-8: <*>"),
    Mistake(
        f"{SCRIPT} --payload-file @/lines --payload-delimiter [",
        2,
        f"odradek perf: --payload-delimiter [: invalid regular expression: <*>; {PRODUCE}",
    ),
    Mistake(f"{SCRIPT} --record-size 1 --producer-props acks", 2, f"odradek perf: -X acks: expected KEY=VALUE; {PRODUCE}"),
    Mistake(f"{SCRIPT} --record-size 1 --producer-props linger.ms=5 acks=2", 1, "odradek perf: <*>acks<*>"),
    Mistake(f"{SCRIPT} --record-size 1 --command-config @/none", 1, "odradek perf: @/none: No such file or directory"),
    Mistake("perf produce -t in/valid -n 1 --record-size 1", 1, "odradek perf: INVALID_TOPIC_EXCEPTION: <*>"),
    Mistake(
        "perf produce -t there -n 1 --record-size 2000000",
        1,
        "odradek perf: MESSAGE_TOO_LARGE: a record of <*> exceeds max.request.size<*>",
    ),
    # -- perf consume -----------------------------------------------------------------------------------------------------------------
    Mistake(
        "kafka-consumer-perf-test.sh --topic there", 2, f"odradek perf: Missing option '-n' / '--num-records' / '--messages'; {CONSUME}"
    ),
    Mistake("perf consume -n 1", 2, f"odradek perf: one of --topic, --include is required; {CONSUME}"),
    Mistake("perf consume -n 1 -t there --include t.*", 2, f"odradek perf: --topic cannot be used with --include; {CONSUME}"),
    Mistake("perf consume -n 1 --include t[", 2, f"odradek perf: --include t[: invalid regular expression: <*>; {CONSUME}"),
    Mistake("perf consume -n 1 -t there --hide-header", 2, f"odradek perf: --hide-header requires -o kafka; {CONSUME}"),
    Mistake(
        "perf consume -n 1 -t there --date-format yQ",
        2,
        f"odradek perf: --date-format yQ: unknown letter Q; the letters are yMdDEHkKhmsSauZX; put text between quotes ('); {CONSUME}",
    ),
    Mistake(
        "perf consume -n 1 -t there --reporting-interval 0",
        2,
        f"odradek perf: Invalid value for '--reporting-interval': 0 is not in the range x>=1; {CONSUME}",
    ),
    Mistake("perf consume -n 1 -t nowhere", 1, "odradek perf: UNKNOWN_TOPIC_OR_PARTITION: <*>"),
    Mistake("perf consume -n 1 -t there -X max.poll.records=many", 1, "odradek perf: <*>max.poll.records<*>"),
    # -- perf latency -----------------------------------------------------------------------------------------------------------------
    Mistake("kafka-e2e-latency.sh", 2, f"odradek perf: Missing option '-t' / '--topic'; {LATENCY}"),
    Mistake("kafka-e2e-latency.sh h:1 there 5", 2, f"odradek perf: Missing option '-t' / '--topic'; {LATENCY}"),
    Mistake(
        "perf latency -t there -n 1 --record-size 1 --producer-acks 0",
        2,
        f"odradek perf: Invalid value for '--producer-acks': '0' is not one of '1', 'all'; {LATENCY}",
    ),
    Mistake(
        "perf latency -t there -n 1 --record-size 1 --record-header-size -2",
        2,
        f"odradek perf: Invalid value for '--record-header-size': -2 is not in the range x>=-1; {LATENCY}",
    ),
    # -- verifiable -------------------------------------------------------------------------------------------------------------------
    Mistake("kafka-verifiable-producer.sh", 2, f"odradek verifiable: Missing option '-t' / '--topic'; {VERIFIABLE.format('produce')}"),
    Mistake(
        "kafka-verifiable-producer.sh --topic there --throughput 0",
        2,
        f"odradek verifiable: --throughput 0: must be greater than 0, or -1 for no limit; {VERIFIABLE.format('produce')}",
    ),
    Mistake(
        "kafka-verifiable-producer.sh --topic there --acks all",
        2,
        f"odradek verifiable: Invalid value for '--acks': 'all' is not one of '0', '1', '-1'; {VERIFIABLE.format('produce')}",
    ),
    Mistake(
        "verifiable produce -t there --repeating-keys 0",
        2,
        f"odradek verifiable: Invalid value for '--repeating-keys': 0 is not in the range x>=1; {VERIFIABLE.format('produce')}",
    ),
    Mistake("verifiable produce -t there --producer.config @/none", 1, "odradek verifiable: @/none: No such file or directory"),
    Mistake("verifiable produce -t there -X linger.ms=soon", 1, "odradek verifiable: <*>linger.ms<*>"),
    Mistake(
        "kafka-verifiable-consumer.sh --topic there",
        2,
        f"odradek verifiable: Missing option '-G' / '--group-id'; {VERIFIABLE.format('consume')}",
    ),
    Mistake(
        "verifiable consume -t there -G g --group-remote-assignor range",
        2,
        f"odradek verifiable: --group-remote-assignor requires --group-protocol consumer; {VERIFIABLE.format('consume')}",
    ),
    Mistake(
        "verifiable consume -t there -G g --group-protocol consumer --assignment-strategy range",
        2,
        f"odradek verifiable: --assignment-strategy requires --group-protocol classic; {VERIFIABLE.format('consume')}",
    ),
    Mistake(
        "verifiable consume -t there -G g --group-protocol consumer --session-timeout 9",
        2,
        f"odradek verifiable: --session-timeout requires --group-protocol classic; {VERIFIABLE.format('consume')}",
    ),
    Mistake("verifiable consume -t there -G g --assignment-strategy mine", 1, "odradek verifiable: <*>partition.assignment.strategy<*>"),
)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, content in {"empty": b"", "latin": b"caf\xe9", "lines": b"a\nb\n"}.items():
        (tmp_path / name).write_bytes(content)
    return str(tmp_path)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_told(mistake: Mistake, folder: str, bootstrap: str, command: Command) -> None:
    words = shlex.split(mistake.typed.replace("@", folder))
    answer = command(*words, *(["-b", bootstrap] if len(words) > 1 or words[0].startswith("kafka") else []))
    assert re.fullmatch(pattern(mistake.answer.replace("@", folder)), answer.err, re.DOTALL), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
