"""`storage format`, `storage info` and `storage random-uuid`: decisions and files, without the command line (StorageTool, Formatter).

Formatting writes the same files as Kafka 4.3:

- In each log directory: `bootstrap.checkpoint` with the first records of a new cluster, then `meta.properties`, which marks the directory
  as formatted.
- In the metadata log directory of a dynamic quorum (`standalone`, `initial_controllers`): a snapshot 0-0 with kraft.version and voters.

Features are finalized at the levels that Odradek supports, which may be lower than Kafka's defaults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.errors import OdradekError, StorageError
from odradek.base.ids import random_uuid, uuid_from_string, uuid_to_string
from odradek.config.keys.cluster import PROCESS_ROLES
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, Endpoint, Voter, VoterSet
from odradek.metadata import features
from odradek.metadata.versioned import VersionedRecord
from odradek.storage.meta_properties import MetaProperties, read_identities, read_meta_properties, write_meta_properties
from odradek.storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_directory_name,
)

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

METADATA_DIRECTORY: Final = "__cluster_metadata-0"

_OWN_FILES: Final = frozenset(
    {
        "bootstrap.checkpoint",
        CLEANER_OFFSET_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        META_PROPERTIES,
        RECOVERY_POINT_CHECKPOINT,
        REPLICATION_OFFSET_CHECKPOINT,
    }
)
"""Names of the files that a node writes in a log directory beside its logs."""


class FormatError(OdradekError):
    """Reason, in one line, why a directory cannot be formatted or described. The command ends with status 1."""


class ForeignDirectory(FormatError):
    """Directory to format that contains files of other programs."""


class FormatResult(NamedTuple):
    """Result of `format_storage`: `lines` to print, and the `directories` that were formatted."""

    lines: list[str]
    directories: list[str]


class InfoResult(NamedTuple):
    """Result of `storage_info`: `lines` to print, and whether there are `problems`, so that the command ends with status 1."""

    lines: list[str]
    problems: bool


def log_directories(config: BrokerConfig) -> list[str]:
    """Return log.dirs and metadata.log.dir, sorted and without duplicates."""
    return sorted({*config.log_dirs, config.metadata_log_dir})


# Voters --------------------------------------------------------------------------------------------------------------------


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Parse `id@host:port:directory id,...` of --initial-controllers (DynamicVoters). Raises FormatError when a voter is malformed."""
    voters: dict[int, Voter] = {}
    for part in (each.strip() for each in text.split(",")):
        if not part:
            continue
        try:
            voter = _parse_voter(part, listener)
        except FormatError as error:
            raise FormatError(f"{error} An initial controller has the form id@host:port:directory-id, but is {part}") from None
        if voter.id in voters:
            raise FormatError(f"Node id {voter.id} was specified more than once.")
        voters[voter.id] = voter
    if not voters:
        raise FormatError("No voters given.")
    return VoterSet(voters.values())


