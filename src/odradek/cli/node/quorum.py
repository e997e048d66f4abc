"""`odradek quorum describe|add-controller|remove-controller`: the quorum of the controllers (kafka-metadata-quorum.sh)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import click

from odradek.base.addresses import host_port
from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.base.ids import uuid_to_string
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, run, server_options
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import JSON, Output, Row, output_option, show
from odradek.cli.shared.per_item import NUMBER, id_of, one_of
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.cluster import QuorumInfo, QuorumReplicaState, RaftVoterEndpoint

NAME: Final = "odradek quorum"
_ACTIONS: Final = {
    "describe": ["describe"],
    "add-controller": ["add-controller"],
    "remove-controller": ["remove-controller", "--execute"],
}
"""Subcommands of kafka-metadata-quorum.sh. The script takes its connection options before them, and removes without a dry run."""
_STATUS: Final = {
    "cluster_id": "ClusterId",
    "leader_id": "LeaderId",
    "leader_epoch": "LeaderEpoch",
    "high_watermark": "HighWatermark",
    "max_follower_lag": "MaxFollowerLag",
    "max_follower_lag_time_ms": "MaxFollowerLagTimeMs",
    "current_voters": "CurrentVoters",
    "current_observers": "CurrentObservers",
}
_LABEL_WIDTH: Final = 23


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show the controller quorum and change its voters."""


