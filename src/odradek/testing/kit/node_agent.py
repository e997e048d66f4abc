"""Agent for one life of a test node: the broker with its clock and gate, and the calls that a test can make to the running node.

The event loop runs in a thread of the test's process or in a separate process. The owner of the node calls `NodeAgent.call` by name, with
plain values.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.config.broker import BrokerConfig, standalone_config
from odradek.handlers.scopes import BROKER
from odradek.network.chunks import join_chunks
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.providers.resolving import resolve_broker
from odradek.server.start.broker import Broker
from odradek.storage.names import META_PROPERTIES
from odradek.testing.kit.faults import Rule, is_node
from odradek.testing.kit.gate import Gate, RequestKind
from odradek.testing.kit.kit_clock import AdjustableClock
from odradek.testing.kit.releases import Release
from odradek.testing.kit.temporary import HOST

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.handlers.services import Services
    from odradek.network.inbound import FrameHandler
    from odradek.protocol.schema import Message
    from odradek.server.requests.dispatch import Dispatcher
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager
    from odradek.testing.kit.node_thread import NodeLoop

_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_POLL_S: Final = 0.002
_ADMIN: Final = "odradek-testing"
"""Client id of the kit's own requests, which do not pass the gate."""
_MAP_BYTES: Final = 8 << 20
"""Bytes of the cleaner's map of keys: 350,000 keys in one pass."""


class TestingError(OdradekError, RuntimeError):
    """Operation that a test broker cannot do; the message is one line."""

    __test__ = False


class NodeSpec(NamedTuple):
    """Settings of one life of a node, as plain values."""

    settings: Mapping[str, str]
    standalone: bool
    """Whether the node is a single-node cluster, which formats itself."""
    release: Release | None = None
    ahead_s: float = 0.0
    """Seconds that the node's clock is ahead of the system's clock."""
    sync: bool = True
    """Whether files that must survive a power cut are fsynced."""

    def config(self) -> BrokerConfig:
        """Return the broker's configuration. Raises ConfigError for invalid settings."""
        settings = resolve_broker(self.settings)
        return standalone_config(settings) if self.standalone else BrokerConfig(settings)


