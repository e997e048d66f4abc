"""`meta.properties`, the identity card of a log directory (org.apache.kafka.metadata.properties, KIP-631, KIP-858)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.errors import ConfigError, StorageError
from odradek.base.ids import uuid_from_string, uuid_to_string
from odradek.config.properties import parse_properties
from odradek.storage.names import META_PROPERTIES

_RESERVED_DIRECTORY_IDS = 100
_NODE_ID_KEYS = {"0": "broker.id", "1": "node.id"}
"""Key of the node's id by version of the file."""


class NotFormatted(StorageError):
    """Log directories that have no meta.properties. `cluster_id` is that of the others, None when there are none."""

    def __init__(self, directories: Sequence[str], cluster_id: str | None = None, remark: str = "") -> None:
        self.directories = list(directories)
        self.cluster_id = cluster_id
        which = "the log directories are" if len(self.directories) > 1 else "the log directory is"
        super().__init__(f"No {META_PROPERTIES} found in {', '.join(self.directories)}: {which} not formatted{remark}")


class UnusableDirectory(StorageError):
    """A log directory that the node cannot do without, and that is no directory or cannot be read."""


class MetaProperties(NamedTuple):
    """Owner of a log directory. `directory_id` is None in directories formatted before KIP-858.

    A cluster that was migrated from ZooKeeper keeps version 0, which has `broker.id` in the place of `node.id`; a file is rewritten in the
    version that it had.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID | None = None
    version: int = 1


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """None when the directory is not formatted; StorageError when the file makes no sense, OSError when it cannot be read."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        fields = parse_properties(disk.read_bytes(path).decode("utf-8", "replace"))
    except FileNotFoundError:
        return None
    except ConfigError as error:
        raise StorageError(f"{path}: {error}") from None
    version = fields.get("version", "0")
    if version not in _NODE_ID_KEYS:
        raise StorageError(f"{path}: version {version} is unknown; versions 0 and 1 can be used")
    cluster_id = fields.get("cluster.id")
    if not cluster_id:
        raise StorageError(f"{path}: cluster.id is missing")
    node_id_key = _NODE_ID_KEYS[version]
    node_id = fields.get(node_id_key, "")
    if not node_id.isdecimal():
        raise StorageError(f"{path}: {node_id_key} is {'missing' if not node_id else f'{node_id!r}, not a number'}")
    text = fields.get("directory.id")
    try:
        directory_id = uuid_from_string(text) if text else None
    except ValueError as error:
        raise StorageError(f"{path}: directory.id: {error}") from None
    return MetaProperties(cluster_id, int(node_id), directory_id, int(version))


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Replaces the file durably."""
    lines = ["#", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_to_string(properties.directory_id)}")
    version = str(properties.version)
    lines += [f"{_NODE_ID_KEYS[version]}={properties.node_id}", f"version={version}", ""]
    disk.write_atomic(f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode())


class DirectoryIdentities(NamedTuple):
    """What the log directories of a node say about themselves."""

    formatted: dict[str, MetaProperties]
    empty: list[str]
    failed: dict[str, Exception]
    """Directories whose file could not be read."""

    @property
    def cluster_id(self) -> str | None:
        return next((properties.cluster_id for properties in self.formatted.values()), None)

    @property
    def node_id(self) -> int | None:
        return next((properties.node_id for properties in self.formatted.values()), None)


def read_identities(disk: Disk, directories: Sequence[str]) -> DirectoryIdentities:
    """Reads all of them; a missing directory counts as empty."""
    found = DirectoryIdentities({}, [], {})
    for directory in directories:
        try:
            properties = read_meta_properties(disk, directory)
        except (OSError, StorageError) as error:
            found.failed[directory] = error
            continue
        if properties is None:
            found.empty.append(directory)
        else:
            found.formatted[directory] = properties
    return found


def verify_identities(identities: DirectoryIdentities, *, metadata_directory: str, node_id: int, cluster_id: str | None = None) -> None:
    """Raises StorageError unless the directories belong together and to this node (MetaPropertiesEnsemble.verify)."""
    if metadata_directory in identities.failed:
        error = identities.failed[metadata_directory]
        if not isinstance(error, OSError):
            raise error  # names the file
        raise UnusableDirectory(f"The metadata log directory {metadata_directory} cannot be used: {error.strerror or error}")
    if metadata_directory in identities.empty:
        raise NotFormatted(identities.empty, identities.cluster_id)
    seen: dict[UUID, str] = {}
    for directory, properties in identities.formatted.items():
        path = f"{directory}/{META_PROPERTIES}"
        cluster_id = cluster_id or properties.cluster_id
        if properties.cluster_id != cluster_id:
            raise StorageError(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}")
        if properties.node_id != node_id:
            raise StorageError(
                f"Stored node id {properties.node_id} doesn't match the configured node id {node_id} in {path}. "
                "If the data was moved, set node.id to the stored one; for a new node use empty directories."
            )
        directory_id = properties.directory_id
        if directory_id is None:
            continue
        if directory_id.int < _RESERVED_DIRECTORY_IDS:
            raise StorageError(f"Invalid reserved directory id {uuid_to_string(directory_id)} in {path}")
        if directory_id in seen:
            raise StorageError(
                f"Duplicate directory id {uuid_to_string(directory_id)}: it is that of {seen[directory_id]} and of {directory}"
            )
        seen[directory_id] = directory


def complete_identities(disk: Disk, identities: DirectoryIdentities, new_directory_id: Callable[[], UUID]) -> Mapping[str, MetaProperties]:
    """Gives an id to directories without one, as a Kafka broker does when it starts. One where that fails is left out, and joins `failed`.

    StorageError when a directory is not formatted (KafkaRaftServer.initializeLogDirs): it may be the mount point of a disk that is not
    mounted, and the logs on that disk would be created anew, empty.
    """
    if identities.empty:
        raise NotFormatted(identities.empty, identities.cluster_id, "; is a disk not mounted?")
    complete = dict(identities.formatted)
    for directory, properties in list(complete.items()):
        if properties.directory_id is None:
            complete[directory] = properties._replace(directory_id=new_directory_id())
            try:
                write_meta_properties(disk, directory, complete[directory])
            except OSError as error:
                identities.failed[directory] = error
                del complete[directory]
    return complete
