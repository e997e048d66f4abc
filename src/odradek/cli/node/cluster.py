"""`odradek cluster start`: a cluster of several nodes on this machine, one process per node, until SIGTERM, SIGINT or SIGHUP.

The subcommands `id`, `list-endpoints` and `unregister` work with any cluster (`cluster_admin`).

The first start creates the cluster in its directory: a folder per node with `server.properties`, the data and the node's log. Every later
start uses these files as they are, so users change settings by editing them.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import click

from odradek.base.errors import OdradekError
from odradek.base.ids import random_uuid, uuid_to_string
from odradek.cli.node.cluster_admin import NAME, id_, list_endpoints, unregister
from odradek.cli.node.server_properties import load_server_properties
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run
from odradek.storage.names import META_PROPERTIES

_CONTROLLER_PORTS: Final = 1000
"""Difference between a node's controller port and its port for clients."""
_MOST_NODES: Final = 9
_HIGHEST_PORT: Final = 65535
_NAMES_BROKER: Final = re.compile(r"--id(=.*)?|-i.*", re.DOTALL)
"""Option of kafka-cluster.sh that names a broker, with its value in the same word or in the next."""


class ClusterError(OdradekError):
    """Error for a directory or an argument that cannot start a cluster; the message is one line."""


class Member(NamedTuple):
    """Node of the cluster: its id, folder and ports."""

    node_id: int
    folder: Path
    port: int
    controller_port: int

    @property
    def name(self) -> str:
        return f"node-{self.node_id}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        return self.folder / "node.log"


def planned_members(directory: Path, nodes: int, port: int) -> list[Member]:
    """Return the nodes 1 to `nodes` (inclusive), on consecutive client ports from `port`."""
    return [
        Member(number, directory / f"node-{number}", port + number - 1, port + number - 1 + _CONTROLLER_PORTS)
        for number in range(1, nodes + 1)
    ]


def properties_of(member: Member, members: list[Member]) -> str:
    """Return the node's server.properties: broker and controller in one process, on loopback, at most three replicas per partition."""
    copies = min(len(members), 3)
    in_sync = 2 if copies == 3 else 1
    servers = ",".join(f"127.0.0.1:{each.controller_port}" for each in members)
    keys = {
        "process.roles": "broker,controller",
        "node.id": str(member.node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{member.port},CONTROLLER://127.0.0.1:{member.controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": servers,
        "log.dirs": str(member.folder / "data"),
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
    }
    return "".join(f"{key}={value}\n" for key, value in keys.items())


def create_cluster(directory: Path, nodes: int, port: int, rng: random.Random) -> list[Member]:
    """Write the properties of a new cluster of `nodes` nodes, format its data directories, and return the nodes."""
    from odradek.controller.format import format_storage
    from odradek.storage.disk import OsDisk

    members = planned_members(directory, nodes, port)
    cluster_id = uuid_to_string(random_uuid(rng))
    voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}:{uuid_to_string(random_uuid(rng))}" for each in members)
    for member in members:
        member.folder.mkdir(parents=True, exist_ok=True)
        member.properties.write_text(properties_of(member, members))
    for member in members:
        format_storage(
            OsDisk(),
            load_server_properties(str(member.properties)),
            cluster_id=cluster_id,
            rng=rng,
            now_ms=time.time_ns() // 1_000_000,
            initial_controllers=voters,
        )
    return members


def existing_members(directory: Path) -> list[Member]:
    """Return the nodes of the cluster in the directory, ordered by id; [] without a cluster. Raises ClusterError if a part is missing."""
    members: list[Member] = []
    for folder in directory.glob("node-*"):
        path = folder / "server.properties"
        config = load_server_properties(str(path)) if path.exists() else None
        if config is None or not all((Path(each) / META_PROPERTIES).exists() for each in config.log_dirs):
            missing = "server.properties" if config is None else "formatted data directory"
            raise ClusterError(
                f"{folder} has no {missing}, perhaps because the first start was interrupted; remove {directory} to create a new "
                "cluster, or restore the node"
            )
        ports = {each.listener: each.port for each in config.listeners}
        client = next((port for name, port in ports.items() if name not in config.controller_listener_names), 0)
        controller = next((port for name, port in ports.items() if name in config.controller_listener_names), 0)
        members.append(Member(config.node_id, folder, client, controller))
    return sorted(members)