class NodeAgent:
    """Agent for one life of a node. Made on the event loop; then `start`, calls, `stop`."""

    def __init__(self, spec: NodeSpec, loop: NodeLoop, disk: Disk | None) -> None:
        """Make the broker. Raises ConfigError for invalid settings."""
        config = spec.config()
        self.clock = AdjustableClock(loop, loop.settle, spec.ahead_s)
        self._loop = loop
        self._seen: list[asyncio.Event] = []
        self._gate: Gate | None = None
        self._spec = spec
        self.broker = Broker(
            config,
            loop=loop,
            disk=disk,
            clock=self.clock,
            format_if_empty=spec.standalone and spec.release is None,
            wrap_dispatcher=self._new_gate,
        )

    def _new_gate(self, services: Services, dispatcher: Dispatcher) -> FrameHandler:
        gate = self._gate = Gate(services, dispatcher, self._loop, self._spec.release)
        gate.on_request = self._request_seen
        return gate

    async def start(self) -> int:
        """Start the broker, and return the port that clients connect to."""
        if self._spec.standalone and self._spec.release is not None:
            self._format(self._spec.release)
        await self.broker.start()
        port = self.broker.port()
        self._loop.refused_port = port
        return port

    def _format(self, release: Release) -> None:
        from odradek.controller.format import format_storage

        config, services = self.broker.config, self.broker.services
        if not os.path.exists(os.path.join(config.log_dirs[0], META_PROPERTIES)):
            rng = random.Random()
            cluster_id = f"{rng.getrandbits(128):032x}"[:22]
            now_ms = self.clock.time_ms()
            format_storage(services.disk, config, cluster_id=cluster_id, rng=rng, now_ms=now_ms, release_version=release.formatted_as)

    async def stop(self) -> None:
        """Shut the broker down in order."""
        await self.broker.stop()

    async def call(self, name: str, *arguments: Any) -> Any:
        """Call the method `do_<name>` and return its result. Raises OdradekError when the call cannot be done."""
        function: Callable[..., Awaitable[Any]] = getattr(self, f"do_{name}")
        return await function(*arguments)

    @property
    def _services(self) -> Services:
        return self.broker.services

    @property
    def _log_manager(self) -> LogManager:
        manager = self.broker.node.log_manager
        assert manager is not None
        return manager

    @property
    def gate(self) -> Gate:
        """Gate of the broker. Raises TestingError before the node listens."""
        if self._gate is None:
            raise TestingError("the broker is not running")
        return self._gate

    # -- topics ----------------------------------------------------------------------------------------------------------------------

    async def do_create_topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        config = [CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=config)
        answer = await self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), _CREATE_VERSION, CreateTopicsResponse)
        _check(answer.topics[0].error_code, answer.topics[0].error_message)

    async def do_delete_topic(self, name: str) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=name)
        answer = await self._ask(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), _DELETE_VERSION, DeleteTopicsResponse)
        _check(answer.responses[0].error_code, answer.responses[0].error_message)

    async def do_topics(self) -> list[str]:
        return list(self._services.metadata.image.topics.by_name)

    async def do_await_topic(self, name: str, there: bool) -> None:
        """Wait until this node knows the topic with a leader for each partition (`there`), or does not know the topic (not `there`)."""
        await _until(lambda: self._is_ready(name) is there)

    def _is_ready(self, name: str) -> bool | None:
        """Return True for a topic with a leader for each partition, False for an unknown topic, and None in between."""
        topic = self._services.metadata.image.topics.by_name.get(name)
        if topic is None:
            return False
        return True if all(partition.leader >= 0 for partition in topic.partitions.values()) else None

    async def _ask(self, request: Message, version: int, response: type[Any]) -> Any:
        """Send a request as a client on the broker's machine would, without the gate, and return the decoded response."""
        listener = self.broker.bound_listeners[0].name
        frame = encode_request_header(request.API_KEY, version, 0, _ADMIN) + request.encode(version)
        _, answer = self.broker.node.dispatcher.handle_embedded(frame, scope=BROKER, listener_name=listener, peer_host=HOST)
        chunks = await answer if isinstance(answer, Deferred) else answer
        assert chunks is not None
        body = memoryview(join_chunks(chunks))[4:]
        _, offset = decode_response_header(body, request.API_KEY, version)
        return response.decode(body[offset:], version)

    # -- time and logs ---------------------------------------------------------------------------------------------------------------

    async def do_advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def do_time_ms(self) -> int:
        return self.clock.time_ms()

    async def do_apply_retention(self, topic: str | None) -> int:
        """Apply retention, and return the number of deleted segments."""
        logs, manager = self._logs(topic), self._log_manager
        deleted = 0
        for log in logs:
            await self._uncleaned(log)
            if not log.closed:
                deleted += manager.delete_old_segments(log)
        await self._loop.settle()
        return deleted

    async def do_compact(self, topic: str, partition: int | None) -> int:
        """Compact the logs, as far as min.compaction.lag.ms permits, and return the number of compacted partitions."""
        from odradek.storage.compaction.manager import CleanerManager

        logs = self._logs(topic, partition)
        cleaner = self._log_manager.cleaner
        if not isinstance(cleaner, CleanerManager):
            raise TestingError("log.cleaner.enable=false: compaction is disabled")
        if not all(log.config.compact for log in logs):
            raise TestingError(f"{topic} has no cleanup.policy=compact")
        return sum([await self._compact(log, cleaner) for log in logs])

    async def _compact(self, log: Log, cleaner: Any) -> int:
        from odradek.records.compaction import OffsetMap
        from odradek.storage.compaction.run import CleaningRun
        from odradek.storage.compaction.throttle import Throttle

        services = self._services
        await self._uncleaned(log)
        if log.active.size:
            log.roll()  # the active segment is never compacted
        if cleaner.is_uncleanable(log):
            raise TestingError(f"{log.name} cannot be compacted; see the log of the broker")
        plan = cleaner.grab(log, services.clock.time_ms())
        if plan is None:
            return 0
        throttle = Throttle(services.clock, float("inf"))
        run = CleaningRun(
            cleaner,
            self._log_manager,
            plan,
            OffsetMap(_MAP_BYTES, load_factor=0.9),
            disk=services.disk,
            clock=services.clock,
            throttle=throttle,
            buffer_bytes=1 << 20,
        )
        while True:
            await self._loop.run_in_executor(None, run.step)
            try:
                if run.settle() is None:
                    break
            except Exception as error:
                run.abandon(str(error))
                raise
        if cleaner.is_uncleanable(log):
            raise TestingError(f"{log.name} cannot be compacted; see the log of the broker")
        if log.config.delete:
            self._log_manager.delete_old_segments(log)
        return 1

    async def _uncleaned(self, log: Log) -> None:
        """Wait until the log is not being cleaned."""
        await _until(lambda: not self._is_cleaned(log))

    def _is_cleaned(self, log: Log) -> bool:
        """Return whether the log is being cleaned."""
        running: Any = getattr(self._log_manager.cleaner, "running", ())
        return any(plan.log is log for plan in running)

    def _logs(self, topic: str | None, partition: int | None = None) -> list[Log]:
        logs = [
            log
            for log in self._log_manager.logs
            if topic in (None, log.topic_partition.topic) and partition in (None, log.topic_partition.partition)
        ]
        if topic is not None and topic not in self._services.metadata.image.topics.by_name:
            raise TestingError(f"the topic {topic} does not exist")
        return logs

    # -- faults and requests ---------------------------------------------------------------------------------------------------------

    async def do_add_rule(self, number: int, rule: Rule) -> None:
        self.gate.rules.add(number, rule)

    async def do_remove_rule(self, number: int) -> None:
        self.gate.rules.remove(number)

    async def do_clear(self) -> None:
        self.gate.rules.clear()
        self._loop.refuses = False

    async def do_hits(self, number: int) -> int:
        return self.gate.rules.hits(number)

    async def do_refuse(self, refuses: bool) -> None:
        self._loop.refuses = refuses

    async def do_disconnect(self, client_id: str | None) -> int:
        return self.gate.disconnect(client_id, _is_meant)

    async def do_counts(self) -> dict[RequestKind, int]:
        return dict(self.gate.counts)

    async def do_wait_until_seen(self, api: int, count: int, client_id: str | None) -> int:
        """Wait until at least `count` requests of the API have been received, and return their number."""
        event = asyncio.Event()
        self._seen.append(event)
        try:
            while (seen := count_of(self.gate.counts, api, client_id)) < count:
                event.clear()
                await event.wait()
        finally:
            with contextlib.suppress(ValueError):
                self._seen.remove(event)
        return seen

    def _request_seen(self) -> None:
        for event in self._seen:
            event.set()


async def _until(condition: Callable[[], bool]) -> None:
    """Poll every 2 ms until the condition holds: images and cleanings have no notification."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)


def _is_meant(name: str | None, pattern: str | None) -> bool:
    return not is_node(name) if pattern is None else fnmatchcase(name or "", pattern)


def count_of(counts: Mapping[RequestKind, int], api: int | None, client_id: str | None) -> int:
    """Return the number of requests of this API (None: any) and client (None: any except the cluster's own nodes)."""
    return sum([number for kind, number in counts.items() if api in (None, kind.api) and _is_meant(kind.client_id, client_id)])


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message)


__all__ = ["NodeAgent", "NodeSpec", "TestingError", "count_of"]
