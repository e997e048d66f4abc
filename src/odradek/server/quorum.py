"""The node's part in the metadata quorum: the log is opened, then read up to what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.errors import KafkaError
from odradek.base.ids import random_uuid
from odradek.consensus.voters import Endpoint
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.node import KRaftNode
from odradek.server.jobs import as_future
from odradek.server.node import problem_of
from odradek.server.step import Step

if TYPE_CHECKING:
    import random

    from odradek.metadata.image import MetadataImage
    from odradek.server.identity import NodeIdentity
    from odradek.server.listeners import Listeners
    from odradek.server.node import Node


class JoinQuorum(Step[KRaftNode]):
    """Opens the metadata log and takes part in the quorum; at the end gives up leadership, flushes and closes the log."""

    name = "quorum"
    stop_timeout_s = 30.0

    def __init__(self, node: Node, identity: NodeIdentity, listeners: Listeners) -> None:
        self._node = node
        self._identity = identity
        self._listeners = listeners
        self._kraft: KRaftNode | None = None

    async def start(self) -> KRaftNode:
        node, config = self._node, self._node.config
        directory = config.metadata_log_dir
        try:
            kraft = KRaftNode(
                log=MetadataLog.open(node.disk, node.clock, config),
                config=config,
                cluster_id=self._identity.cluster_id,
                directory_id=self._identity.directory_ids[directory],
                disk=node.disk,
                clock=node.clock,
                rng=node.random,
                loop=node.loop,
                endpoints=[
                    Endpoint(each.listener, each.host or "localhost", each.port or self._listeners.port(each.listener))
                    for each in config.advertised_controller_listeners
                ],
                on_fault=lambda error: node.fatal(problem_of(error, directory)),
            )
            self._kraft = node.services.kraft = kraft
            kraft.start()
        except (OSError, KafkaError) as error:
            raise problem_of(error, directory) from error
        return kraft

    async def stop(self) -> None:
        if self._kraft is not None:
            self._kraft.stop()


class CatchUp(Step["MetadataImage"]):
    """Waits until the image holds all that is committed, and returns it."""

    name = "metadata_image"

    def __init__(self, node: Node, kraft: KRaftNode) -> None:
        self._node = node
        self._kraft = kraft

    async def start(self) -> MetadataImage:
        await as_future(self._node.loop, self._kraft.caught_up)
        return self._kraft.image


def new_incarnation_id(image: MetadataImage, rng: random.Random) -> UUID:
    """One that no registration carries: taken for its own past life, which was told to shut down, a broker would stay so for ever."""
    known = {node.incarnation_id for nodes in (image.cluster.brokers, image.cluster.controllers) for node in nodes.values()}
    while True:
        # Randomness that begins as in the last start (a test's, a simulation's) would say the same again.
        incarnation_id = random_uuid(rng)
        if incarnation_id not in known:
            return incarnation_id
