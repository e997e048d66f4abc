"""`odradek configs describe|alter`: configurations, quotas and SCRAM credentials (kafka-configs.sh)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.cli.configs.config_text import names as names_of
from odradek.cli.configs.config_text import pairs
from odradek.cli.configs.entities import CLIENTS, DEFAULT, RESOURCES, check_names, entities, entity_options
from odradek.cli.configs.quotas import alter_quotas, check_quotas, quota_rows
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, run
from odradek.cli.shared.help_page import with_advice
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.client.admin.blocking import Admin
from odradek.client.types import ConfigChange, ConfigEntry, ConfigResource
from odradek.config.properties import MalformedProperties, parse_properties

T = TypeVar("T")
NAME: Final = "odradek configs"
_ACTIONS: Final = {"--describe": ["describe"], "--alter": ["alter"]}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""ConfigEntry.ConfigSource by its number in DescribeConfigs."""
_OWN: Final = {"topic": 1, "broker": 2, "client_metrics": 7, "group": 8}
"""Source of the values that are set on a resource itself, by kind. Log levels have no entry: they are always shown."""


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show and change configurations, quotas and SCRAM users."""


@command.command()
@entity_options
@click.option("-a", "--all", "all_", is_flag=True, help="Also show defaults and the values of a broker's server.properties.")
@controllers_option
@output_option
@connection_options
def describe(all_: bool, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Show configurations.

    Without the name of an entity, show all entities of the type.
    """
    wanted = entities()
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        if any(each in CLIENTS for each in wanted):
            show(quota_rows(admin, wanted), output)
            return
        ((of, name),) = wanted.items()
        rows: list[Row] = []
        for resource, entries in admin.describe_configs(_resources(admin, of, name), synonyms=True).items():
            rows += [_row(of, resource, entry) for entry in _chosen(resource, entries, all_=all_)]
    show(rows, output, ["entity_type", "entity_name", "name", "value", "source"])


def _resources(admin: Admin, of: str, name: str | None) -> list[ConfigResource]:
    kind = RESOURCES[of]
    if name is not None:
        return [ConfigResource(kind, name)]
    if kind == "topic":
        return [ConfigResource(kind, topic.name) for topic in admin.list_topics(internal=True)]
    if kind in ("broker", "broker_logger"):
        ids = [ConfigResource(kind, str(broker.node_id)) for broker in sorted(admin.describe_cluster().brokers)]
        return [*ids, ConfigResource(kind, DEFAULT)] if kind == "broker" else ids
    if kind == "client_metrics":
        return [ConfigResource(kind, each) for each in sorted(admin.list_client_metrics_resources())]
    existing = {resource.name for resource in admin.list_config_resources([kind])}
    return [ConfigResource(kind, each) for each in sorted(existing | {group.group_id for group in admin.list_groups()})]


def _chosen(resource: ConfigResource, entries: list[ConfigEntry], *, all_: bool) -> list[ConfigEntry]:
    own = 3 if resource == ConfigResource("broker", DEFAULT) else _OWN.get(resource.kind)
    if all_ or own is None:
        return entries
    return [entry for entry in entries if entry.source == own or any(each.source == own for each in entry.synonyms)]


def _row(of: str, resource: ConfigResource, entry: ConfigEntry) -> Row:
    return {
        "entity_type": of,
        "entity_name": resource.name or "<default>",
        "name": entry.name,
        "value": entry.value,
        "source": SOURCES.get(entry.source, str(entry.source)),
        "sensitive": entry.sensitive,
        "read_only": entry.read_only,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": SOURCES.get(each.source, str(each.source))} for each in entry.synonyms
        ],
    }


@command.command()
@entity_options
@click.option("-s", "--add-config", "added", metavar="K=V,K=[V,V]", help="Keys to set; put a value with commas in [ ].")
@click.option("--add-config-file", "file", type=click.Path(path_type=Path), metavar="FILE", help="A properties file with keys to set.")
@click.option("-d", "--delete-config", "deleted", metavar="K,K", help="Keys to reset to their defaults.")
@click.option("--validate-only", is_flag=True, help="Validate the change without making it; not for SCRAM credentials.")
@controllers_option
@connection_options
def alter(
    added: str | None,
    file: Path | None,
    deleted: str | None,
    validate_only: bool,
    controllers: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Set keys, or reset them to their defaults.

    Either all changes of the command line are made, or none.
    """
    wanted = entities()
    check_names(wanted)
    if added is not None and file is not None:
        raise click.UsageError("Only one of --add-config or --add-config-file must be specified.")
    to_set = _parsed("--add-config", pairs, added) if added is not None else _read(file) if file is not None else {}
    to_delete = _parsed("--delete-config", names_of, deleted) if deleted is not None else []
    if not to_set and not to_delete:
        raise click.UsageError("At least one of --add-config, --add-config-file or --delete-config must be specified with alter")
    both = sorted(set(to_set) & set(to_delete))
    if both:
        raise click.UsageError(f"{both[0]} is in --add-config and in --delete-config")
    if any(each in CLIENTS for each in wanted):
        check_quotas(wanted, to_set, to_delete, validate_only=validate_only)
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        if any(each in CLIENTS for each in wanted):
            alter_quotas(admin, wanted, to_set, to_delete, validate_only=validate_only)
        else:
            ((of, name),) = wanted.items()
            try:
                _alter(admin, ConfigResource(RESOURCES[of], str(name)), to_set, to_delete, validate_only=validate_only)
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_CONFIG:
                    raise
                raise OdradekError(with_advice(str(error), "`odradek configs describe --all` shows keys and values")) from None
    done = "Would update" if validate_only else "Completed updating"
    click.echo(f"{done} {' and '.join(_label(of, name) for of, name in wanted.items())}.")


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as problem:
        raise click.UsageError(f"{option} {problem}") from None


def _read(file: Path) -> dict[str, str]:
    try:
        return parse_properties(file.read_text())
    except (MalformedProperties, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _alter(admin: Admin, resource: ConfigResource, to_set: dict[str, str], to_delete: list[str], *, validate_only: bool) -> None:
    if to_delete and resource.name != DEFAULT:  # brokers describe only the set keys of the default
        existing = {entry.name for entry in admin.describe_configs([resource])[resource]}
        missing = [key for key in to_delete if key not in existing]
        if missing:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid config(s): {','.join(missing)}")
    changes = [ConfigChange(key, value) for key, value in to_set.items()] + [ConfigChange(key, operation="delete") for key in to_delete]
    admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)


def _label(of: str, name: str | None) -> str:
    return f"the default of {of}" if name == DEFAULT else f"{of.removesuffix('s')} {name}"


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
