"""`odradek verifiable produce|consume`: clients that print each event as JSON, for Kafka's system tests."""

from __future__ import annotations

import click

from odradek.cli.perf import verifiable_consume, verifiable_produce
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Run test clients that print events as JSON.

    The clients print one JSON object per line, with the names and fields of Kafka's own verifiable clients.
    """


for _each in (verifiable_produce, verifiable_consume):
    command.add_command(_each.command)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek verifiable", arguments)
