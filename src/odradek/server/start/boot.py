"""Order in which a node starts; a node stops in the reverse order.

Each step is a class, made with the results of earlier steps: the arguments in its line show what the step may use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.server.cluster.controller_registration import RegisterController
from odradek.server.cluster.internal_channel import OpenChannel
from odradek.server.cluster.publisher import FollowAsController, FollowMetadata
from odradek.server.cluster.registration import RegisterBroker, Unfence, new_registrar
from odradek.server.metering.metrics_listener import ServeMetrics
from odradek.server.requests.listeners import BindListeners, ServeClients, ServeControllers
from odradek.server.start.identity import ReadIdentity
from odradek.server.start.log_loading import LoadLogs
from odradek.server.start.policies import LoadPolicies
from odradek.server.start.quorum import CatchUp, JoinQuorum
from odradek.server.start.replicas import MakeReplicas
from odradek.server.upkeep.cleaning import CleanLogs
from odradek.server.upkeep.log_directories import LockDirectories
from odradek.server.upkeep.tasks import RunTasks

if TYPE_CHECKING:
    from odradek.server.start.node import Node
    from odradek.server.step import Startup


async def start_node(startup: Startup, node: Node, *, format_if_empty: bool) -> None:
    """Start every step that the node's roles require. After a cancelled or failed start the caller must stop `startup`."""
    start = startup.start

    policies = await start(LoadPolicies(node))
    identity = await start(ReadIdentity(node, format_if_empty=format_if_empty))
    directories = await start(LockDirectories(node, identity))
    listeners = await start(BindListeners(node))
    meters = await start(ServeMetrics(node, listeners.acceptor))
    links = await start(OpenChannel(node))
    quorum = await start(JoinQuorum(node, identity, directories, listeners, links, policies))
    kraft = quorum.kraft
    if meters is not None:
        meters.follow(kraft)
    await start(ServeControllers(node, listeners, quorum.parts))
    image = await start(CatchUp(node, quorum))

    if node.config.is_controller:
        advertised = listeners.reached_at(node.config.advertised_controller_listeners)
        await start(RegisterController(node, kraft, advertised, links.channel))

    if node.config.is_broker:
        log_manager = directories.log_manager
        await start(LoadLogs(node, directories, image))
        advertised = listeners.reached_at(node.config.advertised_listeners)
        registrar = new_registrar(node, identity, directories, advertised, links.channel, kraft)
        replicas = await start(MakeReplicas(node, directories, listeners.acceptor, links, registrar))
        await start(RegisterBroker(node, kraft, registrar))
        publisher = await start(FollowMetadata(node, kraft, log_manager, replicas.manager, links, registrar, replicas.throttles))
        await start(RunTasks(node, log_manager, replicas.manager, publisher))
        await start(CleanLogs(node, log_manager))
        await start(Unfence(node, registrar))
        await start(ServeClients(node, listeners, registrar, kraft))
    else:
        await start(FollowAsController(node, kraft))
