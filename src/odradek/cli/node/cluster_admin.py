"""`odradek cluster id|list-endpoints|unregister`: a cluster's id and nodes, and removal of lost brokers (kafka-cluster.sh)."""

from __future__ import annotations

from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.shared.client_command import admin_settings, connection_options_with, controllers_option
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import JSON, Output, output_option, show
from odradek.cli.shared.per_item import NUMBER
from odradek.client.admin.blocking import Admin

NAME: Final = "odradek cluster"
_connection = connection_options_with("--config", "-c")


@click.command(name="id")
@controllers_option
@output_option
@_connection
def id_(controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Print the id of a cluster."""
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        found = admin.describe_cluster()
    if output == JSON:
        show([{"cluster_id": found.cluster_id}], output)
    else:
        click.echo(found.cluster_id)


@click.command(name="list-endpoints")
@click.option("--include-fenced-brokers", "fenced", is_flag=True, help="Also list registered brokers that are fenced (KIP-1073).")
@controllers_option
@output_option
@_connection
def list_endpoints(fenced: bool, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the nodes and their addresses.

    Lists brokers, or with --bootstrap-controller controllers, with the addresses of the listener that is used for the request.
    """
    if fenced and controllers is not None:
        raise click.UsageError("--include-fenced-brokers cannot be used with --bootstrap-controller")
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
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
    help="The same as BROKER; as in Kafka's script, this implies --execute unless --dry-run is given.",
)
@execute_option
@controllers_option
@_connection
def unregister(
    broker: int | None, named: int | None, execute: bool, controllers: str | None, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """Remove a broker from the cluster.

    Use this for a broker that will not return. Its registration is removed; its replicas stay assigned to it until they are reassigned.
    """
    if (broker is None) == (named is None):
        raise click.UsageError("give one broker: BROKER or --id BROKER")
    wanted = broker if broker is not None else named
    assert wanted is not None
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        if execute:
            admin.unregister_broker(wanted)
            click.echo(f"Broker {wanted} is no longer registered.")
            return
        known = admin.describe_cluster(include_fenced_brokers=controllers is None)
        if controllers is None and wanted not in {each.node_id for each in known.brokers}:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {wanted} is not registered; `odradek cluster list-endpoints` shows all brokers"
            )
    up = controllers is None and wanted not in known.fenced_brokers
    click.echo(f"Would unregister broker {wanted}{', which is up' if up else ''}.")
    remark_dry_run(NAME)
