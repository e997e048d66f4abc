"""Translation of the command lines of Kafka's scripts.

Kafka's scripts name an action by a flag (`kafka-topics.sh --create --topic orders`), Odradek by a subcommand (`odradek topics create
orders`). Odradek accepts both, and also the names of the scripts (`odradek kafka-topics --create ...`).
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
"""Command by name of Kafka's script, without `.sh` or `.bat`."""

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
"""First arguments of the command by name of the script, for scripts that need a subcommand or other defaults."""


def command_of_script(name: str) -> str:
    """Return the command for a script's name, with or without `.sh` or `.bat`. Return any other name unchanged."""
    return SCRIPTS.get(_without_ending(name), name)


def first_words_of_script(name: str) -> list[str]:
    """Return the first arguments that a script's name implies, [] for any other name."""
    return _FIRST_WORDS.get(_without_ending(name), [])


def _without_ending(name: str) -> str:
    return name.removesuffix(".sh").removesuffix(".bat")


def as_subcommand(arguments: Sequence[str], actions: Mapping[str, Sequence[str]]) -> list[str]:
    """Replace the first flag that is in `actions` ("--create" -> ["create"]) by its words, moved to the front; return the arguments.

    Arguments that begin with a word, or lack such a flag, are returned unchanged.
    """
    if arguments and arguments[0].startswith("-"):
        for position, argument in enumerate(arguments):
            if argument in actions:
                return [*actions[argument], *arguments[:position], *arguments[position + 1 :]]
    return list(arguments)
