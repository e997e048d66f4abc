"""`odradek completion`: shell completion of commands, options, and names of topics, groups and profiles.

The printed script makes the shell run `odradek` with _ODRADEK_COMPLETE set, once for each completion. `main` then calls `complete`, which
uses click's shell completion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from odradek.cli.main import COMMANDS, COMPLETING
from odradek.cli.node import start
from odradek.cli.shared import profiles
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, run
from odradek.client.admin.blocking import Admin
from odradek.client.settings.config import settings_of_admin

_DEADLINE_MS: Final = "700"
"""Milliseconds until a completion gives up on names from the brokers: the user has pressed Tab and waits."""

Names = Callable[[click.Context], list[str]]


class _Bash(BashComplete):
    """Bash completion by the typed line (COMP_LINE). Click's uses bash's words, and bash splits HOST:PORT and NAME=VALUE into three."""

    source_template = BashComplete.source_template.replace("env ", 'env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" ', 1)

    def get_completion_args(self) -> tuple[list[str], str]:
        if "COMP_LINE" not in os.environ:
            return super().get_completion_args()
        line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete


add_completion_class(_Bash)


@click.command(context_settings=CONTEXT_SETTINGS)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script for shell completion.

    SHELL is bash, zsh or fish. Names of topics and groups are completed if the brokers of the command line respond quickly.

    \b
    bash: source <(odradek completion bash)
    zsh:  source <(odradek completion zsh), after compinit
    fish: odradek completion fish | source
    """
    shells = get_completion_class(shell)
    assert shells is not None
    # click's `source()` would start a bash to check its version.
    completion = shells(_Tool("odradek"), {}, "odradek", COMPLETING)
    click.echo((shells.source_template % completion.source_vars()).strip())


def complete(instruction: str) -> int:
    """Answer a shell's `instruction`, such as "bash_complete", and return the exit status."""
    return shell_complete(_Tool("odradek"), {}, "odradek", COMPLETING, instruction)


class _Tool(click.Group):
    """Click group of all commands. A command's module is imported when the command is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = _start() if cmd_name == "start" else import_module(COMMANDS[cmd_name][0]).command
        _set_completion(found)
        return found


def _start() -> click.Command:
    """Return a click command with the options of `odradek start`, which itself does not use click."""
    options: list[click.Parameter] = []
    for term, text in start.OPTIONS:
        name, _, metavar = term.partition(" ")
        if name.startswith("--"):
            kind = click.Path(file_okay=False) if name == "--data-dir" else None
            options.append(click.Option([name], is_flag=not metavar, type=kind if metavar else None, help=text))
    return click.Command("start", params=[*options, click.Argument(["file"], required=False, type=click.Path())])


def _set_completion(command: click.Command) -> None:
    """Set the completion of all parameters that take names. The metavar of a parameter determines the kind of names."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _set_completion(each)
    of_profiles = command.callback is not None and command.callback.__module__.endswith(".profile")
    for parameter in command.params:
        metavar = (parameter.metavar or parameter.name or "").upper().strip("[.]")
        names: Names | None = None
        if "--profile" in parameter.opts or (of_profiles and isinstance(parameter, click.Argument)):
            names = _profiles
        elif metavar in ("TOPIC", "TOPICS"):
            names = _topics
        elif metavar in ("GROUP", "GROUPS"):
            names = _groups
        if names is not None:
            setattr(parameter, "shell_complete", _completer(names))  # noqa: B010 - a method, of this one only


def _completer(names: Names) -> Callable[[click.Context, str], list[CompletionItem]]:
    def items(context: click.Context, incomplete: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(name) for name in names(context) if name.startswith(incomplete)]
        except Exception:  # a user who presses Tab wants no error message about a broker
            return []

    return items


def _profiles(_: click.Context) -> list[str]:
    return profiles.names()


def _topics(context: click.Context) -> list[str]:
    with _admin(context.params) as admin:
        return sorted(topic.name for topic in admin.list_topics(internal=True))


def _groups(context: click.Context) -> list[str]:
    with _admin(context.params) as admin:
        return sorted(group.group_id for group in admin.list_groups())


def _admin(given: Mapping[str, Any]) -> Admin:
    chosen = client_settings(given["bootstrap"], given.get("settings") or ())
    chosen |= {"default.api.timeout.ms": _DEADLINE_MS, "request.timeout.ms": _DEADLINE_MS}
    return Admin(settings_of_admin(chosen))


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek completion", arguments)
