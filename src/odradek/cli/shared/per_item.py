"""Shared parts of commands that take several items: names, partitions, and one error line for each failed item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition, uuid_from_string
from odradek.base.text import indented
from odradek.cli.shared.client_command import explained
from odradek.client.admin.blocking import Admin

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

NUMBER: Final = click.IntRange(0, 0x7FFFFFFF)
"""Type of an option for the number of a partition or the id of a node: 31 bits, as in Kafka's requests."""
PAUSE_S: Final = 0.1
"""Seconds between two requests of a command that waits for a change."""

_UNREACHABLE = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION)


timeout_option = click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="MS",
    default=5000,
    show_default=True,
    help="How long to wait for brokers, in milliseconds.",
)


def timeout_settings(timeout: int) -> dict[str, str]:
    """Return the value of `--timeout` (milliseconds) as defaults for `client_settings`."""
    return {"default_api_timeout_ms": str(timeout), "request_timeout_ms": str(timeout)}


def report_error(command: str, error: KafkaError, item: str = "") -> None:
    """Print the error of an item on standard error. Raise the error instead when the cluster is unreachable: it concerns all items."""
    if error.code in _UNREACHABLE:
        raise error
    click.echo(indented(f"{command}: {f'{item}: ' if item else ''}{explained(error)}", ""), err=True)


def named_argument(parameter: str, option: str | tuple[str, ...], metavar: str, what: str, *, required: bool) -> Callable[[F], F]:
    """Add NAME... and Kafka's `--option NAME` to a command, both as `parameter`. A repeated name counts once."""
    key = f"odradek.{parameter}"
    option_names = (option,) if isinstance(option, str) else option

    def store_names(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
        context.meta[key] = names

    def merge_names(context: click.Context, given: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys((*names, *context.meta.get(key, ()))))
        if "" in names:
            raise click.UsageError(f"{option_names[0]}: expected a value, not an empty one")
        if required and not names:
            raise click.MissingParameter(ctx=context, param=given)
        return names

    shown_metavar = f"{metavar}..." if required else f"[{metavar}...]"
    argument = click.argument(parameter, nargs=-1, metavar=shown_metavar, callback=merge_names)
    option_decorator = click.option(
        *option_names, multiple=True, expose_value=False, is_eager=True, callback=store_names, metavar=metavar, help=what
    )
    return lambda function: argument(option_decorator(function))


def single_name(names: Sequence[str], metavar: str) -> str:
    """Return the only name. Raises UsageError for several names."""
    if len(names) != 1:
        raise click.UsageError(f"give only one {metavar}, not {' and '.join(names)}")
    return names[0]


def partition_scopes(option: str, texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Return partitions by topic, None for all, from texts `TOPIC` or `TOPIC:0,1,...`. Raises UsageError for a malformed text."""
    scopes: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        each = numbers.split(",") if colon else []
        if not topic or not all(number.isascii() and number.isdecimal() and len(number) < 10 for number in each):
            raise click.UsageError(f"{option} {text}: expected TOPIC or TOPIC:N,N")
        before = scopes.get(topic, [])
        scopes[topic] = None if not colon or before is None else sorted({*before, *map(int, each)})
    return scopes


def partitions_of(admin: Admin, scopes: Mapping[str, Sequence[int] | None]) -> list[TopicPartition]:
    """Return the partitions of the scopes. Raises KafkaError for an unknown topic, OdradekError for an unknown partition."""
    found: list[TopicPartition] = []
    for topic, described in admin.describe_topics(list(scopes)).items():
        existing = sorted(described.partitions)
        wanted = scopes[str(topic)]
        missing = sorted(set(wanted or ()) - set(existing))
        if missing:
            raise OdradekError(f"topic {topic} has no partition {missing[0]}; its partitions are {existing[0]} to {existing[-1]}")
        found += [TopicPartition(str(topic), number) for number in (existing if wanted is None else wanted)]
    return found


def existing_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that exist, in their order, without those of topics that may not be described.

    Raises KafkaError for any other error of a topic.
    """
    wanted = list(partitions)
    topics = admin.try_describe_topics(sorted({partition.topic for partition in wanted}))
    existing: list[TopicPartition] = []
    for partition in wanted:
        topic = topics[partition.topic]
        if not isinstance(topic, KafkaError):
            existing += [partition] if partition.partition in topic.partitions else []
        elif topic.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise topic
    return existing


def id_of(option: str, text: str) -> UUID:
    """Return the id of a topic or directory in Kafka's notation (22 characters). Raises UsageError for a malformed id."""
    try:
        return uuid_from_string(text)
    except ValueError:
        raise click.UsageError(f"{option} {text}: expected an id of 22 characters, as `describe` shows it") from None


def one_of(chosen: Mapping[str, bool], needed: bool) -> str | None:
    """Return the given option, or None. Raises UsageError for two options, and for none when an option is needed."""
    given = [name for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} cannot be used with {given[1]}")
    if needed and not given:
        raise click.UsageError(f"one of {', '.join(chosen)} is required")
    return given[0] if given else None
