"""Authorizer of a node: made before its listeners open, and updated with the ACLs of the metadata.

Until the ACLs are known, only super users are allowed anything. The controllers' listeners are open by then, because the quorum needs them
to learn the ACLs (early.start.listeners, which always includes these listeners). Brokers' listeners open later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.config.keys.authorizer import ALLOW_EVERYONE_IF_NO_ACL_FOUND, SUPER_USERS
from odradek.security.principal import parse_super_users
from odradek.security.standard import StandardAuthorizer
from odradek.server.security.audit import Audit

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.handlers.services import Services
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


class AclPublisher:
    """Publisher that hands the ACLs of each image to the authorizer (org.apache.kafka.metadata.publisher.AclPublisher)."""

    def __init__(self, authorizer: StandardAuthorizer[UUID]) -> None:
        self._authorizer = authorizer

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        if not self._authorizer.ready:
            self._authorizer.load(image.acls.entries)
            logger.info("the authorizer has loaded the ACLs: %d", len(image.acls.entries))
        elif delta.acls:
            self._authorizer.change(delta.acls)


def new_authorizer(config: BrokerConfig) -> StandardAuthorizer[UUID]:
    """Return the authorizer that the configuration describes, without ACLs."""
    return StandardAuthorizer(parse_super_users(config[SUPER_USERS]), allow_without_acl=config[ALLOW_EVERYONE_IF_NO_ACL_FOUND])


def install(services: Services) -> AclPublisher:
    """Give the node an authorizer and an audit log. Return the publisher, which must follow the metadata."""
    authorizer = new_authorizer(services.config)
    services.authorizer = authorizer
    services.audit = Audit(services.clock, authorizer)
    return AclPublisher(authorizer)
