"""`odradek features describe|upgrade|downgrade`."""

from __future__ import annotations

import click

from odradek.cli.client_command import CONTEXT_SETTINGS, client_settings, connection_options, parse_levels, run
from odradek.cli.output import Output, output_option, show
from odradek.client.admin.blocking import Admin


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show, raise and lower the cluster's feature levels.

    `odradek storage version-mapping` tells which levels belong to a release.
    """


@command.command()
@output_option
@connection_options
def describe(output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List features and their levels."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        found = admin.describe_features()
    show([feature._asdict() for feature in found], output)


@command.command()
@click.argument("levels", nargs=-1, required=True, metavar="NAME=LEVEL...")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@connection_options
def upgrade(levels: tuple[str, ...], validate_only: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Raise features to these levels, all or none."""
    wanted = parse_levels(levels)
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.update_features(wanted, validate_only=validate_only)
    _tell(wanted, "Would upgrade" if validate_only else "Upgraded")


@command.command()
@click.argument("levels", nargs=-1, required=True, metavar="NAME=LEVEL...")
@click.option("--unsafe", is_flag=True, help="Even if metadata may be lost, where the controller does that (Kafka 4.3 does not).")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@connection_options
def downgrade(levels: tuple[str, ...], unsafe: bool, validate_only: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Lower features to these levels, all or none.

    Level 0 turns one off.
    """
    wanted = parse_levels(levels)
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.update_features(wanted, downgrade=True, unsafe=unsafe, validate_only=validate_only)
    _tell(wanted, "Would downgrade" if validate_only else "Downgraded")


def _tell(levels: dict[str, int], what: str) -> None:
    for name, level in levels.items():
        click.echo(f"{what} {name} to {level}.")


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit status."""
    return run(command, "odradek features", arguments)
