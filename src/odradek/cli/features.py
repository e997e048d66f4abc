"""`odradek features describe|upgrade|downgrade`."""

from __future__ import annotations

import json

import click

from odradek.cli.client_command import client_settings, connection_options, run
from odradek.client.admin.blocking import Admin


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show, raise and lower the levels of features that the whole cluster goes by.

    `odradek storage version-mapping` tells which levels belong to a release.
    """


@command.command()
@click.option("-J", "--json", "as_json", is_flag=True, help="As JSON, one feature a line.")
@connection_options
def describe(as_json: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the features: level, and the levels that the broker knows."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        found = admin.describe_features()
    for feature in found:
        if as_json:
            click.echo(json.dumps(feature._asdict()))
        else:
            click.echo(f"{feature.name}\t{feature.finalized}\t({feature.minimum}-{feature.maximum})")


@command.command()
@click.argument("levels", nargs=-1, required=True, metavar="NAME=LEVEL...")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@connection_options
def upgrade(levels: tuple[str, ...], validate_only: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Raise features to these levels, all or none."""
    wanted = _levels(levels)
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.update_features(wanted, validate_only=validate_only)
    _tell(wanted, "Would upgrade" if validate_only else "Upgraded")


@command.command()
@click.argument("levels", nargs=-1, required=True, metavar="NAME=LEVEL...")
@click.option("--unsafe", is_flag=True, help="Even if metadata may be lost, where the controller does that (Kafka 4.3 does not).")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@connection_options
def downgrade(levels: tuple[str, ...], unsafe: bool, validate_only: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Lower features to these levels, all or none; level 0 turns one off."""
    wanted = _levels(levels)
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.update_features(wanted, downgrade=True, unsafe=unsafe, validate_only=validate_only)
    _tell(wanted, "Would downgrade" if validate_only else "Downgraded")


def _tell(levels: dict[str, int], what: str) -> None:
    for name, level in levels.items():
        click.echo(f"{what} {name} to {level}.")


def _levels(texts: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not name.strip() or not level.strip().isdecimal() or int(level) > 0x7FFF:
            raise click.UsageError(f"{text}: this must be name=level")
        if name.strip() in levels:
            raise click.UsageError(f"{name.strip()} stands there twice")
        levels[name.strip()] = int(level)
    return levels


def main(arguments: list[str]) -> int:
    """Runs the command; 0 done, 1 failed, 2 not understood."""
    return run(command, "odradek features", arguments)
