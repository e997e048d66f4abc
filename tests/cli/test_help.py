"""All help texts look like one tool's, also of the commands that do without click."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from odradek.cli import main as tool
from odradek.cli.node import start
from odradek.cli.shared.help_page import HELP_OPTION
from tests.cli.conftest import Command


def _all_commands() -> Iterator[tuple[str, click.Command | None]]:
    """What is typed -> the click command; None for those that do without click."""
    yield "", None
    for name, (module, _) in tool.COMMANDS.items():
        command = getattr(import_module(module), "command", None)
        yield name, command
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield f"{name} {each.name}", each


ALL = dict(_all_commands())
WITH_CLICK = {typed: command for typed, command in ALL.items() if command is not None}


def test_only_start_and_the_list_of_commands_do_without_click() -> None:
    assert set(ALL) - set(WITH_CLICK) == {"", "start"}
    assert len(WITH_CLICK) >= 16


@pytest.mark.parametrize("typed", ALL)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_explains_itself(typed: str, option: str, command: Command) -> None:
    answer = command(*typed.split(), option)
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"Usage: odradek {typed} [OPTIONS]".replace("  ", " "))
    assert lines[1] == ""
    assert lines[2].startswith("  ")
    assert "Options:" in lines
    assert any(line.split() == " ".join(HELP_OPTION).split() for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_help_of_a_command_is_its_own(command: Command) -> None:
    for name in tool.COMMANDS:
        assert command("help", name).out == command(name, "--help").out


@pytest.mark.parametrize("typed", ["", *(typed for typed, each in WITH_CLICK.items() if isinstance(each, click.Group))])
def test_a_group_without_a_command_shows_its_help_as_a_mistake(typed: str, command: Command) -> None:
    answer = command(*typed.split())
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == command(*typed.split(), "--help").out


@pytest.mark.parametrize("typed", WITH_CLICK)
def test_options_and_summaries_are_whole_sentences(typed: str) -> None:
    command = WITH_CLICK[typed]
    summary = command.get_short_help_str(limit=55)
    assert summary.endswith(".")
    assert not summary.endswith("...")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{typed} {parameter.opts}"
            assert parameter.help.endswith((".", "...", "\\t.")), f"{typed} {parameter.opts}: {parameter.help}"


@pytest.mark.parametrize("columns", [40, 66, 80, 200])
def test_start_and_the_list_of_commands_look_as_if_click_had_made_them(
    columns: int, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    def options(rows: tuple[tuple[str, str], ...]) -> list[click.Parameter]:
        made: list[click.Parameter] = []
        for term, text in rows:
            if (term, text) != HELP_OPTION:
                name, _, metavar = term.partition(" ")
                made.append(click.Option([name], metavar=metavar or None, is_flag=not metavar, help=text))
        return made

    settings = {"help_option_names": ["-h", "--help"]}
    twin = click.Command(
        "start",
        context_settings=settings,
        params=[*options(start.OPTIONS), click.Argument(["file"], required=False, metavar="[FILE]")],
        help="\n\n".join(start.ABOUT),
    )
    with click.Context(twin, info_name="odradek start", **settings) as context:
        assert command("start", "--help").out.rstrip() == twin.get_help(context).rstrip()

    class InOrder(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(self.commands)

    group = InOrder(
        "odradek",
        context_settings=settings,
        help="An Apache Kafka in Python.\n\n`odradek COMMAND --help` explains a command.",
        params=options((("--version", "Show the version and exit."),)),
        commands={name: click.Command(name, short_help=summary) for name, (_, summary) in tool.COMMANDS.items()},
    )
    with click.Context(group, info_name="odradek", **settings) as context:
        assert command("--help").out.rstrip() == group.get_help(context).rstrip()


def test_the_version(command: Command) -> None:
    from odradek import __version__

    assert command("--version") == command("version") == (0, f"odradek {__version__}\n", "")


def test_the_list_of_commands_needs_no_click(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    assert command("--help").status == 0
    assert command("start", "--help").status == 0
    assert command("start", "--nonsense").status == 2
