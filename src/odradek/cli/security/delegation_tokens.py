"""`odradek delegation-tokens create|renew|expire|describe` (KIP-48, kafka-delegation-tokens.sh)."""

from __future__ import annotations

import base64
from typing import Final

import click

from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.security import DelegationToken, KafkaPrincipal

NAME: Final = "odradek delegation-tokens"
_ACTIONS: Final = {"--create": ["create"], "--renew": ["renew"], "--expire": ["expire"], "--describe": ["describe"]}
_MOST_MS: Final = 2**63 - 1


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Create, renew, expire and show tokens.

    The connection must be authenticated: name the file with the client's credentials with --command-config.
    """


def _principals(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[KafkaPrincipal, ...]:
    found: list[KafkaPrincipal] = []
    for text in texts:
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise click.UsageError(f"{parameter.opts[0]} {text}: expected a principal TYPE:NAME, such as User:alice")
        found.append(KafkaPrincipal(kind, name))
    return tuple(found)


def _hmac(_: click.Context, __: click.Parameter, text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:  # also binascii.Error, and the error for text that is not ASCII
        found = b""
    if not found:
        raise click.UsageError(f"--hmac {text}: expected Base64, as `create` prints it")
    return found


@command.command()
@click.option(
    "--owner-principal",
    "owners",
    multiple=True,
    callback=_principals,
    metavar="TYPE:NAME",
    help="Owner of the token; by default the user of the connection.",
)
@click.option(
    "--renewer-principal",
    "renewers",
    multiple=True,
    callback=_principals,
    metavar="TYPE:NAME",
    help="User who may renew the token; may be repeated.",
)
@click.option(
    "--max-life-time-period",
    "lifetime",
    type=click.IntRange(-1, _MOST_MS),
    default=-1,
    show_default=True,
    metavar="MS",
    help="Maximum lifetime of the token; -1 for the maximum of the brokers.",
)
@output_option
@connection_options
def create(
    owners: tuple[KafkaPrincipal, ...],
    renewers: tuple[KafkaPrincipal, ...],
    lifetime: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Create a token and print it with its HMAC.

    Keep the HMAC secret: a client with the HMAC can act as the owner.
    """
    if len(owners) > 1:
        raise click.UsageError(f"give only one --owner-principal, not {owners[0]} and {owners[1]}")
    with Admin(client_settings(bootstrap, settings)) as admin:
        token = admin.create_delegation_token(owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=lifetime)
    show([_row(token)], output)


def _row(token: DelegationToken) -> Row:
    return {
        "token_id": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issue_date": token.issue_timestamp,
        "expiry_date": token.expiry_timestamp,
        "max_date": token.max_timestamp,
    }


@command.command()
@click.option("--hmac", required=True, callback=_hmac, metavar="BASE64", help="The token's HMAC.")
@click.option(
    "--renew-time-period",
    "period",
    type=click.IntRange(-1, _MOST_MS),
    default=-1,
    show_default=True,
    metavar="MS",
    help="Time from now until the token expires; -1 for the default of the brokers.",
)
@connection_options
def renew(hmac: bytes, period: int, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Renew a token."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        expiry = admin.renew_delegation_token(hmac, renew_time_period_ms=period)
    click.echo(f"Completed renew operation. New expiry timestamp: {expiry}")


@command.command()
@click.option("--hmac", required=True, callback=_hmac, metavar="BASE64", help="The token's HMAC.")
@click.option(
    "--expiry-time-period",
    "period",
    type=click.IntRange(-1, _MOST_MS),
    default=-1,
    show_default=True,
    metavar="MS",
    help="Time from now until the token expires; -1 to expire it immediately.",
)
@connection_options
def expire(hmac: bytes, period: int, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Set the time at which a token expires."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        expiry = admin.expire_delegation_token(hmac, expiry_time_period_ms=period)
    click.echo(f"Completed expire operation. New expiry timestamp: {expiry}")


@command.command()
@click.option(
    "--owner-principal",
    "owners",
    multiple=True,
    callback=_principals,
    metavar="TYPE:NAME",
    help="Only tokens of this owner; may be repeated.",
)
@output_option
@connection_options
def describe(owners: tuple[KafkaPrincipal, ...], output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Show the tokens that the user may see."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        found = admin.describe_delegation_token(owners or None)
    show([_row(token) for token in sorted(found, key=lambda token: token.issue_timestamp)], output)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
