"""Identity of this node: cluster id, node id and directory ids from the meta.properties of the log directories."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from odradek.base.ids import random_uuid, uuid_to_string
from odradek.server.step import Step
from odradek.storage.meta_properties import complete_identities, read_identities, verify_identities

if TYPE_CHECKING:
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)


class NodeIdentity(NamedTuple):
    """Identity of a node. `directory_ids` maps paths to ids. `unusable` maps each directory whose meta.properties could not be read or
    written to the reason.
    """

    cluster_id: str
    directory_ids: Mapping[str, UUID]
    unusable: Mapping[str, Exception]


class ReadIdentity(Step[NodeIdentity]):
    """Reader of the meta.properties of metadata.log.dir and of every directory in log.dirs.

    The node's roles do not matter (KafkaRaftServer): a directory of another cluster or node shows that the configuration is not this
    node's.
    """

    name = "identity"

    def __init__(self, node: Node, *, format_if_empty: bool) -> None:
        """`format_if_empty`: the node formats its directories as a new cluster when it is alone and all of them are unformatted."""
        self._node = node
        self._format_if_empty = format_if_empty

    async def start(self) -> NodeIdentity:
        node, config = self._node, self._node.config
        directories = list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
        identities = read_identities(node.disk, directories)
        if self._format_if_empty and config.is_alone and not identities.formatted and not identities.failed:
            self._format()
            identities = read_identities(node.disk, directories)
        verify_identities(identities, metadata_directory=config.metadata_log_dir, node_id=config.node_id)
        complete = complete_identities(node.disk, identities, lambda: random_uuid(node.random))
        # Verify again: completing the identities may have failed in some directories, perhaps in the metadata directory.
        verify_identities(identities, metadata_directory=config.metadata_log_dir, node_id=config.node_id)
        cluster_id = complete[config.metadata_log_dir].cluster_id
        node.services.cluster_id = cluster_id
        ids = {path: properties.directory_id for path, properties in complete.items() if properties.directory_id is not None}
        return NodeIdentity(cluster_id, ids, identities.failed)

    def _format(self) -> None:
        from odradek.controller.format import format_storage

        node = self._node
        result = format_storage(
            node.disk,
            node.config,
            cluster_id=uuid_to_string(random_uuid(node.random)),
            rng=node.random,
            now_ms=node.clock.time_ms(),
            standalone=not node.config.controller_quorum_voters,
        )
        for line in result.lines:
            logger.info("%s", line)
