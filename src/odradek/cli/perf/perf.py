"""`odradek perf produce|consume|latency`: throughput of writing and reading, and latency of a record from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from odradek.cli.perf import perf_consume, perf_latency, perf_produce
from odradek.cli.perf.perf_options import NAME
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run
from odradek.cli.shared.kafka_flags import first_words_of_script

_OPTIONS_WITH_SEVERAL_VALUES: Final = ("--producer-props", "--command-property")
_POSITIONAL: Final = ("--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size", "--command-config")
_LATENCY: Final = first_words_of_script("kafka-e2e-latency")


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Measure throughput and latency of records."""


for _each in (perf_produce, perf_consume, perf_latency):
    command.add_command(_each.command)


def repeat_options(arguments: Sequence[str]) -> list[str]:
    """Repeat an option before each of its values. Kafka's script accepts several values (`--producer-props acks=1 linger.ms=5`)."""
    output: list[str] = []
    option = ""
    for argument in arguments:
        if argument.startswith("-"):
            option = argument if argument in _OPTIONS_WITH_SEVERAL_VALUES else ""
        elif option and "=" in argument and output[-1] != option:
            output.append(option)
        output.append(argument)
    return output


def name_arguments(arguments: Sequence[str]) -> list[str]:
    """Add option names to the five or six positional arguments that kafka-e2e-latency.sh still takes. Return other arguments unchanged."""
    words = arguments[len(_LATENCY) :]
    if [*arguments[: len(_LATENCY)]] != _LATENCY or not 5 <= len(words) <= 6 or any(word.startswith("-") for word in words):
        return [*arguments]
    return [*_LATENCY, *[each for name, word in zip(_POSITIONAL, words, strict=False) if word.strip() for each in (name, word)]]


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, repeat_options(arguments) if arguments[:1] == ["produce"] else name_arguments(arguments))
