"""Identity file `meta.properties` of a log directory (org.apache.kafka.metadata.properties, KIP-631, KIP-858)."""

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
"""Key of the node id by version of the file."""


class NotFormatted(StorageError):
    """Error for log directories without meta.properties. `cluster_id` is the other directories' id, None without other directories."""

    def __init__(self, directories: Sequence[str], cluster_id: str | None = None, remark: str = "") -> None:
        self.directories = list(directories)
        self.cluster_id = cluster_id
        which = "the log directories are" if len(self.directories) > 1 else "the log directory is"
        super().__init__(f"No {META_PROPERTIES} found in {', '.join(self.directories)}: {which} not formatted{remark}")


class UnusableDirectory(StorageError):
    """Error for a log directory that the node needs and that is not a directory or cannot be read."""


class MetaProperties(NamedTuple):
    """Owner of a log directory. `directory_id` is None in directories formatted before KIP-858.

    A cluster that was migrated from ZooKeeper keeps version 0, which has `broker.id` in place of `node.id`. A file is always rewritten in
    its own version.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID | None = None
    version: int = 1


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Read meta.properties; None when the directory is not formatted.

    Raises StorageError when the content is invalid, OSError when the file cannot be read.
    """
    path = f"{directory}/{META_PROPERTIES}"
    try:
        fields = parse_properties(disk.read_bytes(path).decode("utf-8", "replace"))
    except FileNotFoundError:
        return None
    except ConfigError as error:
        raise StorageError(f"{path}: {error}") from None
    version = fields.get("version", "0")
    if version not in _NODE_ID_KEYS:
        raise StorageError(f"{path}: unknown version {version}; the known versions are 0 and 1")
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
    """Replace the file durably."""
    lines = ["#", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_to_string(properties.directory_id)}")
    version = str(properties.version)
    lines += [f"{_NODE_ID_KEYS[version]}={properties.node_id}", f"version={version}", ""]
    disk.write_atomic(f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode())


class DirectoryIdentities(NamedTuple):
    """Identities of a node's log directories, by directory."""

    formatted: dict[str, MetaProperties]
    empty: list[str]
    failed: dict[str, Exception]
    """Errors of the directories whose file could not be read."""

    @property
    def cluster_id(self) -> str | None:
        return next((properties.cluster_id for properties in self.formatted.values()), None)

    @property
    def node_id(self) -> int | None:
        return next((properties.node_id for properties in self.formatted.values()), None)


def read_identities(disk: Disk, directories: Sequence[str]) -> DirectoryIdentities:
    """Read the identities of all directories; a missing directory counts as empty."""
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
    """Raise StorageError unless the directories belong together and to this node (MetaPropertiesEnsemble.verify)."""
    if metadata_directory in identities.failed:
        error = identities.failed[metadata_directory]
        if not isinstance(error, OSError):
            raise error  # the message names the file
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
            raise StorageError(f"Duplicate directory id {uuid_to_string(directory_id)}: both {seen[directory_id]} and {directory} have it")
        seen[directory_id] = directory


def complete_identities(disk: Disk, identities: DirectoryIdentities, new_directory_id: Callable[[], UUID]) -> Mapping[str, MetaProperties]:
    """Assign an id to directories without one, as a Kafka broker does when it starts.

    A directory in which the write fails is left out and added to `failed`.

    Raises NotFormatted (a StorageError) when a directory is not formatted (KafkaRaftServer.initializeLogDirs). The directory may be the
    mount point of a disk that is not mounted; the logs on that disk would then be created again, empty.
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
