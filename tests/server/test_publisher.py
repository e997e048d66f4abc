"""What a broker does with an image when a part of it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.config.broker import BrokerConfig, standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig, SettingsRead
from odradek.config.keys.log import MESSAGE_MAX_BYTES
from odradek.consensus.messages import LeaderAndEpoch
from odradek.metadata.cache import MetadataCache
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.server.cluster.publisher import BrokerPublisher, ControllerPublisher, FollowMetadata
from tests.clock import ManualClock
from tests.handlers.support import Broker

SIZE = "message.max.bytes"


class Jobs:
    """Jobs that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], SettingsRead], Deferred[SettingsRead]]] = []

    def run(self, job: Callable[[], SettingsRead]) -> Deferred[SettingsRead]:
        self.waiting.append((job, Deferred()))
        return self.waiting[-1][1]

    def end(self, error: Exception | None = None) -> None:
        job, done = self.waiting.pop(0)
        done.complete(job()) if error is None else done.fail(error)


class Files:
    """A node whose settings have a file behind them."""

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data"}))
        self.config.renewals.append(self.read)
        self.steps: list[tuple[str, int]] = []
        self.publisher = ControllerPublisher(self.config, MetadataCache(EMPTY, 0), ManualClock(), self.jobs.run)
        self.image = EMPTY

    def read(self, config: BrokerConfig) -> Callable[[], object]:
        size = config[MESSAGE_MAX_BYTES]
        self.steps.append(("read", size))
        return lambda: self.steps.append(("taken", size))

    def sets(self, value: str | None, broker: str = "1") -> MetadataImage:
        delta = MetadataDelta(self.image)
        delta.replay(ConfigRecord(resource_type=4, resource_name=broker, name=SIZE, value=value))
        self.image = delta.apply(MetadataProvenance(self.image.offset + 2, 1, 0))
        return self.image

    def prepares(self, image: MetadataImage) -> Deferred[None] | None:
        return self.publisher.prepare(MetadataDelta(EMPTY), image)

    def publishes(self, image: MetadataImage) -> None:
        self.publisher.publish(MetadataDelta(EMPTY), image, LeaderAndEpoch(1, 1))

    @property
    def size(self) -> int:
        return self.config[MESSAGE_MAX_BYTES]


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
    config.subscribe((MESSAGE_MAX_BYTES,), step("settings"))
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
        run_job=Jobs().run,
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
        run_job=Jobs().run,
    )
    publisher.publish(MetadataDelta(EMPTY), EMPTY, LeaderAndEpoch(1, 1))
    assert sum(errors) == 2


def test_files_are_read_in_a_job_and_taken_over_with_their_image() -> None:
    node = Files()
    before = node.size
    for value, size in (("2000", 2000), ("3000", 3000), (None, before)):
        image = node.sets(value)
        prepared = node.prepares(image)
        assert prepared is not None
        assert node.steps == []
        node.jobs.end()
        assert prepared.done
        assert node.steps == [("read", size)]
        former = node.size
        assert former != size, "nothing holds before the image is published"
        node.publishes(image)
        assert (node.steps, node.size) == ([("read", size), ("taken", size)], size)
        node.steps.clear()
        assert node.prepares(image) is None, "the settings are the same"


def test_what_needs_no_file_needs_no_job() -> None:
    node = Files()
    image = node.sets("2000", broker="")
    assert node.prepares(image) is None
    node.publishes(image)
    assert (node.size, node.steps) == (2000, [])


def test_a_job_that_failed_leaves_the_reading_to_the_loop() -> None:
    node = Files()
    image = node.sets("2000")
    prepared = node.prepares(image)
    node.jobs.end(RuntimeError("no thread"))
    assert prepared is not None
    assert prepared.done
    node.publishes(image)
    assert (node.size, node.steps) == (2000, [("read", 2000), ("taken", 2000)])


def test_what_was_read_for_one_image_is_not_taken_over_with_another() -> None:
    node = Files()
    node.prepares(node.sets("2000"))
    node.jobs.end()
    node.publishes(node.sets("3000"))
    assert (node.size, node.steps) == (3000, [("read", 2000), ("read", 3000), ("taken", 3000)])


def test_a_file_that_cannot_be_read_keeps_no_setting_back() -> None:
    node = Files()

    def broken(config: BrokerConfig) -> Callable[[], object]:
        raise OSError("as the test wanted")

    node.config.renewals.insert(0, broken)
    image = node.sets("2000")
    node.prepares(image)
    node.jobs.end()
    node.publishes(image)
    assert (node.size, node.steps) == (2000, [("read", 2000), ("taken", 2000)])


@pytest.mark.parametrize("logs_first", [True, False])
def test_an_image_waits_for_its_logs_and_for_its_files(logs_first: bool) -> None:
    node, logs = Files(), Deferred[None]()
    waits: list[Deferred[None] | None] = [logs]
    publisher = BrokerPublisher(
        node.config,
        MetadataCache(EMPTY, 0),
        log_manager=cast(Any, None),
        replica_manager=SimpleNamespace(changes=SimpleNamespace(prepare=lambda *_: waits[0])),  # type: ignore[arg-type]
        coordinators=cast(Any, None),
        on_published=cast(Any, None),
        clock=ManualClock(),
        throttles=cast(Any, None),
        count_errors=cast(Any, None),
        run_job=node.jobs.run,
    )
    image = node.sets("2000")
    prepared = publisher.prepare(MetadataDelta(EMPTY), image)
    assert prepared is not None
    ends: list[Callable[[], object]] = [lambda: logs.complete(None), node.jobs.end]
    for end in ends if logs_first else reversed(ends):
        assert not prepared.done
        end()
    assert prepared.done
    waits[0] = None
    assert publisher.prepare(MetadataDelta(EMPTY), image) is not None, "for the files alone"
    assert publisher.prepare(MetadataDelta(EMPTY), EMPTY) is None


def test_a_node_stops_following_the_metadata_when_a_preparation_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    async def main() -> None:
        broker = Broker()
        services = broker.services
        loader = SimpleNamespace(before_publishing=None, remove_publisher=told.append, count_apply_errors=told.append)
        kraft: Any = SimpleNamespace(image=EMPTY, loader=loader, add_publisher=told.append)
        node: Any = SimpleNamespace(
            services=services,
            dispatcher=broker.dispatcher,
            loop=asyncio.get_running_loop(),
            clock=broker.clock,
            config=services.config,
            jobs=SimpleNamespace(run=None, apart=None),
        )
        registrar: Any = SimpleNamespace(metadata_changed=told.append, broker_epoch=5)
        links: Any = SimpleNamespace(channel=None, forwarder=None)
        step = FollowMetadata(node, kraft, broker.parts.log_manager, broker.manager, links, registrar, cast(Any, None))
        publisher = await step.start()
        monkeypatch.setattr(publisher, "prepare", lambda delta, image: Deferred.failed(RuntimeError("as the test wanted")))
        monkeypatch.setattr(node.coordinators, "close", lambda: told.append("coordinators"))
        kraft.loader.before_publishing(MetadataDelta(EMPTY), EMPTY)
        with pytest.raises(RuntimeError, match="as the test wanted"):
            await step.stop()
        assert told == [publisher, publisher, "coordinators"]

    asyncio.run(main())
