"""As test_mistakes.py, for ranges, rates, profiles and completion."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.conftest import Command
from tests.cli.test_mistakes import SEE, Mistake, pattern

CONSUME, PRODUCE, OFFSETS = SEE.format("consume"), SEE.format("produce"), SEE.format("offsets")
MISTAKES = (
    # -- consume ----------------------------------------------------------------------------------------------------------------------
    Mistake("consume -t there -o 20:10", 2, f"odradek consume: -o 20:10: it ends before it starts; {CONSUME}"),
    Mistake("consume -t there -o 1 -o 2", 2, f"odradek consume: -o 2: another -o says already where to start; {CONSUME}"),
    Mistake("consume -t there -o stored", 2, f"odradek consume: -o stored: -G GROUP reads from where a group has committed; {CONSUME}"),
    Mistake("consume -t there -o @2h", 2, f"odradek consume: -o @2h: it starts in the future; -2h is that long ago; {CONSUME}"),
    Mistake(
        "consume -t there -o @noon",
        2,
        "odradek consume: -o @noon: a time is 2023-11-14 or 2023-11-14T22:13:20 (UTC without a zone), -2h or -1d12h, or 10 digits for "
        f"seconds since 1970, 13 for milliseconds; {CONSUME}",
    ),
    Mistake("consume -t there -G g -o :end", 2, f"odradek consume: -o :end: with -G this must be beginning or end; {CONSUME}"),
    Mistake("consume -t there -G g -o e@5", 2, f"odradek consume: -o e@5: with -G this must be beginning or end; {CONSUME}"),
    Mistake("consume --include t.* -o 1:2", 2, f"odradek consume: -o 1:2: with --include this must be beginning or end; {CONSUME}"),
    # -- kcat's modes -----------------------------------------------------------------------------------------------------------------
    Mistake("consume -C -t there", 2, f"odradek consume: No such option '-C'; `odradek consume` reads, without -C; {CONSUME}"),
    Mistake("produce -P -t there", 2, f"odradek produce: No such option '-P'; `odradek produce` writes, without -P; {PRODUCE}"),
    Mistake(
        "consume -L",
        2,
        "odradek consume: No such option '-L'; kcat's -L is `odradek topics describe`, and `odradek cluster list-endpoints` for the "
        "brokers; see `odradek consume --help`",
    ),
    Mistake(
        "-L",
        2,
        "odradek: No such option '-L'; kcat's -L is `odradek topics describe`, and `odradek cluster list-endpoints` for the brokers; "
        "see `odradek --help`",
    ),
    Mistake(
        "consume -Q -t there:0:5",
        2,
        f"odradek consume: No such option '-Q'; kcat's -Q is `odradek offsets -t TOPIC:PARTITION:MS`; {CONSUME}",
    ),
    # -- produce ----------------------------------------------------------------------------------------------------------------------
    Mistake(
        "produce -t there --rate 0", 2, f"odradek produce: Invalid value for '--rate': 0 is not in the range 0.001<=x<=1000000; {PRODUCE}"
    ),
    Mistake(
        "produce -t there --rate nan",
        2,
        f"odradek produce: Invalid value for '--rate': nan is not in the range 0.001<=x<=1000000; {PRODUCE}",
    ),
    Mistake("produce -t there --rate fast", 2, f"odradek produce: Invalid value for '--rate': 'fast' is not a valid float; {PRODUCE}"),
    Mistake("produce -t there --transaction-size 5", 2, f"odradek produce: --transaction-size needs --transactional-id ID; {PRODUCE}"),
    Mistake(
        "produce -t there --transactional-id a -X transactional.id=b",
        2,
        f"odradek produce: --transactional-id a: transactional.id says b; {PRODUCE}",
    ),
    # -- what is not there ------------------------------------------------------------------------------------------------------------
    Mistake(
        "log-dirs describe --broker-list 9",
        1,
        "odradek log-dirs: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster, which has 1; `odradek cluster list-endpoints` shows the "
        "brokers",
    ),
    Mistake(
        "configs describe --broker 9",
        1,
        "odradek configs: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster; `odradek cluster list-endpoints` shows the brokers",
    ),
    Mistake(
        "transactions find-hanging --broker-id 9",
        1,
        "odradek transactions: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster; `odradek cluster list-endpoints` shows the brokers",
    ),
    Mistake("delete-records there:0:99", 1, "odradek delete-records: there-0: OFFSET_OUT_OF_RANGE: <*>; `odradek offsets` shows the ends"),
    # -- offsets ----------------------------------------------------------------------------------------------------------------------
    Mistake("offsets -t there:7:0", 1, "odradek offsets: topic there has no partition 7"),
    Mistake(
        "offsets -t there:0:0 -t only",
        2,
        f"odradek offsets: -t there:0:0: TOPIC:PARTITION:TIME cannot be mixed with names of topics; {OFFSETS}",
    ),
    Mistake(
        "offsets -t there:0:0 --time latest",
        2,
        f"odradek offsets: -t there:0:0 names partition and time, which excludes --partitions and --time; {OFFSETS}",
    ),
    Mistake("offsets -t there:0:noon", 2, f"odradek offsets: Malformed time argument noon.<*>; {OFFSETS}"),
    Mistake(
        "offsets -t none:0:0",
        1,
        "odradek offsets: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_told(mistake: Mistake, bootstrap: str, command: Command) -> None:
    answer = command(*shlex.split(mistake.typed), "-b", bootstrap)
    assert re.fullmatch(pattern(mistake.answer), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
