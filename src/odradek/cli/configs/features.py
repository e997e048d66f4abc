"""`odradek features describe|upgrade|downgrade|disable|version-mapping|feature-dependencies` (kafka-features.sh)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import click

from odradek.cli.configs.feature_tables import feature_dependencies, release_level, release_levels, version_mapping
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, parse_levels, run
from odradek.cli.shared.output import Output, output_option, show
from odradek.cli.shared.per_item import NUMBER
from odradek.client.admin.blocking import Admin

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek features"
_METADATA: Final = "metadata.version"
_ACTIONS: Final = {each: [each] for each in ("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies")}
"""Subcommands of kafka-features.sh. The script takes connection options before the subcommand, so `run` moves the subcommand first."""

_validate_only = click.option("--validate-only", "--dry-run", is_flag=True, help="Validate the change without making it.")
_unsafe = click.option(
    "--unsafe", is_flag=True, help="Allow downgrades that lose metadata, if the controller supports them (Kafka 4.3 does not)."
)


def _levels_options(function: F) -> F:
    levels = click.argument("levels", nargs=-1, metavar="[NAME=LEVEL...]")
    named = click.option("-f", "--feature", "named", multiple=True, metavar="NAME=LEVEL", help="The same as the argument NAME=LEVEL.")
    release = click.option(
        "-r", "--release-version", "release", metavar="VERSION", help="The default levels of all features in this release of Kafka."
    )
    metadata = click.option("--metadata", metavar="VERSION", help="The metadata.version of this release, such as 4.0.")
    return levels(named(release(metadata(function))))


def _wanted(levels: tuple[str, ...], named: tuple[str, ...], release: str | None, metadata: str | None, *, upward: bool) -> dict[str, int]:
    """Return the levels of a command line. Raises UsageError for none, and for a release together with other features."""
    texts = (*levels, *named)
    if release is not None:
        if texts or metadata is not None:
            raise click.UsageError("Can not specify --release-version with other features")
        return {name: level for name, level in release_levels(release).items() if level or not upward}
    wanted = parse_levels(texts)
    if metadata is not None:
        if _METADATA in wanted:
            raise click.UsageError(f"{_METADATA} is given twice")
        wanted[_METADATA] = release_level(metadata)
    if not wanted:
        raise click.UsageError(f"You must specify at least one feature to {'upgrade' if upward else 'downgrade'}")
    return wanted


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show, upgrade and downgrade feature levels.

    `odradek features version-mapping` shows the levels of a release.
    """


command.add_command(version_mapping)
command.add_command(feature_dependencies)


@command.command()
@click.option("--node-id", type=NUMBER, metavar="ID", help="Ask this node; any node by default.")
@controllers_option
@output_option
@connection_options
def describe(node_id: int | None, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List features and their levels."""
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        found = admin.describe_features(node_id=node_id)
    show([feature._asdict() for feature in found], output)


@command.command()
@_levels_options
@_validate_only
@controllers_option
@connection_options
def upgrade(
    levels: tuple[str, ...],
    named: tuple[str, ...],
    release: str | None,
    metadata: str | None,
    validate_only: bool,
    controllers: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Upgrade features to these levels, all or none."""
    wanted = _wanted(levels, named, release, metadata, upward=True)
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        admin.update_features(wanted, validate_only=validate_only)
    _print_levels(wanted, "Would upgrade" if validate_only else "Upgraded")


@command.command()
@_levels_options
@_unsafe
@_validate_only
@controllers_option
@connection_options
def downgrade(
    levels: tuple[str, ...],
    named: tuple[str, ...],
    release: str | None,
    metadata: str | None,
    unsafe: bool,
    validate_only: bool,
    controllers: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Downgrade features to these levels, all or none.

    Level 0 disables a feature.
    """
    wanted = _wanted(levels, named, release, metadata, upward=False)
    _lower(admin_settings(bootstrap, settings, controllers), wanted, unsafe=unsafe, validate_only=validate_only)
    _print_levels(wanted, "Would downgrade" if validate_only else "Downgraded")


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-f", "--feature", "named", multiple=True, metavar="NAME", help="The same as the argument NAME.")
@_unsafe
@_validate_only
@controllers_option
@connection_options
def disable(
    names: tuple[str, ...],
    named: tuple[str, ...],
    unsafe: bool,
    validate_only: bool,
    controllers: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Disable features, all or none.

    The same as a downgrade to level 0.
    """
    wanted = parse_levels(f"{name}=0" for name in (*names, *named))
    if not wanted:
        raise click.UsageError("You must specify at least one feature to disable")
    _lower(admin_settings(bootstrap, settings, controllers), wanted, unsafe=unsafe, validate_only=validate_only)
    for name in wanted:
        click.echo(f"{'Would disable' if validate_only else 'Disabled'} {name}.")


def _lower(client: dict[str, str], wanted: dict[str, int], *, unsafe: bool, validate_only: bool) -> None:
    with Admin(client) as admin:
        admin.update_features(wanted, downgrade=True, unsafe=unsafe, validate_only=validate_only)


def _print_levels(levels: dict[str, int], what: str) -> None:
    for name, level in levels.items():
        click.echo(f"{what} {name} to {level}.")


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
