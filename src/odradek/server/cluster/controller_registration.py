"""Registration of a controller's addresses and features with the active controller (ControllerRegistrationManager, KIP-919).

Only the metadata log proves the registration. The request is sent as long as the image has no registration of this start, if the
metadata.version supports registrations. After a failure the request is sent again, with growing pauses.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, code_of
from odradek.base.timing import Alarm, Backoff
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.metadata.features import controller_registration_supported, supported_features
from odradek.server.cluster.registration import new_incarnation_id
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.controller.kraft.node import KRaftNode
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage
    from odradek.protocol.messages.controller_registration import ControllerRegistrationResponse
    from odradek.protocol.schema import Message
    from odradek.server.cluster.channel import InterBrokerChannel
    from odradek.server.cluster.registration import AdvertisedListener
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)

_FIRST_RETRY_MS, _LONGEST_RETRY_MS, _SPREAD = 100, 120_000, (0.98, 1.02)
"""Pauses of ExponentialBackoff(100, 2, 120000, 0.02)."""


class ControllerRegistrar:
    """Publisher of the metadata loader: registers this node whenever the image has no registration of it."""

    def __init__(
        self,
        node_id: int,
        incarnation_id: UUID,
        listeners: Sequence[AdvertisedListener],
        channel: InterBrokerChannel,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`incarnation_id` must be new with each start; `listeners` are the controller's listeners."""
        self._node_id = node_id
        self._incarnation_id = incarnation_id
        self._listeners = listeners
        self._channel = channel
        self._image: MetadataImage | None = None
        self._backoff = Backoff(_FIRST_RETRY_MS, _LONGEST_RETRY_MS, rng, spread=_SPREAD)
        self._alarm = Alarm(clock, self._send_if_needed)
        self._in_flight = False
        self._stopped = False

    @property
    def registered(self) -> bool:
        """Return whether the last published image contains the registration of this start of the node."""
        mine = None if self._image is None else self._image.cluster.controllers.get(self._node_id)
        return mine is not None and mine.incarnation_id == self._incarnation_id

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        before, self._image = self._image, image
        if before is None or image.cluster is not before.cluster or image.features is not before.features:
            self._send_if_needed()

    def stop(self) -> None:
        """Send no further request."""
        self._stopped = True
        self._alarm.close()

    def _send_if_needed(self) -> None:
        image = self._image
        waiting = self._in_flight or self._alarm.is_set
        if image is None or waiting or self._stopped or self.registered:
            return
        if not controller_registration_supported(image.features.metadata_version or 0):
            return
        self._in_flight = True
        self._send()

    def _send(self) -> None:
        from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest

        request = ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                ControllerRegistrationRequest.Listener(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in self._listeners
            ],
            features=[
                ControllerRegistrationRequest.Feature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in supported_features().items()
            ],
        )
        self._channel.send(TO_CONTROLLER, request.API_KEY, request, 0).add_callback(self._answered)

    def _answered(self, done: Deferred[Message]) -> None:
        self._in_flight = False
        if self._stopped:
            return
        if done.error is not None:
            self._later(done.error)
            return
        response = cast("ControllerRegistrationResponse", done.result())
        code = code_of(response.error_code)
        if code != ErrorCode.NONE:
            self._later(f"{code.name}: {response.error_message}")
            return
        self._backoff.reset()
        logger.info("registered as controller %d", self._node_id)

    def _later(self, reason: object) -> None:
        pause_s = self._backoff.next_s()
        logger.info("controller %d could not be registered (%s); retrying in %.2f s", self._node_id, reason, pause_s)
        self._alarm.set(pause_s)


class RegisterController(Step[None]):
    """Step that begins to register this controller with the active controller, in the background."""

    name = "controller_registration"

    def __init__(self, node: Node, kraft: KRaftNode, listeners: list[AdvertisedListener], channel: InterBrokerChannel) -> None:
        config = node.config
        self._kraft = kraft
        self._registrar = ControllerRegistrar(
            config.node_id,
            new_incarnation_id(kraft.image, node.random),
            listeners,
            channel,
            node.clock,
            node.random,
        )

    async def start(self) -> None:
        self._kraft.add_publisher(self._registrar)

    async def stop(self) -> None:
        self._registrar.stop()
        self._kraft.loader.remove_publisher(self._registrar)
