"""What destroys something says first what it would do, and does it only with `--execute`, as Kafka's tools for offsets do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])


def execute_option(function: F) -> F:
    """`--execute`, and `--dry-run` for those who like to say what they get anyway, as the parameter `execute`."""
    does = click.option("--execute", "execute", is_flag=True, help="Do it; without this nothing is changed.")
    tells = click.option("--dry-run", "execute", flag_value=False, help="Only say what would be done; the default.")
    return does(tells(function))


def remark_dry_run(command: str) -> None:
    """The remark of a `command` ("odradek topics") that has told what it would do."""
    click.echo(f"{command}: nothing has been changed; --execute does it", err=True)
