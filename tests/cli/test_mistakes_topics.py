"""Mistakes in the command lines of `odradek topics` and `odradek features`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, check

TOPICS = "`odradek topics describe` shows topics and partitions"

MISTAKES = (
    # -- topics --------------------------------------------------------------------------------------------------------------------------
    Mistake("topics frob", 2, f"odradek topics: No such command 'frob'; {SEE.format('topics')}"),
    Mistake("topics create", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics create')}"),
    Mistake(
        "topics create new -p none",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 'none' is not a valid integer range; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new -p 0",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 0 is not in the range x>=1; {SEE.format('topics create')}",
    ),
    Mistake("topics create new -c x", 2, f"odradek topics: --config x: expected KEY=VALUE; {SEE.format('topics create')}"),
    Mistake("topics list there", 2, f"odradek topics: Got unexpected extra argument (there); {SEE.format('topics list')}"),
    Mistake("topics list -X x", 2, f"odradek topics: -X x: expected KEY=VALUE; {SEE.format('topics list')}"),
    Mistake("topics list -X no.such.key=1", 1, "odradek topics: Unknown configuration key no.such.key"),
    Mistake(
        "topics list -X retry.backoff.ms=often",
        1,
        "odradek topics: Invalid value often for configuration retry.backoff.ms: Not a number of type LONG",
    ),
    Mistake(
        "topics list -b localhost",
        2,
        "odradek topics: Invalid value for '-b' / '--bootstrap-server' (env var: 'ODRADEK_BOOTSTRAP_SERVER'): "
        f"'localhost' is not HOST:PORT[,...]; {SEE.format('topics list')}",
    ),
    Mistake(
        "topics create there",
        1,
        "odradek topics: there: TOPIC_ALREADY_EXISTS: Topic 'there' already exists; with --if-not-exists this is not an error",
    ),
    Mistake(
        "topics create 'bad name'",
        1,
        "odradek topics: bad name: INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'bad name' contains one or more characters other than "
        "ASCII alphanumerics, '.', '_' and '-'",
    ),
    Mistake(
        "topics create dotted_name",
        1,
        "odradek topics: dotted_name: INVALID_TOPIC_EXCEPTION: Topic 'dotted_name' collides with existing topic: dotted.name",
    ),
    Mistake(
        "topics create new -r 3",
        1,
        "odradek topics: new: INVALID_REPLICATION_FACTOR: Unable to replicate the partition 3 time(s): <*> only 1 broker(s) are "
        "registered <*>",
    ),
    Mistake(
        "topics create new -c no.such.key=1",
        1,
        "odradek topics: new: INVALID_CONFIG: Unknown topic config name: no.such.key; `odradek topics config TOPIC --all` shows keys and "
        "values",
    ),
    Mistake(
        "topics describe none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake(
        "topics describe 'bad name'",
        1,
        "odradek topics: INVALID_TOPIC_EXCEPTION: topic bad name; a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-'",
    ),
    Mistake("topics config", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics config')}"),
    Mistake("topics config there -s x", 2, f"odradek topics: --set x: expected KEY=VALUE; {SEE.format('topics config')}"),
    Mistake(
        "topics config none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake(
        "topics config there -s retention.ms=soon",
        1,
        "odradek topics: INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG; "
        "`odradek topics config TOPIC --all` shows keys and values",
    ),
    Mistake(
        "topics config there -d no.such.key",
        1,
        "odradek topics: INVALID_CONFIG: Unknown topic config name: no.such.key; `odradek topics config TOPIC --all` shows keys and values",
    ),
    Mistake(
        "topics delete none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake("topics alter there", 2, f"odradek topics: Missing option '-p' / '--partitions'; {SEE.format('topics alter')}"),
    Mistake("topics alter -p 3", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics alter')}"),
    Mistake(
        "topics alter there -p 0",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 0 is not in the range x>=1; {SEE.format('topics alter')}",
    ),
    Mistake(
        "topics alter there -p 1", 1, "odradek topics: there: INVALID_PARTITIONS: The topic there currently has 2 partition(s); 1 would <*>"
    ),
    Mistake("topics alter none -p 9", 1, f"odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"),
    Mistake(
        "topics alter --topic none -p 9",
        1,
        f"odradek topics: UNKNOWN_TOPIC_OR_PARTITION: Topic 'none' does not exist as expected; {TOPICS}",
    ),
    Mistake(
        "topics alter there -p 3 --config a=b",
        2,
        f"odradek topics: No such option '--config'<*> {SEE.format('topics alter').capitalize()}",
    ),
    Mistake(
        "topics create new -p 2 --replica-assignment 1,1",
        2,
        f"odradek topics: --replica-assignment cannot be used with --partitions; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new -r 1 --replica-assignment 1,1",
        2,
        f"odradek topics: --replica-assignment cannot be used with --replication-factor; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new --replica-assignment 1:x",
        2,
        "odradek topics: --replica-assignment 1:x: expected ID:ID,ID:ID, the brokers of each partition; " + SEE.format("topics create"),
    ),
    Mistake("topics create new --replica-assignment 9", 1, "odradek topics: new: INVALID_REPLICA_ASSIGNMENT: <*>"),
    Mistake("topics list --topic '('", 2, f"odradek topics: --topic (: invalid regular expression: <*>; {SEE.format('topics list')}"),
    Mistake("topics list --topic ''", 2, f"odradek topics: --topic: expected a value, not an empty one; {SEE.format('topics list')}"),
    Mistake(
        "topics describe --topic-id x",
        2,
        f"odradek topics: --topic-id x: expected an id of 22 characters, as `describe` shows it; {SEE.format('topics describe')}",
    ),
    Mistake(
        "topics describe there --topic-id AAAAAAAAAAAAAAAAAAAAAQ",
        2,
        f"odradek topics: --topic-id cannot be used with TOPIC; {SEE.format('topics describe')}",
    ),
    Mistake("topics describe --if-exists", 2, f"odradek topics: --topic or --topic-id is required to <*>; {SEE.format('topics describe')}"),
    Mistake(
        "topics describe --under-replicated-partitions --topics-with-overrides",
        2,
        f"odradek topics: --under-replicated-partitions cannot be used with --topics-with-overrides; {SEE.format('topics describe')}",
    ),
    # -- features ------------------------------------------------------------------------------------------------------------------------
    Mistake("features upgrade", 2, f"odradek features: You must specify at least one feature to upgrade; {SEE.format('features upgrade')}"),
    Mistake(
        "features upgrade group.version",
        2,
        f"odradek features: group.version: expected NAME=LEVEL, with a level from 0 to 32767; {SEE.format('features upgrade')}",
    ),
    Mistake("features upgrade a=1 a=2", 2, f"odradek features: a is given twice; {SEE.format('features upgrade')}"),
    Mistake(
        "features upgrade none.version=1",
        1,
        "odradek features: INVALID_UPDATE_VERSION: <*> feature none.version. <*>; `odradek features describe` shows the supported levels",
    ),
    Mistake(
        "features downgrade transaction.version=9",
        1,
        "odradek features: INVALID_UPDATE_VERSION: <*> Controller 1 only supports levels 0-2; `odradek features describe` shows the "
        "supported levels",
    ),
    Mistake("features disable", 2, f"odradek features: You must specify at least one feature to disable; {SEE.format('features disable')}"),
    Mistake("features downgrade", 2, f"odradek features: You must specify at least one feature to <*>; {SEE.format('features downgrade')}"),
    Mistake("features disable a a", 2, f"odradek features: a is given twice; {SEE.format('features disable')}"),
    Mistake(
        "features upgrade --release-version 4.3 --feature a=1",
        2,
        f"odradek features: Can not specify --release-version with other features; {SEE.format('features upgrade')}",
    ),
    Mistake(
        "features upgrade --metadata 4.3 metadata.version=3",
        2,
        f"odradek features: metadata.version is given twice; {SEE.format('features upgrade')}",
    ),
    Mistake("features upgrade --metadata 9.9", 1, "odradek features: Unknown metadata.version '9.9'; the releases are 3.3-IV3 to <*>"),
    Mistake(
        "features feature-dependencies",
        2,
        f"odradek features: Missing option '-f' / '--feature'; {SEE.format('features feature-dependencies')}",
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