def _parse_voter(text: str, listener: str) -> Voter:
    node, at, rest = text.partition("@")
    if not at:
        raise FormatError("No @ found in dynamic voter string.")
    if not node:
        raise FormatError("Invalid @ at beginning of dynamic voter string.")
    node_id = _number(node, "Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise FormatError(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not rest:
        raise FormatError("No hostname found after node id.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise FormatError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise FormatError("Port section must start with a colon.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise FormatError("No colon following hostname could be found.")
    port_text, colon, directory = rest.partition(":")
    if not colon:
        raise FormatError("No colon following port could be found.")
    port = _number(port_text, "Failed to parse port in dynamic voter string.")
    if not 0 <= port <= 65535:
        raise FormatError(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = uuid_from_string(directory)
    except ValueError:
        raise FormatError("Failed to parse directory ID in dynamic voter string.") from None
    return Voter(node_id, directory_id, (Endpoint(listener, host, port),))


def _number(text: str, error: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise FormatError(error) from None


# Features ------------------------------------------------------------------------------------------------------------------


def bootstrap_records(release_version: str | None, chosen: Mapping[str, int]) -> list[VersionedRecord]:
    """Return the records of `bootstrap.checkpoint`: metadata.version, then the other features above level 0, by name.

    Raises FormatError for an unknown release or feature, for a level that is not supported, and for missing dependencies.
    """
    from odradek.protocol.messages.metadata_records import FeatureLevelRecord

    metadata_version = features.LATEST_METADATA_VERSION
    if release_version is not None:
        try:
            metadata_version = features.metadata_version_from_name(release_version)
        except ValueError as error:
            names = list(features.METADATA_VERSION_NAMES.values())
            raise FormatError(f"{error}; the releases are {names[0]} to {names[-1]}, and short forms such as 4.3") from None
    if features.METADATA_VERSION in chosen:
        if release_version is not None:
            raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
        metadata_version = chosen[features.METADATA_VERSION]
    if metadata_version not in features.METADATA_VERSION_NAMES:
        raise FormatError(f"No MetadataVersion with feature level {metadata_version}.")
    levels: dict[str, int] = {}
    for name in sorted(features.FEATURES):
        if name != features.KRAFT_VERSION:
            default = min(features.default_feature_level(name, metadata_version), features.SUPPORTED_LEVELS.get(name, 0))
            levels[name] = chosen.get(name, default)
    _check_features(chosen, levels)
    records = [VersionedRecord(FeatureLevelRecord(name=features.METADATA_VERSION, feature_level=metadata_version), 0)]
    records += [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in levels.items() if level > 0]
    return records


def _check_features(chosen: Mapping[str, int], levels: Mapping[str, int]) -> None:
    known = features.known_features()
    for name, level in chosen.items():
        if name not in known:
            names = ", ".join(sorted(each for each in features.supported_features() if each != features.METADATA_VERSION))
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {names}")
        if level not in known[name]:
            raise FormatError(f"Feature level {level} is not supported for feature {name}")
    for name, level in levels.items():
        if not features.is_supported(name, level):
            highest = features.SUPPORTED_LEVELS[name]
            raise FormatError(f"{name} {level} is not supported by Odradek yet; the highest supported level is {highest}.")


def check_finalized(levels: Mapping[str, int]) -> list[str]:
    """Return a warning for each finalized level that is kept but not supported yet.

    Raises StorageError for a feature or level that Kafka 4.3 does not know, because this release could misread its records.
    """
    known = features.known_features()
    warnings: list[str] = []
    for name, level in sorted(levels.items()):
        if name not in known or (level != 0 and level not in known[name]):
            which = f"levels {known[name].minimum} to {known[name].maximum} are" if name in known else "the feature is not"
            raise StorageError(f"The cluster has finalized {name} at level {level}; {which} known to this version.")
        if not features.is_supported(name, level):
            warnings.append(
                f"The cluster has finalized {name} at level {level}; the level is kept, but Odradek does not support that feature yet."
            )
    return warnings


# Format --------------------------------------------------------------------------------------------------------------------


def format_storage(
    disk: Disk,
    config: BrokerConfig,
    *,
    cluster_id: str,
    rng: random.Random,
    now_ms: int,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
    release_version: str | None = None,
    feature_levels: Mapping[str, int] | None = None,
    add_scram: Sequence[str] = (),
    random_bytes: Callable[[int], bytes] | None = None,
    ignore_formatted: bool = False,
) -> FormatResult:
    """Format the log directories of `config`.

    `add_scram` has credentials for the new cluster, as on the command line; `random_bytes` generates their salts. The caller passes at most
    one of `standalone`, `initial_controllers` and `no_initial_controllers`.

    Raises FormatError or OSError when formatting fails. Then each directory is either formatted completely or not formatted.
    """
    chosen = dict(feature_levels or {})
    directories = log_directories(config)
    if not config[PROCESS_ROLES]:
        raise FormatError(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only supported for clusters in KRaft mode."
        )
    if not cluster_id:
        raise FormatError("You must specify the cluster id; `odradek storage random-uuid` prints a new one.")
    metadata_directory_id = random_uuid(rng)
    voters = _initial_voters(config, standalone, initial_controllers, no_initial_controllers, metadata_directory_id)
    kraft_version = _kraft_version(chosen, dynamic=not config.controller_quorum_voters)
    records = bootstrap_records(release_version, chosen)
    records += _scram_records(add_scram, _level_of(records), random_bytes or rng.randbytes)
    lines: list[str] = []
    empty = _unformatted(disk, config, directories, cluster_id, ignore_formatted=ignore_formatted, lines=lines)
    if not empty:
        lines.append("All of the log directories are already formatted.")
        return FormatResult(lines, [])
    lines.append(_describe_bootstrap(records))
    own = voters.get(config.node_id) if voters is not None else None
    if own is not None and own.directory_id is not None:
        metadata_directory_id = own.directory_id
    release = features.METADATA_VERSION_NAMES[_level_of(records)]
    for directory in sorted(empty, key=lambda each: each != config.metadata_log_dir):
        is_metadata = directory == config.metadata_log_dir
        kind = _directory_kind(is_metadata, voters, config.node_id)
        lines.append(f"Formatting {kind} {directory} with metadata.version {release}.")
        directory_id = metadata_directory_id if is_metadata else random_uuid(rng)
        disk.makedirs(directory)
        _write_bootstrap(disk, directory, records, now_ms)
        if is_metadata and voters is not None:
            _write_initial_snapshot(disk, directory, voters, kraft_version, now_ms)
        write_meta_properties(disk, directory, MetaProperties(cluster_id, config.node_id, directory_id))
    return FormatResult(lines, empty)


def _initial_voters(
    config: BrokerConfig, standalone: bool, initial_controllers: str | None, no_initial_controllers: bool, directory_id: UUID
) -> VoterSet | None:
    static = bool(config.controller_quorum_voters)
    if static and (standalone or initial_controllers is not None):
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "
            "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if initial_controllers is not None:
        names = config.controller_listener_names
        if not names:
            raise FormatError("You must specify the name of the initial controller listener.")
        return parse_initial_controllers(initial_controllers, names[0])
    if standalone:
        if not config.is_controller:
            raise FormatError("You can only use --standalone on a controller.")
        endpoints = config.advertised_controller_listeners
        if not endpoints:
            raise FormatError("No controller listeners found.")
        first = endpoints[0]
        return VoterSet([Voter(config.node_id, directory_id, (Endpoint(first.listener, first.host or "localhost", first.port),))])
    if not no_initial_controllers and config.is_controller and not static:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, "
            "--initial-controllers, or --no-initial-controllers. Use --standalone for a cluster with a single node."
        )
    return None


def _kraft_version(chosen: Mapping[str, int], *, dynamic: bool) -> int:
    level = chosen.get(features.KRAFT_VERSION)
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers"
    if level is None:
        return 1 if dynamic else 0
    if level == 0 and dynamic:
        raise FormatError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and {flags} is used. For dynamic controllers support, "
            "try removing the --feature flag for kraft.version."
        )
    if level > 0 and not dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and {flags} is used. For dynamic controllers "
            "support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )
    return level


def _unformatted(
    disk: Disk, config: BrokerConfig, directories: Sequence[str], cluster_id: str, *, ignore_formatted: bool, lines: list[str]
) -> list[str]:
    """Return the directories without meta.properties. Raises FormatError unless the other ones belong to this cluster and node."""
    identities = read_identities(disk, directories)
    for directory in identities.failed:
        lines.append(f"I/O error trying to read log directory {directory}. Ignoring...")
    if not identities.formatted and not identities.empty:
        reasons = [f"{path}: {error.strerror if isinstance(error, OSError) else error}" for path, error in identities.failed.items()]
        raise FormatError(f"No available log directories to format: {'; '.join(reasons)}")
    for directory in identities.empty:
        _refuse_foreign(disk, directory)
    for directory, properties in identities.formatted.items():
        if not ignore_formatted:
            raise FormatError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
            )
        path = f"{directory}/{META_PROPERTIES}"
        if properties.cluster_id != cluster_id:
            raise FormatError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}; the directory belongs to "
                "that cluster."
            )
        if properties.node_id != config.node_id:
            raise FormatError(f"Stored node id {properties.node_id} doesn't match the configured node id {config.node_id} in {path}.")
    return identities.empty


