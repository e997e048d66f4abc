"""Options of destructive commands. Without `--execute` such a command only shows the changes, as Kafka's tools for offsets do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def execute_option(function: F) -> F:
    """Add `--execute` to a command, and `--dry-run` that names the default, as the parameter `execute`."""
    execute = click.option("--execute", "execute", is_flag=True, help="Make the changes; without this option nothing is changed.")
    dry_run = click.option("--dry-run", "execute", flag_value=False, help="Only show the changes; the default.")
    return execute(dry_run(function))


def remark_dry_run(command: str) -> None:
    """Print on standard error that `command` ("odradek topics") has changed nothing, and needs --execute."""
    click.echo(f"{command}: nothing was changed; add --execute to make the changes", err=True)
