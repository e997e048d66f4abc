"""Options that name topics, TOPIC... and `--topic PATTERN`, and the notation of replica assignments (kafka-topics.sh)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin.blocking import Admin

F = TypeVar("F", bound=Callable[..., object])
_PATTERNS: Final = "odradek.topic_patterns"
_GREATEST_ID: Final = 0x7FFFFFFF


class TopicPattern(NamedTuple):
    """Pattern of a command line, and the regular expression for whole names of topics."""

    text: str
    expression: re.Pattern[str]

    def __str__(self) -> str:
        return self.text


def topic_pattern(text: str) -> TopicPattern:
    """Return the pattern of a text, where a comma means "or". Spaces, and quotes around the text, are removed.

    Raises UsageError for an invalid regular expression. Source: IncludeList of Kafka.
    """
    plain = text.replace(",", "|").replace(" ", "").strip("\"'")
    if not plain:
        raise click.UsageError("--topic: expected a value, not an empty one")
    try:
        return TopicPattern(text, re.compile(plain))
    except re.error as error:
        raise click.UsageError(f"--topic {text}: invalid regular expression: {error}") from None


def _store_patterns(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> tuple[TopicPattern, ...]:
    patterns = tuple(map(topic_pattern, texts))
    context.meta[_PATTERNS] = patterns
    return patterns


pattern_option = click.option(
    "--topic",
    "patterns",
    multiple=True,
    is_eager=True,
    callback=_store_patterns,
    metavar="PATTERN",
    help="Topics whose whole name matches this regular expression; a comma means 'or'.",
)


def names_and_patterns(*, required: bool) -> Callable[[F], F]:
    """Add TOPIC... to a command, as `names`, and `--topic PATTERN`, which may be repeated, as `patterns`."""

    def checked(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
        if required and not names and not context.meta.get(_PATTERNS):
            raise click.MissingParameter(ctx=context, param=parameter)
        return tuple(dict.fromkeys(names))

    argument = click.argument("names", nargs=-1, metavar="TOPIC..." if required else "[TOPIC...]", callback=checked)
    return lambda function: argument(pattern_option(function))


internal_option = click.option(
    "--internal/--exclude-internal",
    "internal",
    default=None,
    help="Include or exclude Kafka's internal topics; by default only those that a name or a pattern selects are included.",
)


def matching(names: Iterable[str], patterns: Iterable[TopicPattern]) -> dict[str, list[str]]:
    """Return the matching names, sorted, by text of each pattern."""
    existing = sorted(names)
    return {each.text: [name for name in existing if each.expression.fullmatch(name)] for each in patterns}


def selected_topics(
    admin: Admin, names: Iterable[str], patterns: tuple[TopicPattern, ...], *, internal: bool | None = None, if_exists: bool = False
) -> list[str]:
    """Return the names unchanged, then the topics that match the patterns. Without names and patterns return all topics.

    Raises KafkaError for a pattern without a match, unless `if_exists` is true.
    """
    named = list(names)
    if named and not patterns:
        return named
    existing = [topic.name for topic in admin.list_topics(internal=internal is True or (internal is None and bool(patterns)))]
    if not patterns:
        return existing
    found = matching(existing, patterns)
    for text, matched in found.items():
        if not matched and not if_exists:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{text}' does not exist as expected")
    return list(dict.fromkeys([*named, *sorted({name for matched in found.values() for name in matched})]))


def replica_lists(text: str) -> list[list[int]]:
    """Return the brokers of each partition, the preferred leader first, from `0:1,1:2` of --replica-assignment.

    Raises UsageError for a malformed text, a repeated broker, and partitions with different numbers of replicas.
    """
    lists: list[list[int]] = []
    for number, each in enumerate(text.split(",")):
        ids = [broker.strip() for broker in each.split(":")]
        if not all(broker.isascii() and broker.isdecimal() and int(broker) <= _GREATEST_ID for broker in ids):
            raise click.UsageError(f"--replica-assignment {text}: expected ID:ID,ID:ID, the brokers of each partition")
        brokers = [int(broker) for broker in ids]
        repeated = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if repeated:
            raise click.UsageError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, repeated))}")
        if lists and len(brokers) != len(lists[0]):
            raise click.UsageError(f"Partition {number} has different replication factor: {','.join(map(str, brokers))}")
        lists.append(brokers)
    return lists