def _refuse_foreign(disk: Disk, directory: str) -> None:
    """Raise ForeignDirectory when the directory contains anything that no Kafka node leaves there, even after a crash.

    Kafka formats such a directory. Kafka's broker then refuses to start if the directory contains a foreign folder.
    """
    if not disk.is_dir(directory):
        return
    foreign = [name for name in disk.listdir(directory) if not _may_be_from_kafka(disk, directory, name)]
    if foreign:
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ForeignDirectory(f"{directory} is not formatted and not empty: it contains {shown}; a log directory must be new, or empty")


def _may_be_from_kafka(disk: Disk, directory: str, name: str) -> bool:
    """Return whether a Kafka node may have left the entry: a hidden file, lost+found, a checkpoint file or a log."""
    if name.startswith(".") or name == "lost+found":
        return True
    if not disk.is_dir(f"{directory}/{name}"):
        return name.removesuffix(".tmp") in _OWN_FILES
    try:
        parse_directory_name(name)
    except StorageError:
        return False
    return True


def _directory_kind(is_metadata: bool, voters: VoterSet | None, node_id: int) -> str:
    if not is_metadata:
        return "data directory"
    if voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if voters.get(node_id) is not None else "dynamic metadata directory"


def _level_of(records: Sequence[VersionedRecord]) -> int:
    from odradek.protocol.messages.metadata_records import FeatureLevelRecord

    message = records[0].message
    assert isinstance(message, FeatureLevelRecord)
    return message.feature_level


