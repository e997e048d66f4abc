"""Features of the cluster, and the effect of each metadata.version on records (org.apache.kafka.server.common.MetadataVersion, Feature)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

MINIMUM_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 30
"""metadata.version 4.3-IV0, the latest production level of Kafka 4.3."""

METADATA_VERSION_NAMES: dict[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""Release by feature level. A Kafka 4.3 can start from levels 7 (3.3-IV3) and above."""


CHANGED_METADATA: frozenset[int] = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that introduced records or fields which the level before cannot store (MetadataVersion.didMetadataChange)."""


class VersionRange(NamedTuple):
    """Range of a feature's levels, both bounds inclusive."""

    minimum: int
    maximum: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.minimum <= level <= self.maximum

    def __str__(self) -> str:
        return f"{self.minimum}-{self.maximum}"


class FeatureVersion(NamedTuple):
    """Level of a feature, with the first metadata.version that has it as default and the levels of other features that it needs."""

    level: int
    bootstrap_metadata_version: int
    dependencies: tuple[tuple[str, int], ...] = ()


FEATURES: dict[str, tuple[FeatureVersion, ...]] = {
    KRAFT_VERSION: (FeatureVersion(0, 7), FeatureVersion(1, 21)),
    "transaction.version": (FeatureVersion(0, 7), FeatureVersion(1, 24), FeatureVersion(2, 24)),
    "group.version": (FeatureVersion(0, 7), FeatureVersion(1, 22)),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (FeatureVersion(0, 7), FeatureVersion(1, 26, ((METADATA_VERSION, 23),))),
    "share.version": (FeatureVersion(0, 7), FeatureVersion(1, 28)),
    "streams.version": (FeatureVersion(0, 7), FeatureVersion(1, 29)),
}
"""Production features of Kafka 4.3 besides metadata.version, with their levels in ascending order."""

SUPPORTED_LEVELS: dict[str, int] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    "share.version": 0,
    "streams.version": 0,
    "transaction.version": 2,
}
"""Highest level of each feature that Odradek supports. Every level of metadata.version and kraft.version is supported."""


def known_features() -> dict[str, VersionRange]:
    """Return the levels of each feature of Kafka 4.3, including metadata.version (QuorumFeatures.defaultSupportedFeatureMap).

    A finalized level in the metadata must be one of these. Levels above those of `supported_features` are not supported.
    """
    ranges = {METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION)}
    for name, versions in FEATURES.items():
        ranges[name] = VersionRange(versions[0].level, versions[-1].level)
    return ranges


def is_supported(name: str, level: int) -> bool:
    """Return whether Odradek supports this level of a feature of Kafka 4.3. Level 0 is always supported."""
    return level <= SUPPORTED_LEVELS.get(name, level)


def supported_features() -> dict[str, VersionRange]:
    """Return the levels that Odradek supports: clients see them, and `registered_features` starts from them.

    A feature of which only level 0 is supported is left out. Kafka likewise leaves out features that are not in production.
    """
    return {
        name: VersionRange(levels.minimum, highest)
        for name, levels in known_features().items()
        if (highest := min(levels.maximum, SUPPORTED_LEVELS.get(name, levels.maximum))) > 0
    }


def registered_features(finalized: Mapping[str, int]) -> dict[str, VersionRange]:
    """Return the levels that a broker registers: those that it supports and, if the cluster has finalized others, these too.

    A controller refuses a broker that lacks a finalized level (ClusterControlManager.processRegistrationFeature). JVM Kafka formats with
    levels of share.version and streams.version that Odradek does not support. Such levels are registered only where they are finalized
    already. Otherwise a JVM controller could finalize them because brokers claim to support them.
    """
    registered = supported_features()
    for name, levels in known_features().items():
        level = finalized.get(name, 0)
        if level in levels and not is_supported(name, level):
            registered[name] = VersionRange(levels.minimum, level)
    return registered


def default_feature_level(name: str, metadata_version: int) -> int:
    """Return the level that a cluster formatted at `metadata_version` gets (Feature.defaultLevel)."""
    level = FEATURES[name][0].level
    for version in FEATURES[name]:
        if version.bootstrap_metadata_version <= metadata_version:
            level = version.level
    return level


def dependencies(name: str, level: int) -> tuple[tuple[str, int], ...]:
    """Return the levels of other features that this level needs. Raises ValueError for an unknown feature or level."""
    if name not in FEATURES:
        raise ValueError(f"the feature {name} does not exist")
    for version in FEATURES[name]:
        if version.level == level:
            return version.dependencies
    raise ValueError(f"the feature {name} has no level {level}")


def metadata_would_be_lost(current: int, target: int) -> bool:
    """Return whether the log may hold data that the lower metadata.version `target` cannot store (checkIfMetadataChanged)."""
    return any(target < level <= current for level in CHANGED_METADATA)


def metadata_version_from_name(text: str) -> int:
    """Return the level of `4.3-IV0`, `4.3` or a number (MetadataVersion.fromVersionString). Raises ValueError for an unknown release."""
    if text.isdecimal() and int(text) in METADATA_VERSION_NAMES:
        return int(text)
    matching = [level for level, name in METADATA_VERSION_NAMES.items() if text == name or text == name.split("-", 1)[0]]
    if not matching:
        raise ValueError(f"Unknown metadata.version {text!r}")
    return max(matching)


def register_broker_record_version(metadata_version: int) -> int:
    if metadata_version >= 30:
        return 4
    if metadata_version >= 17:
        return 3
    return 2 if metadata_version >= 8 else 1


def partition_record_version(metadata_version: int) -> int:
    if metadata_version >= 23:
        return 2
    return 1 if metadata_version >= 17 else 0


def partition_change_record_version(metadata_version: int) -> int:
    return partition_record_version(metadata_version)


def directory_assignment_supported(metadata_version: int) -> bool:
    """Return whether partitions record the log directory of each replica (KIP-858)."""
    return metadata_version >= 17


def cordoned_log_dirs_supported(metadata_version: int) -> bool:
    """Return whether registrations record log directories that accept no new partitions (KIP-1066)."""
    return metadata_version >= 30


def elr_supported(metadata_version: int) -> bool:
    """Return whether partitions can record eligible leader replicas (KIP-966)."""
    return metadata_version >= 23


def controller_registration_supported(metadata_version: int) -> bool:
    return metadata_version >= 15


def leader_epoch_bump_on_isr_shrink(metadata_version: int) -> bool:
    """Return whether the removal of a replica from the ISR must bump the leader epoch, for followers of older releases."""
    return metadata_version < 12
