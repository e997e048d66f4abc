"""`odradek storage format|info|version-mapping|feature-dependencies|random-uuid`, with the options and the output of kafka-storage.sh.

Kafka has no counterpart of the subcommand `scrub`.
"""

from __future__ import annotations

import random
import sys
import time

import click

from odradek.cli.configs.feature_tables import feature_dependencies, version_mapping
from odradek.cli.node.server_properties import load_server_properties
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, parse_levels, run
from odradek.config.broker import BrokerConfig

_PROGRESS_SECONDS = 2.0

_config_option = click.option("-c", "--config", "file", required=True, metavar="FILE", help="The node's server.properties.")


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Format, inspect and check log directories."""


@command.command()
@_config_option
def info(file: str) -> int:
    """Show the state of the log directories.

    The exit status is 1 if there is a problem.
    """
    from odradek.controller.format import storage_info
    from odradek.storage.disk import OsDisk

    found = storage_info(OsDisk(), load_server_properties(file))
    click.echo("\n".join(found.lines))
    return 1 if found.problems else 0


@command.command(name="format")
@_config_option
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The id of the cluster, the same on all of its nodes.")
@click.option("-s", "--standalone", is_flag=True, help="This controller is the only voter. Odradek's quorum cannot add voters yet.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="This node joins an existing quorum.")
@click.option("-I", "--initial-controllers", metavar="LIST", help="The first voters: id@host:port:directory-id,...")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip formatted directories instead of failing.")
@click.option("-r", "--release-version", metavar="VERSION", help="The release whose feature levels the new cluster gets, such as 4.3.")
@click.option(
    "-S",
    "--add-scram",
    multiple=True,
    metavar="CREDENTIAL",
    help="A SCRAM credential for the new cluster: 'SCRAM-SHA-256=[name=alice,password=secret]'; may be repeated.",
)
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="The level of a feature; may be repeated.")
def format_(
    file: str,
    cluster_id: str,
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    add_scram: tuple[str, ...],
) -> None:
    """Format the log directories.

    For a cluster of one node: odradek storage format -c FILE -t $(odradek storage random-uuid) --standalone
    """
    from odradek.controller.format import format_storage
    from odradek.storage.disk import OsDisk

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError("give only one of -s, -N and -I")
    result = format_storage(
        OsDisk(),
        load_server_properties(file),
        cluster_id=cluster_id,
        rng=random.SystemRandom(),
        now_ms=time.time_ns() // 1_000_000,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        release_version=release_version,
        feature_levels=parse_levels(features),
        add_scram=add_scram,
        random_bytes=random.SystemRandom().randbytes,
        ignore_formatted=ignore_formatted,
    )
    click.echo("\n".join(result.lines))


@command.command(name="random-uuid")
def random_uuid() -> None:
    """Print a new id for a cluster or a directory."""
    from odradek.base import ids

    click.echo(ids.uuid_to_string(ids.random_uuid(random.SystemRandom())))


command.add_command(version_mapping)
command.add_command(feature_dependencies)


@command.command()
@click.argument("file", metavar="FILE")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress on standard error.")
def scrub(file: str, quiet: bool) -> int:
    """Read all logs and list damage.

    FILE is the node's server.properties; the node must be stopped. Prints one line for each finding. The exit status is 1 if there is
    damage that the recovery at the next start cannot repair.
    """
    return _scrub(load_server_properties(file), quiet=quiet)


def _scrub(config: BrokerConfig, *, quiet: bool) -> int:
    from odradek.controller.format import log_directories
    from odradek.storage.disk import OsDisk
    from odradek.storage.scrub import ScrubProgress, scrub

    logs = bytes_read = damaged = recovered = 0
    last_report = time.monotonic()

    def on_progress(progress: ScrubProgress) -> None:
        nonlocal logs, bytes_read, last_report
        logs, bytes_read = progress.logs, progress.bytes_read
        if not quiet and time.monotonic() - last_report >= _PROGRESS_SECONDS:
            last_report = time.monotonic()
            print(f"{progress.directory}/{progress.log}: {bytes_read / 1e6:.0f} MB of {logs} logs read", file=sys.stderr)

    for finding in scrub(OsDisk(), log_directories(config), on_progress):
        recovered += finding.unflushed
        damaged += not finding.unflushed
        print(finding, flush=True)
    mended = f", {recovered} that the next start recovers" if recovered else ""
    print(f"{_counted(damaged, 'finding')}{mended} in {_counted(logs, 'log')}, {bytes_read / 1e6:.1f} MB read", file=sys.stderr)
    return 1 if damaged else 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek storage", arguments)
