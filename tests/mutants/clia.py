"""Bugs of the commands groups, offsets, configs, transactions, client-metrics, acls and delegation-tokens."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- groups -------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "reset-with-members",
        "cli/group_offsets.py",
        "if found.state in _INACTIVE:",
        "if found.state in (*_INACTIVE, GroupState.STABLE):",
        "Offsets of a group with members are left alone, in Kafka's words.",
        "cli/test_groups.py -k members",
    ),
    Mutant(
        "reset-without-being-told",
        "cli/group_offsets.py",
        "if execute and plan.offsets:",
        "if plan.offsets:",
        "Offsets move only with --execute.",
        "cli/test_groups.py -k where",
    ),
    Mutant(
        "reset-beyond-the-end",
        "cli/group_offsets.py",
        "min(max(offset, first[partition]), last[partition])",
        "max(offset, first[partition])",
        "An offset beyond the end becomes the end.",
        "cli/test_groups.py",
    ),
    Mutant(
        "reset-before-the-start",
        "cli/group_offsets.py",
        "min(max(offset, first[partition]), last[partition])",
        "min(offset, last[partition])",
        "An offset before the first record becomes that of the first.",
        "cli/test_groups.py",
    ),
    Mutant(
        "reset-to-nowhere",
        "cli/group_offsets.py",
        "found | _offsets(admin, late, OffsetSpec.LATEST)",
        "found",
        "Without a record of that time the end is taken, not -1.",
        "cli/test_groups.py -k where",
    ),
    Mutant(
        "duration-from-now-on",
        "cli/group_offsets.py",
        "1_000_000 - duration_ms(by_duration)",
        "1_000_000 + duration_ms(by_duration)",
        "--by-duration goes back.",
        "cli/test_groups.py -k where",
    ),
    Mutant(
        "plan-of-the-first-group",
        "cli/group_offsets.py",
        "cells if len(cells) == 4 else (groups[0], *cells)",
        "(groups[0], *cells[-3:])",
        "A line of a plan is for the group that it names.",
        "cli/test_groups.py -k 'plan or exported'",
    ),
    Mutant(
        "delete-offsets-at-once",
        "cli/group_offsets.py",
        "if execute and wanted:",
        "if wanted:",
        "Offsets are deleted only with --execute.",
        "cli/test_groups.py -k deleted",
    ),
    Mutant(
        "delete-groups-at-once",
        "cli/groups.py",
        "        if execute:\n",
        "        if True:\n",
        "Groups are deleted only with --execute.",
        "cli/test_groups.py -k deleted",
    ),
    Mutant(
        "missing-groups-are-fine",
        "cli/groups.py",
        "return 1 if found.errors else 0",
        "return 0",
        "A group that is not there makes the exit status 1.",
        "cli/test_groups.py -k named",
    ),
    Mutant(
        "only-with-lag-shows-all",
        "cli/groups.py",
        'rows = [row for row in rows if row["lag"]]',
        'rows = [row for row in rows if row["lag"] is not None]',
        "--only-with-lag leaves out what is at its end.",
        "cli/test_groups.py -k lag",
    ),
    Mutant(
        "idle-members-are-hidden",
        "cli/group_report.py",
        "if not member.assignment]",
        "if member.assignment and not group.members]",
        "A member without partitions is shown.",
        "cli/test_groups.py -k without",
    ),
    Mutant(
        "partitions-of-members-without-offset-are-hidden",
        "cli/group_report.py",
        "sorted({*owners, *committed})",
        "sorted({*committed})",
        "A partition that a member reads is shown before its first commit.",
        "cli/test_groups.py -k with_them",
    ),
    # -- offsets ------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "upper-bound-is-included",
        "cli/offsets.py",
        "int(end) if end else None",
        "int(end) + 1 if end else None",
        "The upper bound of t:0-3 is exclusive, as Kafka's.",
        "cli/test_offsets.py -k partitions",
    ),
    Mutant(
        "a-part-of-the-name-matches",
        "cli/offsets.py",
        "re.compile(text).fullmatch",
        "re.compile(text).match",
        "A pattern is for whole names.",
        "cli/test_offsets.py -k partitions",
    ),
    Mutant(
        "own-topics-only-by-default",
        "cli/offsets.py",
        "internal=not only_own",
        "internal=only_own",
        "Kafka's own topics are left out only when asked for.",
        "cli/test_offsets.py -k partitions",
    ),
    Mutant(
        "times-of-this-machine",
        "cli/moments.py",
        "moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)",
        "moment.replace(tzinfo=UTC)",
        "A time with a zone is that of its zone.",
        "cli/test_moments.py",
    ),
)