def _describe_bootstrap(records: Sequence[VersionedRecord]) -> str:
    from odradek.protocol.messages.metadata_records import FeatureLevelRecord

    levels = [record.message for record in records if isinstance(record.message, FeatureLevelRecord)]
    return "Bootstrap metadata: " + ", ".join(f"{each.name}={each.feature_level}" for each in levels) + "."


def _scram_records(arguments: Sequence[str], metadata_version: int, random_bytes: Callable[[int], bytes]) -> list[VersionedRecord]:
    if not arguments:
        return []
    from odradek.controller.core.scram import SCRAM_SINCE
    from odradek.controller.scram_arguments import ScramArgumentError, scram_records

    if metadata_version < SCRAM_SINCE:
        raise FormatError(f"SCRAM is only supported in metadata.version {features.METADATA_VERSION_NAMES[SCRAM_SINCE]} or later.")
    try:
        return scram_records(arguments, random_bytes)
    except ScramArgumentError as error:
        raise FormatError(str(error)) from None


def _write_bootstrap(disk: Disk, directory: str, records: Sequence[VersionedRecord], now_ms: int) -> None:
    from odradek.controller.kraft.bootstrap import BOOTSTRAP_CHECKPOINT, encode_bootstrap

    disk.write_atomic(f"{directory}/{BOOTSTRAP_CHECKPOINT}", encode_bootstrap(records, now_ms))


def _write_initial_snapshot(disk: Disk, directory: str, voters: VoterSet, kraft_version: int, now_ms: int) -> None:
    from odradek.controller.kraft.snapshots import encode_snapshot, write_snapshot

    target = f"{directory}/{METADATA_DIRECTORY}"
    disk.makedirs(target)
    batches = encode_snapshot([], epoch=0, last_contained_log_time_ms=now_ms, now_ms=now_ms, kraft_version=kraft_version, voters=voters)
    write_snapshot(disk, target, BOOTSTRAP_SNAPSHOT_ID, batches)
    disk.fsync_dir(directory)


# Info ----------------------------------------------------------------------------------------------------------------------


def storage_info(disk: Disk, config: BrokerConfig) -> InfoResult:
    """Return the output of `storage info`: the log directories, the content of their meta.properties, and problems."""
    directories = log_directories(config)
    found = [directory for directory in directories if disk.is_dir(directory)]
    problems = [
        f"{directory} is not a directory" if disk.exists(directory) else f"{directory} does not exist"
        for directory in directories
        if directory not in found
    ]
    identity: MetaProperties | None = None
    for directory in found:
        try:
            properties = read_meta_properties(disk, directory)
        except StorageError as error:
            problems.append(str(error))  # The text names the file.
            continue
        except OSError as error:
            problems.append(f"Error loading {directory}/{META_PROPERTIES}: {error.strerror or error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif identity is None:
            identity = properties
        else:
            if properties.cluster_id != identity.cluster_id:
                problems.append("Mismatched cluster IDs between storage directories.")
            if properties.node_id != identity.node_id:
                problems.append("Mismatched node IDs between storage directories.")
    lines: list[str] = []
    if found:
        lines += ["Found log directory:" if len(found) == 1 else "Found log directories:", *(f"  {each}" for each in found), ""]
    if identity is not None:
        lines += [f"Found metadata: {_describe(identity)}", ""]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:", *(f"  {each}" for each in problems), ""]
    return InfoResult(lines, bool(problems))


def _describe(properties: MetaProperties) -> str:
    fields = [f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        fields.append(f"directory.id={uuid_to_string(properties.directory_id)}")
    fields += [f"node.id={properties.node_id}", f"version={properties.version}"]
    return "{" + ", ".join(fields) + "}"