def prepare(directory: Path, nodes: int | None, port: int | None, rng: random.Random) -> list[Member]:
    """Return the nodes of the cluster in the directory; create the cluster in an empty or missing directory.

    Raises ClusterError when the directory has other contents, or when its cluster differs in `nodes` or `port`.
    """
    members = existing_members(directory)
    if not members:
        if directory.exists() and any(directory.iterdir()):
            raise ClusterError(f"{directory} is not empty and contains no cluster; name an empty or a new directory")
        return create_cluster(directory, nodes or 3, port or 9092, rng)
    if nodes is not None and nodes != len(members):
        raise ClusterError(
            f"{directory} contains a cluster of {len(members)} nodes, not of {nodes}; omit --nodes, or name another directory"
        )
    if port is not None and port != members[0].port:
        raise ClusterError(
            f"{directory} contains a cluster whose first port is {members[0].port}, not {port}; omit --port, or edit `listeners`, "
            "`controller.quorum.bootstrap.servers` and the quorum in the files of all nodes"
        )
    return members


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Run a local cluster; inspect any cluster."""


command.add_command(id_)
command.add_command(list_endpoints)
command.add_command(unregister)


@command.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--nodes", type=click.IntRange(1, _MOST_NODES), help="Number of nodes of a new cluster; 3 by default.")
@click.option(
    "--port",
    type=click.IntRange(1, _HIGHEST_PORT - _CONTROLLER_PORTS - _MOST_NODES),
    help="Client port of the first node, 9092 by default; the other nodes use the next ports. A controller's port is 1000 higher.",
)
def start(directory: Path, nodes: int | None, port: int | None) -> None:
    """Start a cluster with one process per node.

    DIRECTORY has a folder for each node, with its server.properties, data and log. In a new or empty DIRECTORY a cluster is created; an
    existing cluster is started again. A node that stops unexpectedly is restarted. SIGTERM, SIGINT (Ctrl-C) and SIGHUP shut all nodes down.
    """
    members = prepare(directory.absolute(), nodes, port, random.SystemRandom())
    asyncio.run(_serve(directory, members))


async def _serve(directory: Path, members: list[Member]) -> None:
    import logging

    from odradek.server.start import ending
    from odradek.server.start.supervisor import NodeProcess, Supervisor

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s: %(message)s")
    begin = time.monotonic()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    ending.take(loop, lambda _: stopped.set())
    command = [sys.executable, "-m", "odradek.cli.main", "start"]
    supervisor = Supervisor([NodeProcess(each.name, [*command, str(each.properties)], str(each.log)) for each in members])
    starting = asyncio.create_task(supervisor.start())
    stop_wait = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((starting, stop_wait), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            with suppress(OSError):  # the cluster also runs without a standard output
                click.echo("\n".join(announcement(directory, members, time.monotonic() - begin)))
            await stop_wait
        else:
            starting.cancel()
            await asyncio.wait((starting,))
    finally:
        stop_wait.cancel()
        await supervisor.stop()
        if stopped.is_set():
            ending.ignore(loop)


def announcement(directory: Path, members: list[Member], seconds: float) -> list[str]:
    """Return the lines that `start` prints when all nodes are ready."""
    servers = ",".join(f"localhost:{each.port}" for each in members)
    lines = [f"A cluster of {len(members)} nodes is ready (started in {seconds:.2f} s)"]
    lines += [f"  {each.name}  PLAINTEXT://localhost:{each.port}  {each.folder}" for each in members]
    lines.append(f"  log     {directory}/node-*/node.log")
    lines.append(f"  try     echo hello | odradek produce --bootstrap-server {servers} --topic greetings")
    return lines


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    if arguments[:1] == ["cluster-id"]:  # the name in kafka-cluster.sh
        arguments = ["id", *arguments[1:]]
    if arguments[:1] == ["unregister"] and any(_NAMES_BROKER.fullmatch(each) for each in arguments):
        arguments = ["unregister", "--execute", *arguments[1:]]  # first, so that a later --dry-run overrides it
    return run(command, NAME, arguments)
