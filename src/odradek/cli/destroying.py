"""Options of destructive commands. Without `--execute` such a command only tells what it would do, like Kafka's tools for offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def execute_option(function: F) -> F:
    """Add `--execute` to a command, and `--dry-run` that names the default, as the parameter `execute`."""
    does = click.option("--execute", "execute", is_flag=True, help="Do it; without this nothing is changed.")
    tells = click.option("--dry-run", "execute", flag_value=False, help="Only say what would be done; the default.")
    return does(tells(function))


def remark_dry_run(command: str) -> None:
    """Print on standard error that `command` ("odradek topics") has changed nothing, and needs --execute."""
    click.echo(f"{command}: nothing has been changed; --execute does it", err=True)
