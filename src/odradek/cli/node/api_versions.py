"""`odradek api-versions`: API versions that each broker serves (kafka-broker-api-versions.sh)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import click

from odradek.base.errors import KafkaError
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, explained, run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.admin.blocking import Admin
from odradek.client.core.metadata import Broker
from odradek.client.network.cluster import as_kafka_error
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.negotiation import own_range

NAME: Final = "odradek api-versions"

Ranges = Mapping[int, tuple[int, int]]
"""Lowest and highest version (both inclusive) by API key."""


@click.command(context_settings=CONTEXT_SETTINGS)
@controllers_option
@output_option
@connection_options
def command(controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Show the API versions that brokers support.

    USABLE is the highest version that both the broker and Odradek's clients support; `-` if they have no version in common. The exit status
    is 1 if a broker does not respond.
    """
    rows: list[Row] = []
    failed = 0
    scope = "broker" if controllers is None else "controller"
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        brokers = sorted(admin.describe_cluster().brokers)
        for broker, found in zip(brokers, admin.run(lambda each: _announced(each, brokers)), strict=True):
            if isinstance(found, KafkaError):
                failed += 1
                click.echo(f"{NAME}: broker {broker.node_id}: {explained(found)}", err=True)
            else:
                rows += version_rows(broker, found, scope)
    show(rows, output, ["broker", "api_key", "name", "min_version", "max_version", "usable"])
    return 1 if failed else 0


async def _announced(admin: AsyncAdmin, brokers: Sequence[Broker]) -> list[Ranges | KafkaError]:
    """Return the version ranges that each broker announced on its connection, or the error that prevented the connection."""

    async def ask(broker: Broker) -> Ranges | KafkaError:
        admin.cluster.learn(broker)
        try:
            return (await admin.cluster.node(broker.node_id)).versions.ranges
        except ConnectionLost as error:
            return KafkaError(as_kafka_error(error).code, str(error))
        except KafkaError as error:
            return error

    return list(await asyncio.gather(*map(ask, brokers)))


def version_rows(broker: Broker, ranges: Ranges, scope: str) -> list[Row]:
    """Return a row for each API that the broker announces or that Kafka 4.3 serves in this listener scope, ordered by API key."""
    expected = {int(key) for key, info in API_INFO.items() if scope in info.listeners}
    rows: list[Row] = []
    for key in sorted({*ranges, *expected}):
        low, high = ranges.get(key, (None, None))
        rows.append(
            {
                "broker": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "api_key": key,
                "name": API_INFO[ApiKey(key)].name if key in API_INFO else "UNKNOWN",
                "min_version": low,
                "max_version": high,
                "usable": _usable(key, low, high),
            }
        )
    return rows


def _usable(key: int, low: int | None, high: int | None) -> int | None:
    if low is None or high is None or key not in API_INFO:
        return None
    ours_low, ours_high = own_range(ApiKey(key))
    best = min(high, ours_high)
    return best if best >= max(low, ours_low) else None


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments)
