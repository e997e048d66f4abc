"""What the commands that talk to a broker share: running click without its own exits, connection options, client settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from odradek.base.errors import ConfigError, OdradekError

F = TypeVar("F", bound=Callable[..., object])

_IMPATIENCE_MS = "5000"
"""A person waits: give up on an unreachable broker sooner than a program would."""


def run(command: click.Command, name: str, arguments: list[str]) -> int:
    """Runs a command; the exit status: 0 done, 1 failed (as OdradekError), 2 not understood."""
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        error.show(sys.stderr)
        return 2
    except click.ClickException as error:
        raise OdradekError(error.format_message()) from None
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return 130
    return result if isinstance(result, int) else 0


def connection_options(function: F) -> F:
    """`-b` and `-X`, for every command that talks to a broker."""
    bootstrap = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        default="localhost:9092",
        show_default=True,
        envvar="ODRADEK_BOOTSTRAP_SERVER",
        metavar="HOST:PORT[,...]",
        help="Brokers to ask first (also the environment variable ODRADEK_BOOTSTRAP_SERVER).",
    )
    settings = click.option(
        "-X", "settings", multiple=True, metavar="KEY=VALUE", help="A client configuration under Kafka's name; may be repeated."
    )
    return bootstrap(settings(function))


def client_settings(bootstrap: str, settings: tuple[str, ...], **defaults: str) -> dict[str, str]:
    """The client configuration of a command line; ConfigError for a `-X` that is not key=value."""
    chosen = {"bootstrap.servers": bootstrap, "client.id": "odradek-cli", "default.api.timeout.ms": _IMPATIENCE_MS}
    chosen |= {name.replace("_", "."): value for name, value in defaults.items()}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"-X {setting}: this must be key=value")
        chosen[name.strip()] = value
    return chosen


def unescape(text: str) -> bytes:
    r"""Delimiters and formats as typed: \n, \t, \r, \0, \\ and \xHH stand for their bytes."""
    output = bytearray()
    position = 0
    plain = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92}
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "\\" and following in plain and following:
            output.append(plain[following])
            position += 2
        elif character == "\\" and following == "x" and _is_hex(text[position + 2 : position + 4]):
            output.append(int(text[position + 2 : position + 4], 16))
            position += 4
        else:
            output += character.encode()
            position += 1
    return bytes(output)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
