"""Options that name the configured entities: --entity-type with --entity-name or --entity-default, or short forms (kafka-configs.sh)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

RESOURCES: Final = {
    "topics": "topic",
    "brokers": "broker",
    "broker-loggers": "broker_logger",
    "groups": "group",
    "client-metrics": "client_metrics",
}
"""Kinds of `ConfigResource` by entity type, for the types with a configuration."""
CLIENTS: Final = ("users", "clients", "ips")
"""Entity types with quotas."""
TYPES: Final = (*RESOURCES, *CLIENTS)
DEFAULT: Final = ""
"""Name that stands for the default of all brokers, users, clients or addresses."""

_SHORT: Final = {
    "--topic": ("topics", "TOPIC", "A topic."),
    "--broker": ("brokers", "ID", "A broker."),
    "--broker-logger": ("broker-loggers", "ID", "The log levels of a broker."),
    "--group": ("groups", "GROUP", "A group."),
    "--client-metrics": ("client-metrics", "NAME", "A subscription to metrics of clients."),
    "--user": ("users", "USER", "A user: quotas and SCRAM credentials."),
    "--client": ("clients", "CLIENT-ID", "Clients with this id: quotas."),
    "--ip": ("ips", "ADDRESS", "An address: quotas."),
}
_DEFAULTS: Final = {"--broker-defaults": "brokers", "--user-defaults": "users", "--client-defaults": "clients", "--ip-defaults": "ips"}
_TYPES: Final = "odradek.entity_types"
_NAMES: Final = "odradek.entity_names"
_GIVEN: Final = "odradek.entities"

Entities = dict[str, str | None]
"""Entity name by type: DEFAULT for the default, None for all entities of the type."""


def entity_options(function: F) -> F:
    """Add all options that name entities to a command; `entities` returns the named entities."""
    for option, of in reversed(_DEFAULTS.items()):
        function = click.option(
            option, is_flag=True, expose_value=False, is_eager=True, callback=_default(of), help=f"The defaults of all {of}."
        )(function)
    for option, (of, metavar, text) in reversed(_SHORT.items()):
        function = click.option(option, expose_value=False, is_eager=True, callback=_named(of), metavar=metavar, help=text)(function)
    function = click.option(
        "--entity-default",
        "entity_names",
        multiple=True,
        is_flag=True,
        flag_value=DEFAULT,
        expose_value=False,
        is_eager=True,
        callback=_kept(_NAMES),
        help="The default entity of the type: brokers, users, clients or ips.",
    )(function)
    function = click.option(
        "--entity-name",
        "entity_names",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=_kept(_NAMES),
        metavar="NAME",
        help="The name of the entity. The first name belongs to the first --entity-type, and so on.",
    )(function)
    return click.option(
        "--entity-type",
        "entity_types",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=_kept(_TYPES),
        type=click.Choice(TYPES),
        metavar="TYPE",
        help=f"The type of the entity: {', '.join(TYPES)}. Users and clients can be combined.",
    )(function)


def _kept(key: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...] | None], None]:
    def keep(context: click.Context, _: click.Parameter, given: tuple[str, ...] | None) -> None:
        if given:
            context.meta[key] = given

    return keep


def _named(of: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
        if name == "":
            raise click.UsageError(f"{parameter.opts[0]}: expected a value, not an empty one")
        if name is not None:
            context.meta.setdefault(_GIVEN, []).append((of, name))

    return keep


def _default(of: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def keep(context: click.Context, _: click.Parameter, given: bool) -> None:
        if given:
            context.meta.setdefault(_GIVEN, []).append((of, DEFAULT))

    return keep


def entities() -> Entities:
    """Return the entities that the running command's options name.

    Raises UsageError for none, for an invalid broker id, and for types that cannot be combined.
    """
    meta = click.get_current_context().meta
    types, given_names = meta.get(_TYPES, ()), meta.get(_NAMES, ())
    if len(given_names) > len(types):
        raise click.UsageError("each --entity-name and --entity-default requires an --entity-type")
    named: list[tuple[str, str | None]] = [*zip_longest(types, given_names), *meta.get(_GIVEN, ())]
    if not named:
        raise click.UsageError("At least one entity type must be specified: --entity-type, or --topic, --broker, --user and so on")
    found: Entities = {}
    for of, name in named:
        if of in found:
            raise click.UsageError(f"Duplicate entity type specified: {of}")
        found[of] = name
    if len(found) > 1 and set(found) != {"users", "clients"}:
        raise click.UsageError(f"only users and clients can be combined, not {' and '.join(found)}")
    for of, name in found.items():
        if name == DEFAULT and of not in _DEFAULTS.values():
            raise click.UsageError(f"{of} have no default")
        if name and of.startswith("broker") and not (name.isascii() and name.isdecimal()):
            raise click.UsageError(f"The entity name for {of} must be a valid integer broker id, but it is: {name}")
    return found


def check_names(found: Entities) -> None:
    """Raise UsageError for an entity without a name: only named entities and defaults can be changed."""
    for of, name in found.items():
        if name is None:
            raise click.UsageError(
                f"--entity-name is required to change {of}" + (" (or --entity-default)" if of in _DEFAULTS.values() else "")
            )
