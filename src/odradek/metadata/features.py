"""Features of the cluster, and what each metadata.version means for records (org.apache.kafka.server.common.MetadataVersion, Feature)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

MINIMUM_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 30
"""4.3-IV0, the latest of production in Kafka 4.3."""

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
"""Feature level -> release. Levels from 7 (3.3-IV3) are what a Kafka 4.3 can start from."""


CHANGED_METADATA: frozenset[int] = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought records or fields which the level before cannot hold (MetadataVersion.didMetadataChange)."""


class VersionRange(NamedTuple):
    """Inclusive bounds of a feature's level."""

    minimum: int
    maximum: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.minimum <= level <= self.maximum

    def __str__(self) -> str:
        return f"{self.minimum}-{self.maximum}"


class FeatureVersion(NamedTuple):
    """A level of a feature: the first metadata.version whose default it is, and the levels of other features it needs."""

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
"""Every production feature of Kafka 4.3 besides metadata.version, lowest level first."""

SERVED_LEVELS: dict[str, int] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    "share.version": 0,
    "streams.version": 0,
    "transaction.version": 2,
}
"""The highest level of each feature that Odradek serves; metadata.version and kraft.version are served whole."""


def known_features() -> dict[str, VersionRange]:
    """The levels of every feature of Kafka 4.3, metadata.version included (QuorumFeatures.defaultSupportedFeatureMap).

    A finalized level that is found in the metadata must be one of these; levels above those of `supported_features` are not served.
    """
    ranges = {METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION)}
    for name, versions in FEATURES.items():
        ranges[name] = VersionRange(versions[0].level, versions[-1].level)
    return ranges


def is_served(name: str, level: int) -> bool:
    """Whether Odradek serves this level of a feature of Kafka 4.3; level 0 asks for nothing."""
    return level <= SERVED_LEVELS.get(name, level)


def supported_features() -> dict[str, VersionRange]:
    """The levels that Odradek serves: what it tells clients, and the basis of what it registers.

    A feature of which only level 0 is served is left out, as Kafka leaves out its own that are not in production yet.
    """
    return {
        name: VersionRange(levels.minimum, highest)
        for name, levels in known_features().items()
        if (highest := min(levels.maximum, SERVED_LEVELS.get(name, levels.maximum))) > 0
    }


def registered_features(finalized: Mapping[str, int]) -> dict[str, VersionRange]:
    """What a broker registers in a cluster that has finalized these levels: those that it serves, and those that are finalized without it.

    A controller refuses a broker that does not name a finalized level (ClusterControlManager.processRegistrationFeature), and JVM Kafka
    formats with levels of share.version and streams.version that Odradek does not serve. They are named where they are finalized already,
    and not otherwise, so that no JVM controller raises them because our brokers say that they serve them.
    """
    registered = supported_features()
    for name, levels in known_features().items():
        level = finalized.get(name, 0)
        if level in levels and not is_served(name, level):
            registered[name] = VersionRange(levels.minimum, level)
    return registered


def default_feature_level(name: str, metadata_version: int) -> int:
    """The level a cluster formatted at `metadata_version` gets (Feature.defaultLevel)."""
    level = FEATURES[name][0].level
    for version in FEATURES[name]:
        if version.bootstrap_metadata_version <= metadata_version:
            level = version.level
    return level


def dependencies(name: str, level: int) -> tuple[tuple[str, int], ...]:
    """The levels of other features that this one needs; ValueError for a feature or a level that does not exist."""
    if name not in FEATURES:
        raise ValueError(f"there is no feature {name}")
    for version in FEATURES[name]:
        if version.level == level:
            return version.dependencies
    raise ValueError(f"{name} has no level {level}")


def metadata_would_be_lost(current: int, target: int) -> bool:
    """Whether the log may hold what cannot be written at the lower metadata.version `target` (checkIfMetadataChanged)."""
    return any(target < level <= current for level in CHANGED_METADATA)


def metadata_version_from_name(text: str) -> int:
    """`4.3-IV0`, `4.3`, or a number -> feature level; ValueError for an unknown one (MetadataVersion.fromVersionString)."""
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
    """Whether partitions record the log directory of each replica (KIP-858)."""
    return metadata_version >= 17


def cordoned_log_dirs_supported(metadata_version: int) -> bool:
    """Whether registrations record the log directories that take no new partitions (KIP-1066)."""
    return metadata_version >= 30


def elr_supported(metadata_version: int) -> bool:
    """Whether partitions can record eligible leader replicas (KIP-966)."""
    return metadata_version >= 23


def controller_registration_supported(metadata_version: int) -> bool:
    return metadata_version >= 15


def leader_epoch_bump_on_isr_shrink(metadata_version: int) -> bool:
    """Whether removing a replica from the ISR must bump the leader epoch, for followers of older releases."""
    return metadata_version < 12
