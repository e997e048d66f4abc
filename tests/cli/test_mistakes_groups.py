"""Mistakes in the command lines of `odradek groups`, `odradek offsets` and `odradek transactions`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, check

OFFSETS = SEE.format("offsets")

MISTAKES = (
    # -- groups --------------------------------------------------------------------------------------------------------------------------
    Mistake("groups shake", 2, f"odradek groups: No such command 'shake'; {SEE.format('groups')}"),
    Mistake("groups describe", 2, f"odradek groups: one of GROUP, --all-groups is required; {SEE.format('groups describe')}"),
    Mistake(
        "groups describe g --all-groups", 2, f"odradek groups: GROUP cannot be used with --all-groups; {SEE.format('groups describe')}"
    ),
    Mistake(
        "groups describe g --members --state", 2, f"odradek groups: --members cannot be used with --state; {SEE.format('groups describe')}"
    ),
    Mistake(
        "groups describe g --members --only-with-lag",
        2,
        f"odradek groups: --only-with-lag cannot be used with --members; {SEE.format('groups describe')}",
    ),
    Mistake("groups describe ''", 2, f"odradek groups: --group: expected a value, not an empty one; {SEE.format('groups describe')}"),
    Mistake("groups describe none", 1, "odradek groups: Consumer group 'none' does not exist; `odradek groups list` shows all groups"),
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
    Mistake("groups list --consumer --share", 2, f"odradek groups: --consumer cannot be used with --share; {SEE.format('groups list')}"),
    Mistake("groups delete", 2, f"odradek groups: one of GROUP, --all-groups is required; {SEE.format('groups delete')}"),
    Mistake("groups delete none", 1, "odradek groups: none: GROUP_ID_NOT_FOUND: Group none not found; <*>"),
    Mistake("groups delete none --execute", 1, "odradek groups: none: GROUP_ID_NOT_FOUND<*>"),
    Mistake("groups delete-offsets g", 2, f"odradek groups: Missing option '--topic'; {SEE.format('groups delete-offsets')}"),
    Mistake(
        "groups delete-offsets g h --topic t", 2, f"odradek groups: give only one GROUP, not g and h; {SEE.format('groups delete-offsets')}"
    ),
    Mistake(
        "groups delete-offsets none --topic t",
        1,
        "odradek groups: GROUP_ID_NOT_FOUND: Group none not found; <*>",
    ),
    Mistake(
        "groups delete-offsets g --topic t:0,x",
        2,
        f"odradek groups: --topic t:0,x: expected TOPIC or TOPIC:N,N; {SEE.format('groups delete-offsets')}",
    ),
    Mistake(
        "groups reset-offsets --to-latest --topic t",
        2,
        f"odradek groups: one of GROUP, --all-groups is required; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t",
        2,
        "odradek groups: one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, "
        f"--from-file is required; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t --to-latest --shift-by 1",
        2,
        f"odradek groups: --to-latest cannot be used with --shift-by; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest",
        2,
        "odradek groups: One of the reset scopes should be defined: --all-topics, --topic; " + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --all-topics",
        2,
        f"odradek groups: --topic cannot be used with --all-topics; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-datetime yesterday --topic t",
        2,
        "odradek groups: --to-datetime yesterday: expected a time such as 2023-11-14T22:13:20.000, or with a zone, "
        f"2023-11-14T22:13:20+01:00; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --by-duration 1h --topic t",
        2,
        "odradek groups: --by-duration 1h: expected a duration such as P7D, PT12H or P1DT2H3M4.5S; " + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --export -J",
        2,
        f"odradek groups: --export prints CSV and cannot be used with -o json; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic none", 1, "odradek groups: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist<*>"
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic there:0,2",
        1,
        "odradek groups: topic there has no partition 2; its partitions are 0 to 1",
    ),
    Mistake("groups reset-offsets g --from-file /none.csv", 1, "odradek groups: /none.csv: No such file or directory"),
    Mistake(
        "groups validate-regex 'a('", 1, "odradek groups: The regular expression is invalid: 'a(' is not a valid pattern: missing ): a("
    ),
    Mistake("groups validate-regex", 2, f"odradek groups: Missing argument 'PATTERN'; {SEE.format('groups validate-regex')}"),
    # -- transactions --------------------------------------------------------------------------------------------------------------------
    Mistake(
        "transactions find-hanging",
        2,
        "odradek transactions: find-hanging requires either --topic or --broker-id to limit the scope of the search; "
        + SEE.format("transactions find-hanging"),
    ),
    Mistake(
        "transactions find-hanging --broker-id 1 --partition 0",
        2,
        f"odradek transactions: The --partition argument requires --topic to be provided; {SEE.format('transactions find-hanging')}",
    ),
    Mistake(
        "transactions describe-producers --topic there --partition 7",
        1,
        "odradek transactions: topic there has no partition 7; its partitions are 0 to 1",
    ),
    Mistake("transactions describe-producers --topic none --partition 0", 1, "odradek transactions: UNKNOWN_TOPIC_OR_PARTITION<*>"),
    Mistake(
        "transactions abort --topic there --partition 0",
        2,
        "odradek transactions: The transaction to abort must be identified either with --start-offset, or with --producer-id, "
        f"--producer-epoch and --coordinator-epoch; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --producer-id 1 --producer-epoch 0",
        2,
        f"odradek transactions: Missing required argument --coordinator-epoch; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --start-offset 0 --producer-id 1",
        2,
        f"odradek transactions: --start-offset cannot be used with --producer-id; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --start-offset 3 --execute",
        1,
        "odradek transactions: Could not find any open transactions starting at offset 3 on partition there-0; `odradek transactions "
        "describe-producers --topic there --partition 0` shows the open transactions",
    ),
    Mistake(
        "transactions force-terminate a b",
        2,
        f"odradek transactions: give only one TRANSACTIONAL-ID, not a and b; {SEE.format('transactions force-terminate')}",
    ),
    # -- offsets -------------------------------------------------------------------------------------------------------------------------
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
    Mistake("offsets --topic 'a('", 2, f"odradek offsets: --topic a(: invalid regular expression: <*>; {SEE.format('offsets')}"),
    Mistake("offsets --time -7", 2, f"odradek offsets: Malformed time argument -7. It must be one of <*>; {SEE.format('offsets')}"),
    Mistake(
        "offsets --topic none",
        1,
        "odradek offsets: Could not match any topic-partitions with the specified filters; `odradek topics list` shows all topics",
    ),
    Mistake("offsets -t there:7:0", 1, "odradek offsets: topic there has no partition 7"),
    Mistake(
        "offsets -t there:0:0 -t only",
        2,
        f"odradek offsets: -t there:0:0: TOPIC:PARTITION:TIME cannot be mixed with names of topics; {OFFSETS}",
    ),
    Mistake(
        "offsets -t there:0:0 --time latest",
        2,
        f"odradek offsets: -t there:0:0 names a partition and a time, and cannot be used with --partitions and --time; {OFFSETS}",
    ),
    Mistake("offsets -t there:0:noon", 2, f"odradek offsets: Malformed time argument noon.<*>; {OFFSETS}"),
    Mistake(
        "offsets -t none:0:0",
        1,
        "odradek offsets: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_reported_in_one_line(
    mistake: Mistake, tmp_path: Path, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    check(mistake, command, tmp_path)


def test_each_command_line_is_listed_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
