"""Feature levels of releases, and dependencies between features, for `odradek storage` and `odradek features`."""

from __future__ import annotations

import click

from odradek.base.errors import OdradekError
from odradek.cli.shared.client_command import parse_levels
from odradek.metadata import features


def release_level(release: str) -> int:
    """Return the metadata.version of a release of Kafka. Raises OdradekError for an unknown release."""
    names = list(features.METADATA_VERSION_NAMES.values())
    try:
        return features.metadata_version_from_name(release)
    except ValueError as error:
        raise OdradekError(f"{error}; the releases are {names[0]} to {names[-1]}, and short forms such as 4.3") from None


def release_levels(release: str) -> dict[str, int]:
    """Return the levels of all features in a new cluster of this release of Kafka. Raises OdradekError for an unknown release."""
    level = release_level(release)
    return {features.METADATA_VERSION: level, **{name: features.default_feature_level(name, level) for name in features.FEATURES}}


@click.command(name="version-mapping")
@click.option("-r", "--release-version", metavar="VERSION", help="The release, such as 4.0; the latest by default.")
def version_mapping(release_version: str | None) -> None:
    """Print the feature levels of a release of Kafka."""
    release = release_version or list(features.METADATA_VERSION_NAMES.values())[-1]
    for name, level in release_levels(release).items():
        if name == features.METADATA_VERSION:
            click.echo(f"{name}={level} ({release})")
        else:
            click.echo(f"{name}={level}")
            _note_unsupported(name, level)


def _note_unsupported(name: str, level: int) -> None:
    """Print on standard error when Odradek does not support this level. Standard output stays equal to that of Kafka's script."""
    if not features.is_supported(name, level):
        command = " ".join(click.get_current_context().command_path.split()[:2])
        remark = f"{name}={level} is not supported by Odradek yet; `odradek storage format` uses level {features.SUPPORTED_LEVELS[name]}"
        click.echo(f"{command}: {remark}", err=True)


@click.command(name="feature-dependencies")
@click.option(
    "-f", "--feature", "texts", multiple=True, required=True, metavar="NAME=LEVEL", help="The level of a feature; may be repeated."
)
def feature_dependencies(texts: tuple[str, ...]) -> None:
    """Print the dependencies of feature levels."""
    lines: list[str] = []
    for name, level in parse_levels(texts).items():
        if name == features.METADATA_VERSION:
            if level not in features.METADATA_VERSION_NAMES:
                known = sorted(features.METADATA_VERSION_NAMES)
                raise OdradekError(f"Unknown metadata.version {level}; the levels are {known[0]} to {known[-1]}")
            lines.append(f"{name}={level} ({features.METADATA_VERSION_NAMES[level]}) has no dependencies.")
            continue
        try:
            needed = features.dependencies(name, level)
        except ValueError as error:
            raise OdradekError(f"{error}; `odradek storage version-mapping` lists features and levels") from None
        lines.append(f"{name}={level} requires:" if needed else f"{name}={level} has no dependencies.")
        for other, least in needed:
            release = f" ({features.METADATA_VERSION_NAMES[least]})" if other == features.METADATA_VERSION else ""
            lines.append(f"    {other}={least}{release}")
        _note_unsupported(name, level)
    click.echo("\n".join(lines))
