"""As test_mistakes.py, for groups, offsets, configurations, transactions and what security needs."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.conftest import Command
from tests.cli.test_mistakes import SEE, Mistake, pattern

MISTAKES = (
    # -- groups -----------------------------------------------------------------------------------------------------------------------
    Mistake("groups shake", 2, f"odradek groups: No such command 'shake'; {SEE.format('groups')}"),
    Mistake("groups describe", 2, f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups describe')}"),
    Mistake("groups describe g --all-groups", 2, f"odradek groups: GROUP excludes --all-groups; {SEE.format('groups describe')}"),
    Mistake("groups describe g --members --state", 2, f"odradek groups: --members excludes --state; {SEE.format('groups describe')}"),
    Mistake(
        "groups describe g --members --only-with-lag",
        2,
        f"odradek groups: --only-with-lag is for offsets, not for --members; {SEE.format('groups describe')}",
    ),
    Mistake("groups describe ''", 2, f"odradek groups: --group: this must not be empty; {SEE.format('groups describe')}"),
    Mistake("groups describe none", 1, "odradek groups: Consumer group 'none' does not exist; `odradek groups list` shows all"),
    Mistake(
        "groups list --state stable,nonsense",
        2,
        "odradek groups: Invalid states list 'stable,nonsense'. Valid states are: PreparingRebalance, CompletingRebalance, Stable, Dead, "
        f"Empty, Assigning, Reconciling, NotReady; {SEE.format('groups list')}",
    ),
    Mistake(
        "groups list --type nonsense",
        2,
        "odradek groups: Invalid types list 'nonsense'. Valid types are: Consumer, Classic, Share, Streams; " + SEE.format("groups list"),
    ),
    Mistake("groups list --consumer --share", 2, f"odradek groups: --consumer excludes --share; {SEE.format('groups list')}"),
    Mistake("groups delete", 2, f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups delete')}"),
    Mistake("groups delete none", 1, "odradek groups: none: GROUP_ID_NOT_FOUND: Group none not found."),
    Mistake("groups delete none --execute", 1, "odradek groups: none: GROUP_ID_NOT_FOUND<*>"),
    Mistake("groups delete-offsets g", 2, f"odradek groups: Missing option '--topic'; {SEE.format('groups delete-offsets')}"),
    Mistake(
        "groups delete-offsets g h --topic t", 2, f"odradek groups: one GROUP at a time, not g and h; {SEE.format('groups delete-offsets')}"
    ),
    Mistake("groups delete-offsets none --topic t", 1, "odradek groups: GROUP_ID_NOT_FOUND: Group none not found."),
    Mistake(
        "groups delete-offsets g --topic t:0,x",
        2,
        f"odradek groups: --topic t:0,x: this must be TOPIC or TOPIC:N,N; {SEE.format('groups delete-offsets')}",
    ),
    Mistake(
        "groups reset-offsets --to-latest --topic t",
        2,
        f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t",
        2,
        "odradek groups: one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, "
        f"--from-file is needed; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t --to-latest --shift-by 1",
        2,
        f"odradek groups: --to-latest excludes --shift-by; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest",
        2,
        "odradek groups: One of the reset scopes should be defined: --all-topics, --topic; " + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --all-topics",
        2,
        f"odradek groups: --topic excludes --all-topics; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-datetime yesterday --topic t",
        2,
        "odradek groups: --to-datetime yesterday: this must be a time such as 2023-11-14T22:13:20.000, or with a zone, "
        f"2023-11-14T22:13:20+01:00; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --by-duration 1h --topic t",
        2,
        "odradek groups: --by-duration 1h: this must be a duration such as P7D, PT12H or P1DT2H3M4.5S; "
        + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --export -J",
        2,
        f"odradek groups: --export excludes -o json: it prints CSV; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic none", 1, "odradek groups: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist<*>"
    ),
    Mistake("groups reset-offsets g --to-latest --topic there:0,2", 1, "odradek groups: topic there has partitions 0 to 1, not 2"),
    Mistake("groups reset-offsets g --from-file /none.csv", 1, "odradek groups: /none.csv: No such file or directory"),
    Mistake("groups validate-regex 'a('", 1, "odradek groups: The regular expression is invalid: 'a(' is no valid pattern: missing ): a("),
    Mistake("groups validate-regex", 2, f"odradek groups: Missing argument 'PATTERN'; {SEE.format('groups validate-regex')}"),
    # -- offsets ----------------------------------------------------------------------------------------------------------------------
    Mistake(
        "offsets --topic-partitions a:0 --topic a",
        2,
        f"odradek offsets: --topic-partitions cannot be used with --topic or --partitions; {SEE.format('offsets')}",
    ),
    Mistake(
        "offsets --topic-partitions a:x",
        2,
        f"odradek offsets: --topic-partitions: Invalid rule specification: a:x; {SEE.format('offsets')}",
    ),
    Mistake(
        "offsets --partitions 0,x",
        2,
        "odradek offsets: --partitions expects a comma separated list of numeric partition ids, but received: 0,x; "
        + SEE.format("offsets"),
    ),
    Mistake("offsets --topic 'a('", 2, f"odradek offsets: --topic a(: this is no regular expression: <*>; {SEE.format('offsets')}"),
    Mistake("offsets --time -7", 2, f"odradek offsets: Malformed time argument -7. It must be one of <*>; {SEE.format('offsets')}"),
    Mistake(
        "offsets --topic none",
        1,
        "odradek offsets: Could not match any topic-partitions with the specified filters; `odradek topics list` shows what there is",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_answered_in_one_line(mistake: Mistake, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    answer = command(*shlex.split(mistake.typed))
    assert re.fullmatch(pattern(mistake.answer), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
