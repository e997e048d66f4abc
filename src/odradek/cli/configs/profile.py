"""`odradek profile`: named settings of clients, so that users need not type addresses and passwords for every command."""

from __future__ import annotations

import click

from odradek.base.errors import ConfigError
from odradek.cli.shared import profiles
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run, settings_file_option
from odradek.cli.shared.output import Output, output_option, show

_servers_option = click.option("-b", "--bootstrap-server", "servers", metavar="HOST:PORT[,...]", help="The brokers (bootstrap.servers).")
_settings_option = click.option(
    "-X", "settings", multiple=True, metavar="KEY=VALUE", help="A setting that every client has, under Kafka's name; may be repeated."
)


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Store client settings under names.

    A profile is a file that only the user can read. Every command that connects to a broker has the option --profile NAME.
    """


@command.command()
@click.argument("name")
@_servers_option
@_settings_option
@settings_file_option
@click.option("--no-use", is_flag=True, help="Do not select the new profile.")
def create(name: str, servers: str | None, settings: tuple[str, ...], from_file: dict[str, str], no_use: bool) -> None:
    """Create a profile and select it."""
    if name in profiles.names():
        raise ConfigError(f"profile {name} already exists; change it with `odradek profile set`")
    chosen = {**from_file, **_given(servers, settings)}
    if not chosen:
        raise click.UsageError("at least one of -b, -X and -F is required")
    profiles.check(chosen)
    profiles.save(name, chosen)
    if not no_use:
        profiles.use(name)
    click.echo(f"Created profile {name}." if no_use else f"Created profile {name}, which is in use now.")


@command.command("set")
@click.argument("name")
@_servers_option
@_settings_option
@click.option("--unset", "removed", multiple=True, metavar="KEY", help="Remove a setting; may be repeated.")
def change(name: str, servers: str | None, settings: tuple[str, ...], removed: tuple[str, ...]) -> None:
    """Change settings of a profile."""
    given = _given(servers, settings)
    if not given and not removed:
        raise click.UsageError("at least one of -b, -X and --unset is required")
    chosen = profiles.merged(profiles.load(name), given, removed)
    profiles.check(chosen)
    profiles.save(name, chosen)
    click.echo(f"Changed profile {name}.")


@command.command("list")
@output_option
def list_(output: Output) -> None:
    """List the profiles."""
    used = profiles.in_use()
    rows: list[dict[str, object]] = []
    for name in profiles.names():
        try:
            servers: object = profiles.load(name).get(profiles.SERVERS)
        except (ConfigError, OSError):
            servers = None  # `profile show` says why
        rows.append({"profile": name, "in_use": name == used, "bootstrap_servers": servers})
    show(rows, output)


@command.command("show")
@click.argument("name", required=False)
@output_option
def show_(name: str | None, output: Output) -> None:
    """Show a profile without its secrets.

    Without NAME, show the profile in use.
    """
    name = name if name is not None else profiles.in_use()
    if name is None:
        raise ConfigError("no profile is in use; `odradek profile list` shows all profiles")
    settings = profiles.shown(profiles.load(name))
    show([{"profile": name, "key": key, "value": value} for key, value in settings.items()], output)


@command.command()
@click.argument("name", required=False)
@click.option("--none", "no_profile", is_flag=True, help="Use no profile.")
def use(name: str | None, no_profile: bool) -> None:
    """Select the profile for later commands."""
    if no_profile == (name is not None):
        raise click.UsageError("one of NAME and --none is required" + (", not both" if no_profile else ""))
    profiles.use(name)
    click.echo(f"Profile {name} is in use now." if name is not None else "No profile is in use now.")


@command.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete a profile."""
    was_used = profiles.in_use() == name
    profiles.delete(name)
    click.echo(f"Deleted profile {name}{'; no profile is in use now' if was_used else ''}.")


def _given(servers: str | None, settings: tuple[str, ...]) -> dict[str, str]:
    given = {profiles.SERVERS: servers} if servers is not None else {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"-X {setting.partition('=')[0]}: expected KEY=VALUE")
        given[key.strip()] = value
    return given


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek profile", arguments)
