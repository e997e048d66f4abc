"""`odradek cluster id|list-endpoints|unregister`: a cluster's id and nodes, and removal of lost brokers (kafka-cluster.sh)."""

from __future__ import annotations

from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.client_command import connection_options_with, controllers_option, reached
from odradek.cli.destroying import execute_option, remark_dry_run
from odradek.cli.output import JSON, Output, output_option, show
from odradek.cli.per_item import NUMBER
from odradek.client.admin.blocking import Admin

NAME: Final = "odradek cluster"
_connection = connection_options_with("--config", "-c")


@click.command(name="id")
@controllers_option
@output_option
@_connection
def id_(controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Print the id of a cluster."""
    with Admin(reached(bootstrap, settings, controllers)) as admin:
        found = admin.describe_cluster()
    if output == JSON:
        show([{"cluster_id": found.cluster_id}], output)
    else:
        click.echo(found.cluster_id)


@click.command(name="list-endpoints")
@click.option("--include-fenced-brokers", "fenced", is_flag=True, help="Also brokers that are registered and not up (KIP-1073).")
@controllers_option
@output_option
@_connection
def list_endpoints(fenced: bool, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the nodes and their addresses.

    Brokers, or with --bootstrap-controller controllers: those of the listener that was asked.
    """
    if fenced and controllers is not None:
        raise click.UsageError("--include-fenced-brokers excludes --bootstrap-controller")
    with Admin(reached(bootstrap, settings, controllers)) as admin:
        found = admin.describe_cluster(include_fenced_brokers=fenced)
    show(
        [
            {
                "id": each.node_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "state": None if controllers is not None else "fenced" if each.node_id in found.fenced_brokers else "unfenced",
                "endpoint_type": "broker" if controllers is None else "controller",
            }
            for each in sorted(found.brokers)
        ],
        output,
        ["id", "host", "port", "rack", *(["state"] if controllers is None else []), "endpoint_type"],
    )


@click.command()
@click.argument("broker", type=NUMBER, required=False, metavar="[BROKER]")
@click.option(
    "--id",
    "-i",
    "named",
    type=NUMBER,
    metavar="BROKER",
    help="Another way to name the broker, as in Kafka's script: without --dry-run it is done at once.",
)
@execute_option
@controllers_option
@_connection
def unregister(
    broker: int | None, named: int | None, execute: bool, controllers: str | None, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """Take a broker out of the cluster.

    For one that will not come back: the cluster forgets it, and its replicas stay assigned until they are reassigned.
    """
    if (broker is None) == (named is None):
        raise click.UsageError("name one broker")
    wanted = broker if broker is not None else named
    assert wanted is not None
    with Admin(reached(bootstrap, settings, controllers)) as admin:
        if execute:
            admin.unregister_broker(wanted)
            click.echo(f"Broker {wanted} is no longer registered.")
            return
        known = admin.describe_cluster(include_fenced_brokers=controllers is None)
        if controllers is None and wanted not in {each.node_id for each in known.brokers}:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {wanted}; `odradek cluster list-endpoints` shows all")
    up = controllers is None and wanted not in known.fenced_brokers
    click.echo(f"Would unregister broker {wanted}{', which is up' if up else ''}.")
    remark_dry_run(NAME)
