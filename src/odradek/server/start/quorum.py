"""Part of the node in the metadata quorum: open the log, serve controllers, then read the log up to the committed records.

The order matters with several controllers: voters that waited for a leader before they answered each other would never elect a leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import ZERO_UUID, uuid_to_string
from odradek.config.keys.cluster import CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS
from odradek.config.keys.security import AUTHORIZER_CLASS_NAME
from odradek.consensus.voters import Endpoint
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.node import KRaftNode
from odradek.handlers.scopes import CONTROLLER
from odradek.handlers.services import ControllerParts
from odradek.server.cluster.raft_channel import PeerRaftChannel
from odradek.server.requests.quota_publisher import QuotaPublisher
from odradek.server.start.node import problem_of
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.controller.core.policies import Policies
    from odradek.metadata.image import MetadataImage
    from odradek.server.cluster.internal_channel import Links
    from odradek.server.requests.listeners import Listeners
    from odradek.server.start.identity import NodeIdentity
    from odradek.server.start.node import Node
    from odradek.server.upkeep.log_directories import LogDirectories


logger = logging.getLogger(__name__)

_FIRST_REPORT_S, _NEXT_REPORTS_S = 5.0, 60.0


class Quorum(NamedTuple):
    """Metadata quorum as this node sees it. `problems` maps the address (host, port) of each faulty node to the reason."""

    kraft: KRaftNode
    parts: ControllerParts
    problems: Mapping[tuple[str, int], str]


class JoinQuorum(Step[Quorum]):
    """Step that opens the metadata log and joins the quorum. Its stop flushes and closes the log."""

    name = "quorum"
    stop_timeout_s = 30.0

    def __init__(
        self,
        node: Node,
        identity: NodeIdentity,
        directories: LogDirectories,
        listeners: Listeners,
        links: Links,
        policies: Policies | None,
    ) -> None:
        self._node = node
        self._identity = identity
        self._directories = directories
        self._listeners = listeners
        self._links = links
        self._kraft: KRaftNode | None = None
        self._policies = policies
        self._quotas = QuotaPublisher(node.services, node.dispatcher, listeners.limits, node.jobs)

    async def start(self) -> Quorum:
        node, config = self._node, self._node.config
        directory = config.metadata_log_dir
        raft_channel = PeerRaftChannel(
            self._links.peers,
            request_timeout_s=config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS] / 1000,
            listener=config.controller_listener_names[0],
        )
        try:
            kraft = KRaftNode(
                log=MetadataLog.open(node.disk, node.clock, config),
                config=config,
                cluster_id=self._identity.cluster_id,
                directory_id=self._identity.directory_ids[directory],
                disk=node.disk,
                clock=node.clock,
                rng=node.random,
                channel=raft_channel,
                loop=node.loop,
                endpoints=[
                    Endpoint(each.listener, each.host or "localhost", each.port or self._listeners.port(each.listener))
                    for each in config.advertised_controller_listeners
                ],
                on_fault=self._failed,
                policies=self._policies,
            )
            self._kraft = node.kraft = kraft
            parts = node.controller = ControllerParts(kraft, node.dispatcher)
            node.dispatcher.serve(CONTROLLER, parts)
            if config[AUTHORIZER_CLASS_NAME]:
                from odradek.server.security.authorization import install

                kraft.add_publisher(install(node.services))
            kraft.add_publisher(self._quotas)
            kraft.on_leader.append(lambda _: self._links.channel.controller_changed())
            kraft.start()
        except (OSError, KafkaError) as error:
            raise problem_of(error, directory) from error
        for line in _remarks(kraft, is_controller=config.is_controller):
            logger.warning("%s", line)
        return Quorum(kraft, parts, raft_channel.problems)

    def _failed(self, error: BaseException) -> None:
        """End the node, because it can no longer take part in the quorum.

        Without the quorum the node neither leads nor learns the leader, so its stop waits for no controller. When a disk error failed the
        metadata log, the logs of partitions on that disk are not written any more, either.
        """
        node = self._node
        directory = node.config.metadata_log_dir
        problem = problem_of(error, directory)
        node.hurry()
        node.fatal(problem)
        cause = error if isinstance(error, OSError) else problem.__cause__
        if isinstance(cause, OSError):
            self._directories.log_manager.directory_failed(directory, cause)

    async def stop(self) -> None:
        if self._kraft is not None:
            self._kraft.loader.remove_publisher(self._quotas)
            self._kraft.stop()


class CatchUp(Step["MetadataImage"]):
    """Step that waits until the image contains all committed records, and returns the image."""

    name = "metadata_image"

    def __init__(self, node: Node, quorum: Quorum) -> None:
        self._node = node
        self._kraft = quorum.kraft
        self._problems = quorum.problems

    async def start(self) -> MetadataImage:
        caught_up = asyncio.ensure_future(self._kraft.caught_up)
        patience_s = _FIRST_REPORT_S
        try:
            while not caught_up.done():
                await asyncio.wait((caught_up,), timeout=patience_s)
                if not caught_up.done():
                    logger.warning("Waiting for %s", self.waits_for())
                    patience_s = _NEXT_REPORTS_S
        finally:
            caught_up.cancel()
        caught_up.result()
        return self._kraft.image

    def waits_for(self) -> str:
        kraft = self._kraft
        problems = "".join(f"; {problem}" for problem in self._problems.values())
        leader = kraft.leader_and_epoch.leader_id
        if leader < 0:
            voters = ", ".join(map(str, kraft.raft.voters.current.ids)) or "unknown"
            return f"a leader of the metadata quorum (voters: {voters}){problems}"
        return f"the cluster's metadata from node {leader}, the leader of the quorum{problems}"


def _remarks(kraft: KRaftNode, *, is_controller: bool) -> list[str]:
    """Return warnings for the operator about a controller that is not a voter."""
    raft = kraft.raft
    voters, local = raft.voters.current, raft.local
    if not is_controller or raft.is_voter:
        return []
    if not len(voters):
        return [f"controller {local.id} does not know the voters yet: it is an observer, and votes when it has been added to the quorum"]
    known = voters.get(local.id)
    if known is not None:
        theirs, ours = (uuid_to_string(each or ZERO_UUID) for each in (known.directory_id, local.directory_id))
        return [
            (
                f"controller {local.id} is a voter with the metadata directory {theirs}, but its metadata directory is {ours}: it is "
                "an observer until the old voter is removed from the quorum and the new one added"
            )
        ]
    names = ", ".join(map(str, voters.ids))
    return [f"controller {local.id} is not among the voters {names}: it is an observer until it is added to the quorum"]
