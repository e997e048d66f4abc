"""What a broker does with an image when a part of it fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.consensus.messages import LeaderAndEpoch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.server.metadata_cache import MetadataCache
from odradek.server.publisher import BrokerPublisher
from tests.clock import ManualClock

STEPS = ("settings", "throttles", "logs", "configured", "roles", "coordinators", "published")
UNCOUNTED = ("settings",)
"""Kafka survives these errors in DynamicBrokerConfig, which counts none."""
CONFIGURING = STEPS[1:4]


@pytest.mark.parametrize("broken", STEPS)
def test_a_step_that_fails_keeps_the_image_from_no_other(broken: str) -> None:
    told: list[str] = []
    errors: list[int] = []

    def step(name: str) -> Any:
        def run(*_: object) -> int:
            told.append(name)
            if name == broken:
                raise RuntimeError("as the test wanted")
            return 0

        return run

    config = DynamicBrokerConfig(standalone_config({}))
    config.subscribe(("message.max.bytes",), step("settings"))
    publisher = BrokerPublisher(
        config,
        MetadataCache(EMPTY, 0),
        log_manager=SimpleNamespace(reconfigure=step("logs")),  # type: ignore[arg-type]
        replica_manager=SimpleNamespace(changes=SimpleNamespace(apply=step("roles"))),  # type: ignore[arg-type]
        coordinators=SimpleNamespace(publish=step("coordinators")),  # type: ignore[arg-type]
        on_published=step("published"),
        clock=ManualClock(),
        throttles=SimpleNamespace(configure=step("throttles")),  # type: ignore[arg-type]
        count_errors=errors.append,
    )
    publisher.on_configured = step("configured")
    delta = MetadataDelta(EMPTY)
    delta.replay(ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="2000"))
    image: MetadataImage = delta.apply(MetadataProvenance(1, 1, 0))
    publisher.publish(delta, image, LeaderAndEpoch(1, 1))
    assert told == list(STEPS)
    assert sum(errors) == (broken not in UNCOUNTED)
    publisher.publish(delta, image, LeaderAndEpoch(1, 1))
    assert sum(errors) == 2 - 2 * (broken in UNCOUNTED) - (broken in CONFIGURING)


def test_errors_that_the_roles_survived_are_counted() -> None:
    errors: list[int] = []
    publisher = BrokerPublisher(
        DynamicBrokerConfig(standalone_config({})),
        MetadataCache(EMPTY, 0),
        log_manager=SimpleNamespace(),  # type: ignore[arg-type]
        replica_manager=SimpleNamespace(changes=SimpleNamespace(apply=lambda *_: 2)),  # type: ignore[arg-type]
        coordinators=SimpleNamespace(publish=lambda *_: None),  # type: ignore[arg-type]
        on_published=lambda _: None,
        clock=ManualClock(),
        throttles=SimpleNamespace(),  # type: ignore[arg-type]
        count_errors=errors.append,
    )
    publisher.publish(MetadataDelta(EMPTY), EMPTY, LeaderAndEpoch(1, 1))
    assert sum(errors) == 2
