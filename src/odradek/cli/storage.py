"""`odradek storage format|info|version-mapping|feature-dependencies|random-uuid`: kafka-storage.sh's options and output; and `scrub`,
which Kafka has not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from odradek.base.errors import OdradekError

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

_PROGRESS_SECONDS = 2.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odradek storage", description="Formats and inspects the log directories of a node.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="say what is in the log directories")
    form = commands.add_parser("format", help="format the log directories")
    mapping = commands.add_parser("version-mapping", help="print the levels of features that belong to a release of Kafka")
    mapping.add_argument("-r", "--release-version", metavar="VERSION", help="the release, such as 4.0; the latest when left out")
    depending = commands.add_parser("feature-dependencies", help="print the levels of other features that levels need")
    depending.add_argument("-f", "--feature", action="append", required=True, metavar="NAME=LEVEL", help="may be repeated")
    commands.add_parser("random-uuid", help="print a new id for a cluster or a directory")
    scrub = commands.add_parser("scrub", help="read all logs of a stopped broker and list what is damaged")
    scrub.add_argument("config", metavar="CONFIG", help="the node's server.properties")
    scrub.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    for command in (info, form):
        command.add_argument("-c", "--config", required=True, metavar="FILE", help="the node's server.properties")
    form.add_argument("-t", "--cluster-id", required=True, help="the id of the cluster, the same on all of its nodes")
    form.add_argument("-g", "--ignore-formatted", action="store_true", help="skip directories that are formatted instead of failing")
    form.add_argument("-r", "--release-version", metavar="VERSION", help="the release whose features the cluster begins with, such as 4.3")
    form.add_argument("-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="the level of a feature; may be repeated")
    quorum = form.add_mutually_exclusive_group()
    quorum.add_argument("-s", "--standalone", action="store_true", help="this controller is a quorum of its own, which others may join")
    quorum.add_argument("-N", "--no-initial-controllers", action="store_true", help="this node joins a quorum that exists")
    quorum.add_argument("-I", "--initial-controllers", metavar="LIST", help="the first voters: id@host:port:directory-id,...")
    return parser


class _Failure(OdradekError):
    """A file or an argument that cannot be used; one line."""


def main(arguments: list[str]) -> int:
    """Runs the command; 0 when it did what was asked, 1 when it could not."""
    options = _parser().parse_args(arguments)
    rng = random.SystemRandom()
    if options.command == "random-uuid":
        from odradek.controller.format import random_uuid

        print(random_uuid(rng))
        return 0
    if options.command == "version-mapping":
        return _version_mapping(options.release_version)
    if options.command == "feature-dependencies":
        return _feature_dependencies(options.feature)
    from odradek.config.broker import load_broker_config
    from odradek.controller.format import format_storage, storage_info
    from odradek.storage.disk import OsDisk

    try:
        with open(options.config, encoding="utf-8") as file:
            config = load_broker_config(file.read())
        if options.command == "info":
            info = storage_info(OsDisk(), config)
            print("\n".join(info.lines))
            return 1 if info.problems else 0
        if options.command == "scrub":
            return _scrub(config, quiet=options.quiet)
        result = format_storage(
            OsDisk(),
            config,
            cluster_id=options.cluster_id,
            rng=rng,
            now_ms=time.time_ns() // 1_000_000,
            standalone=options.standalone,
            initial_controllers=options.initial_controllers,
            no_initial_controllers=options.no_initial_controllers,
            release_version=options.release_version,
            feature_levels=_levels(options.feature),
            ignore_formatted=options.ignore_formatted,
        )
    except (OSError, UnicodeDecodeError) as error:
        raise _Failure(str(error)) from None
    print("\n".join(result.lines))
    return 0


def _version_mapping(release: str | None) -> int:
    from odradek.metadata import features

    release = release or features.METADATA_VERSION_NAMES[features.LATEST_METADATA_VERSION]
    try:
        level = features.metadata_version_from_name(release)
    except ValueError as error:
        raise _Failure(str(error)) from None
    print(f"{features.METADATA_VERSION}={level} ({release})")
    for name in features.FEATURES:
        print(f"{name}={features.default_feature_level(name, level)}")
    return 0


def _feature_dependencies(texts: list[str]) -> int:
    from odradek.metadata import features

    lines: list[str] = []
    for name, level in (pair for text in texts for pair in _levels([text]).items()):
        if name == features.METADATA_VERSION:
            if level not in features.METADATA_VERSION_NAMES:
                raise _Failure(f"Unknown metadata.version {level}")
            lines.append(f"{name}={level} ({features.METADATA_VERSION_NAMES[level]}) has no dependencies.")
            continue
        try:
            needed = features.dependencies(name, level)
        except ValueError as error:
            raise _Failure(str(error)) from None
        lines.append(f"{name}={level} requires:" if needed else f"{name}={level} has no dependencies.")
        for other, least in needed:
            release = f" ({features.METADATA_VERSION_NAMES[least]})" if other == features.METADATA_VERSION else ""
            lines.append(f"    {other}={least}{release}")
    print("\n".join(lines))
    return 0


def _scrub(config: BrokerConfig, *, quiet: bool) -> int:
    """One line a finding; 1 when there is damage that no recovery mends."""
    from odradek.controller.format import log_directories
    from odradek.storage.disk import OsDisk
    from odradek.storage.scrub import Progress, scrub

    logs = bytes_read = damaged = recovered = 0
    told = time.monotonic()

    def on_progress(progress: Progress) -> None:
        nonlocal logs, bytes_read, told
        logs, bytes_read = progress.logs, progress.bytes_read
        if not quiet and time.monotonic() - told >= _PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"{progress.directory}/{progress.log}: {bytes_read / 1e6:.0f} MB of {logs} logs read", file=sys.stderr)

    for finding in scrub(OsDisk(), log_directories(config), on_progress):
        recovered += finding.unflushed
        damaged += not finding.unflushed
        print(finding, flush=True)
    mended = f", {recovered} that the next start recovers" if recovered else ""
    print(f"{damaged} findings{mended} in {logs} logs, {bytes_read / 1e6:.1f} MB read", file=sys.stderr)
    return 1 if damaged else 0


def _levels(texts: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdecimal():
            raise _Failure(f"--feature {text}: this must be name=level")
        levels[name.strip()] = int(level)
    return levels


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
