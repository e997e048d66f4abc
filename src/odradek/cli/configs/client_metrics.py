"""`odradek client-metrics list|describe|alter|delete`: subscriptions to metrics that clients push (KIP-714, kafka-client-metrics.sh)."""

from __future__ import annotations

import random
from typing import Final

import click

from odradek.base.errors import OdradekError
from odradek.base.ids import random_uuid, uuid_to_string
from odradek.cli.configs.config_text import names as names_of
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.cli.shared.per_item import named_argument, one_of, single_name
from odradek.client.admin.blocking import Admin
from odradek.client.types import ConfigChange, ConfigResource

NAME: Final = "odradek client-metrics"
_ACTIONS: Final = {"--list": ["list"], "--describe": ["describe"], "--alter": ["alter"], "--delete": ["delete", "--execute"]}
_SET_HERE: Final = 7
"""Source in DescribeConfigs of a value that is set on the subscription itself."""
_KEYS: Final = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}
_SELECTORS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Manage subscriptions to metrics of clients."""


@command.command(name="list")
@output_option
@connection_options
def list_(output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the names of subscriptions."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        show([{"name": name} for name in sorted(admin.list_client_metrics_resources())], output)


def _existing(admin: Admin, names: tuple[str, ...]) -> list[ConfigResource]:
    existing = sorted(admin.list_client_metrics_resources())
    for name in names:
        if name not in existing:
            raise OdradekError(f"subscription {name} does not exist; `odradek client-metrics list` shows all subscriptions")
    return [ConfigResource("client_metrics", name) for name in names or existing]


@command.command()
@named_argument("names", "--name", "NAME", "The same as the argument NAME; may be repeated.", required=False)
@output_option
@connection_options
def describe(names: tuple[str, ...], output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Show metrics, interval and selectors.

    Without NAME, show all subscriptions.
    """
    rows: list[Row] = []
    with Admin(client_settings(bootstrap, settings)) as admin:
        for resource, entries in admin.describe_configs(_existing(admin, names)).items():
            rows += [{"name": resource.name, "key": each.name, "value": each.value} for each in entries if each.source == _SET_HERE]
    show(rows, output)


@command.command()
@named_argument("names", "--name", "NAME", "The same as the argument NAME.", required=False)
@click.option("--generate-name", is_flag=True, help="Use a new UUID as the name.")
@click.option("--interval", metavar="MS", help="How often clients push metrics, in milliseconds; an empty value restores the default.")
@click.option(
    "--match", metavar="K=REGEX,...", help=f"Only clients that match; keys are {', '.join(_SELECTORS)}. An empty value selects all clients."
)
@click.option("--metrics", metavar="PREFIX,...", help="Prefixes of metric names, or * for all; an empty value selects no metrics.")
@connection_options
def alter(
    names: tuple[str, ...],
    generate_name: bool,
    interval: str | None,
    match: str | None,
    metrics: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Create or change a subscription."""
    one_of({"--name": bool(names), "--generate-name": generate_name}, needed=True)
    given = {key: value for key, value in (("interval", interval), ("match", match), ("metrics", metrics)) if value is not None}
    if not given:
        raise click.UsageError("one of --interval, --match, --metrics is required")
    if interval and not (interval.isascii() and interval.isdecimal()):
        raise click.UsageError(f"--interval {interval}: expected a number of milliseconds")
    for selector in names_or_none(match):
        if selector.partition("=")[0].strip() not in _SELECTORS or "=" not in selector:
            raise click.UsageError(f"--match {match}: expected K=REGEX,... with K one of {', '.join(_SELECTORS)}")
    name = uuid_to_string(random_uuid(random.SystemRandom())) if generate_name else single_name(names, "NAME")
    changes = [ConfigChange(_KEYS[key], value) if value else ConfigChange(_KEYS[key], operation="delete") for key, value in given.items()]
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.incremental_alter_configs({ConfigResource("client_metrics", name): changes})
    click.echo(f"Altered client metrics config for {name}.")


def names_or_none(text: str | None) -> list[str]:
    """Return the parts of a comma-separated list, [] without text. Raises UsageError for an empty part."""
    if not text:
        return []
    try:
        return names_of(text)
    except ValueError:
        raise click.UsageError(f"--match {text}: expected K=REGEX,...") from None


@command.command()
@named_argument("names", "--name", "NAME", "The same as the argument NAME; may be repeated.", required=True)
@execute_option
@connection_options
def delete(names: tuple[str, ...], execute: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Delete subscriptions."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        for resource, entries in admin.describe_configs(_existing(admin, names)).items():
            keys = [each.name for each in entries if each.source == _SET_HERE]
            if execute:
                admin.incremental_alter_configs({resource: [ConfigChange(key, operation="delete") for key in keys]})
            click.echo(f"{'Deleted' if execute else 'Would delete'} client metrics config for {resource.name}.")
    if not execute:
        remark_dry_run(NAME)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
