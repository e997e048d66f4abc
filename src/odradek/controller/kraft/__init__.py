"""KRaft on a real node: the metadata log and its directory, snapshots, the active controller and the loader of images."""

from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.loader import MetadataLoader, MetadataPublisher
from odradek.controller.kraft.node import KRaftNode

__all__ = ["KRaftNode", "MetadataController", "MetadataLoader", "MetadataPublisher"]