@command.command()
@click.option("--status", is_flag=True, help="Show leader, high watermark, lag and members of the quorum; the default.")
@click.option("--replication", is_flag=True, help="Show the progress of each voter and observer in the metadata log.")
@click.option(
    "--human-readable", "readable", is_flag=True, help="With --replication: show times relative to now instead of Unix milliseconds."
)
@controllers_option
@output_option
@connection_options
def describe(
    status: bool, replication: bool, readable: bool, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """Show leader, voters and observers.

    LAG is the number of records of the metadata log by which a node is behind the leader.
    """
    one_of({"--status": status, "--replication": replication}, needed=False)
    if readable and not replication:
        raise click.UsageError("The option --human-readable is only supported along with --replication")
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        cluster_id = "" if replication else admin.describe_cluster().cluster_id
        quorum = admin.describe_metadata_quorum()
    if replication:
        show(replication_rows(quorum, time.time_ns() // 1_000_000 if readable else None), output)
        return
    row = status_row(cluster_id, quorum)
    if output == JSON:
        show([row], output)
    else:
        for name, title in _STATUS.items():
            click.echo(f"{title + ':':<{_LABEL_WIDTH}} {_text(row[name])}")


def _text(value: object) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def status_row(cluster_id: str, quorum: QuorumInfo) -> Row:
    """Return the quorum as one row. Without a leader both lags have the value None.

    The lag in time also has this value when a time of catching up is unknown.
    """
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda each: each.log_end_offset, default=None)
    lag = None if leader is None or slowest is None else leader.log_end_offset - slowest.log_end_offset
    return {
        "cluster_id": cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": _lag_ms(leader, slowest),
        "current_voters": [_member(each, quorum) for each in quorum.voters],
        "current_observers": [_member(each, quorum) for each in quorum.observers],
    }


def _leader(quorum: QuorumInfo) -> QuorumReplicaState | None:
    return next((each for each in quorum.voters if each.replica_id == quorum.leader_id), None)


def _lag_ms(leader: QuorumReplicaState | None, slowest: QuorumReplicaState | None) -> int | None:
    if leader is None or slowest is None:
        return None
    if slowest.log_end_offset == leader.log_end_offset:
        return 0
    if leader.last_caught_up_timestamp is None or slowest.last_caught_up_timestamp is None:
        return None
    return leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp


def _member(replica: QuorumReplicaState, quorum: QuorumInfo) -> dict[str, object]:
    found: dict[str, object] = {"id": replica.replica_id}
    if replica.replica_directory_id.int:
        found["directoryId"] = uuid_to_string(replica.replica_directory_id)
    endpoints = quorum.nodes.get(replica.replica_id, ())
    if endpoints:
        found["endpoints"] = [_url(each) for each in endpoints]
    return found


def _url(endpoint: RaftVoterEndpoint) -> str:
    return f"{endpoint.listener}://{host_port(endpoint.host, endpoint.port)}"


def replication_rows(quorum: QuorumInfo, now_ms: int | None) -> list[Row]:
    """Return a row for each node: the leader, then the other voters, then the observers. With `now_ms` times are relative to it."""
    leader = _leader(quorum)
    followers = [each for each in quorum.voters if each is not leader]
    groups = (("Leader", [] if leader is None else [leader]), ("Follower", followers), ("Observer", quorum.observers))
    return [
        {
            "node_id": each.replica_id,
            "directory_id": uuid_to_string(each.replica_directory_id),
            "log_end_offset": each.log_end_offset,
            "lag": None if leader is None else leader.log_end_offset - each.log_end_offset,
            "last_fetch_timestamp": _time(each.last_fetch_timestamp, now_ms),
            "last_caught_up_timestamp": _time(each.last_caught_up_timestamp, now_ms),
            "status": status,
        }
        for status, replicas in groups
        for each in replicas
    ]


def _time(timestamp: int | None, now_ms: int | None) -> int | str | None:
    if timestamp is None or now_ms is None:
        return timestamp
    # The leader's clock may differ from this machine's, so a time may lie in the future.
    return f"{now_ms - timestamp} ms ago" if timestamp <= now_ms else f"in {timestamp - now_ms} ms"


# -- voters -------------------------------------------------------------------------------------------------------------------------------


class Controller(NamedTuple):
    """Controller, as described by its server.properties and its metadata directory."""

    node_id: int
    directory_id: UUID
    endpoints: tuple[RaftVoterEndpoint, ...]


def read_controller(path: Path) -> Controller:
    """Return the controller of a properties file. Raises ConfigError for missing keys, and for a directory that is not formatted.

    Only the keys of a voter are checked: the file may belong to JVM Kafka and have keys that Odradek's broker refuses.
    """
    from odradek.config.listeners import Endpoint, parse_listeners
    from odradek.config.properties import MalformedProperties, parse_properties
    from odradek.storage.disk import OsDisk
    from odradek.storage.meta_properties import read_meta_properties

    try:
        properties = parse_properties(path.read_text())
    except (MalformedProperties, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None

    def items(key: str) -> list[str]:
        return [each.strip() for each in properties.get(key, "").split(",") if each.strip()]

    def unusable(problem: str) -> ConfigError:
        return ConfigError(f"{path}: {problem}; name the server.properties of a controller")

    node_id = properties.get("node.id", "").strip()
    if not (node_id.isascii() and node_id.isdecimal()):
        raise unusable("node.id is missing" if not node_id else f"node.id is {node_id!r}, not a number")
    if "controller" not in items("process.roles"):
        raise unusable("process.roles does not contain controller")
    names = [name.upper() for name in items("controller.listener.names")]
    if not names:
        raise unusable("controller.listener.names is missing")
    directories = items("metadata.log.dir") or items("log.dirs") or items("log.dir")
    if not directories:
        raise unusable("metadata.log.dir and log.dirs are missing")
    known: dict[str, Endpoint] = {}
    for key in ("listeners", "advertised.listeners"):
        protocols = {each.partition("://")[0].upper(): "PLAINTEXT" for each in items(key)}
        known |= {each.listener: each for each in parse_listeners(key, items(key), protocols, distinct_ports=False)}
    for name in names:
        if name not in known:
            raise unusable(f"controller.listener.names contains {name}, but listeners and advertised.listeners do not")
    meta = read_meta_properties(OsDisk(), directories[0])
    if meta is None or meta.directory_id is None:
        lacks = "is not formatted" if meta is None else "has no directory id"
        raise ConfigError(f"{directories[0]} {lacks}; `odradek storage format` formats a controller's directory")
    endpoints = tuple(RaftVoterEndpoint(name, known[name].host or "localhost", known[name].port) for name in names)
    return Controller(int(node_id), meta.directory_id, endpoints)


@command.command(name="add-controller")
@click.option(
    "-c",
    "--config",
    "--command-config",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The controller's server.properties; its metadata directory must be on this machine.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@controllers_option
@server_options
def add_controller(file: Path, dry_run: bool, controllers: str | None, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Make a controller a voter.

    The controller must be running and must already replicate the metadata log (KIP-853). Odradek's own quorum does not support this yet.
    Set the connection's TLS and SASL settings with -X.
    """
    added = read_controller(file)
    if not dry_run:
        with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
            try:
                admin.add_raft_voter(added.node_id, added.directory_id, added.endpoints)
            except KafkaError as error:
                raise _voter_error(error) from None
    description = (
        f"controller {added.node_id} with directory id {uuid_to_string(added.directory_id)} and endpoints: {_urls(added.endpoints)}"
    )
    click.echo(f"{'Would add' if dry_run else 'Added'} {description}")


def _urls(endpoints: Iterable[RaftVoterEndpoint]) -> str:
    return ", ".join(map(_url, endpoints))


def _voter_error(error: KafkaError) -> OdradekError:
    if error.code is not ErrorCode.UNSUPPORTED_VERSION:
        return error
    return OdradekError(
        f"this cluster cannot change the voters of its quorum: {error.message}; this needs Kafka 3.9 or later with kraft.version 1"
    )


@command.command(name="remove-controller")
@click.option("-i", "--controller-id", type=NUMBER, required=True, metavar="ID", help="The controller to remove.")
@click.option(
    "-d", "--controller-directory-id", "directory", required=True, metavar="ID", help="The id of the controller's metadata directory."
)
@execute_option
@controllers_option
@connection_options
def remove_controller(
    controller_id: int, directory: str, execute: bool, controllers: str | None, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """Remove a voter from the quorum.

    Odradek's own quorum does not support this yet. `odradek quorum describe` shows the ids of directories (KIP-853).
    """
    directory_id = id_of("--controller-directory-id", directory)
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        if execute:
            try:
                admin.remove_raft_voter(controller_id, directory_id)
            except KafkaError as error:
                raise _voter_error(error) from None
        else:
            voters = {(each.replica_id, each.replica_directory_id) for each in admin.describe_metadata_quorum().voters}
            if (controller_id, directory_id) not in voters:
                raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"voter {controller_id} with directory id {directory} does not exist")
    description = f"controller {controller_id} with directory id {uuid_to_string(directory_id)}"
    click.echo(f"{'Removed' if execute else 'Would remove'} {description}.")
    if not execute:
        remark_dry_run(NAME)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
