"""Which topics are meant: TOPIC... by their whole names, `--topic PATTERN` as kafka-topics.sh has it, and replicas as it writes them."""

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
    """A pattern of a command line, and what it matches: whole names."""

    text: str
    expression: re.Pattern[str]

    def __str__(self) -> str:
        return self.text


def topic_pattern(text: str) -> TopicPattern:
    """The pattern as Kafka's scripts read it (IncludeList): a comma stands for "or", blanks and quotes around it are left out.

    UsageError for what is no regular expression.
    """
    plain = text.replace(",", "|").replace(" ", "").strip("\"'")
    if not plain:
        raise click.UsageError("--topic: this must not be empty")
    try:
        return TopicPattern(text, re.compile(plain))
    except re.error as error:
        raise click.UsageError(f"--topic {text}: this is no regular expression: {error}") from None


def _remembered(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> tuple[TopicPattern, ...]:
    patterns = tuple(map(topic_pattern, texts))
    context.meta[_PATTERNS] = patterns
    return patterns


pattern_option = click.option(
    "--topic",
    "patterns",
    multiple=True,
    is_eager=True,
    callback=_remembered,
    metavar="PATTERN",
    help="Topics whose whole name matches this regular expression; a comma means or.",
)


def names_and_patterns(*, required: bool) -> Callable[[F], F]:
    """TOPIC... as `names`, and `--topic PATTERN`, which may be repeated, as `patterns`."""

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
    help="With Kafka's own topics, or without; when left out, with those that a name or a pattern asks for.",
)


def matching(names: Iterable[str], patterns: Iterable[TopicPattern]) -> dict[str, list[str]]:
    """Text of each pattern -> the names that it matches, in order."""
    there = sorted(names)
    return {each.text: [name for name in there if each.expression.fullmatch(name)] for each in patterns}


def topics_meant(
    admin: Admin, names: Iterable[str], patterns: tuple[TopicPattern, ...], *, internal: bool | None = None, if_exists: bool = False
) -> list[str]:
    """The names as they are, then what the patterns match; all topics without either.

    KafkaError for a pattern that matches nothing, but with `if_exists`.
    """
    named = list(names)
    if named and not patterns:
        return named
    there = [topic.name for topic in admin.list_topics(internal=internal is True or (internal is None and bool(patterns)))]
    if not patterns:
        return there
    found = matching(there, patterns)
    for text, matched in found.items():
        if not matched and not if_exists:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{text}' does not exist as expected")
    return list(dict.fromkeys([*named, *sorted({name for matched in found.values() for name in matched})]))


def replica_lists(text: str) -> list[list[int]]:
    """`0:1,1:2` of --replica-assignment: the brokers of each partition, its preferred leader first. UsageError when it is none."""
    lists: list[list[int]] = []
    for number, each in enumerate(text.split(",")):
        ids = [broker.strip() for broker in each.split(":")]
        if not all(broker.isascii() and broker.isdecimal() and int(broker) <= _GREATEST_ID for broker in ids):
            raise click.UsageError(f"--replica-assignment {text}: this must be ID:ID,ID:ID, the brokers of each partition")
        brokers = [int(broker) for broker in ids]
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise click.UsageError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        if lists and len(brokers) != len(lists[0]):
            raise click.UsageError(f"Partition {number} has different replication factor: {','.join(map(str, brokers))}")
        lists.append(brokers)
    return lists
