"""Command lines as Kafka's own scripts take them.

Kafka's scripts name what is to be done by a flag (`kafka-topics.sh --create --topic orders`), ours by a word (`odradek topics create
orders`). Both are understood, and so are the names of the scripts (`odradek kafka-topics --create ...`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCRIPTS: dict[str, str] = {
    "kafka-topics": "topics",
    "kafka-delete-records": "delete-records",
    "kafka-log-dirs": "log-dirs",
    "kafka-dump-log": "dump-log",
    "kafka-features": "features",
    "kafka-storage": "storage",
    "kafka-server-start": "start",
    "kafka-cluster": "cluster",
    "kafka-metadata-quorum": "quorum",
    "kafka-broker-api-versions": "api-versions",
    "kafka-leader-election": "elections",
    "kafka-reassign-partitions": "reassign",
    "kafka-groups": "groups",
    "kafka-consumer-groups": "groups",
    "kafka-get-offsets": "offsets",
    "kafka-configs": "configs",
    "kafka-transactions": "transactions",
    "kafka-client-metrics": "client-metrics",
    "kafka-acls": "acls",
    "kafka-delegation-tokens": "delegation-tokens",
    "kafka-console-consumer": "consume",
    "kafka-console-producer": "produce",
    "kafka-producer-perf-test": "perf",
    "kafka-consumer-perf-test": "perf",
    "kafka-e2e-latency": "perf",
    "kafka-streams-application-reset": "groups",
    "kafka-verifiable-producer": "verifiable",
    "kafka-verifiable-consumer": "verifiable",
}
"""A script of Kafka's, without its ending -> the command that does its work."""

_FIRST_WORDS: dict[str, list[str]] = {
    "kafka-console-consumer": ["--console"],
    "kafka-console-producer": ["--console"],
    "kafka-producer-perf-test": ["produce", "-o", "kafka"],
    "kafka-consumer-perf-test": ["consume", "-o", "kafka"],
    "kafka-e2e-latency": ["latency", "-o", "kafka"],
    "kafka-streams-application-reset": ["reset-application", "--execute"],
    "kafka-verifiable-producer": ["produce"],
    "kafka-verifiable-consumer": ["consume"],
}
"""What stands first in the line of a command whose own defaults are not the script's."""


def command_of_script(name: str) -> str:
    """The command for a script's name, with or without `.sh` or `.bat`; any other name as it is."""
    return SCRIPTS.get(_without_ending(name), name)


def first_words_of_script(name: str) -> list[str]:
    """What a script's name says beside its command; nothing for any other name."""
    return _FIRST_WORDS.get(_without_ending(name), [])


def _without_ending(name: str) -> str:
    return name.removesuffix(".sh").removesuffix(".bat")


def as_subcommand(arguments: Sequence[str], actions: Mapping[str, Sequence[str]]) -> list[str]:
    """The arguments with the first flag of `actions` ("--create" -> ["create"]) replaced by its words, which come to the front.

    Arguments that begin with a word, and those that have none of these flags, stay as they are.
    """
    if arguments and arguments[0].startswith("-"):
        for position, argument in enumerate(arguments):
            if argument in actions:
                return [*actions[argument], *arguments[:position], *arguments[position + 1 :]]
    return list(arguments)
