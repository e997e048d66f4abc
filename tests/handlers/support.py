"""Broker without a network: real logs on a virtual disk, an image made from records, and handlers called as the dispatcher calls them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import GeneratorType
from typing import Any, TypeVar
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.base.ids import TopicPartition
from odradek.config.broker import BrokerConfig, standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.keys.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from odradek.handlers.context import RequestContext
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.services import BrokerParts, ControllerParts, Services
from odradek.metadata.cache import MetadataCache
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.network.chunks import join_chunks
from odradek.protocol.api_keys import API_INFO
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.messages.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.protocol.registry import decode_response
from odradek.protocol.schema import Message
from odradek.replication.replica_manager import ReplicaManager
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.cluster.coordinators import Coordinators
from odradek.server.requests.dispatch import Dispatcher
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.replication.support import batch
from tests.storage.support import load_all

M = TypeVar("M", bound=Message)
T = TypeVar("T")

NODE = 1
LISTENER = "PLAINTEXT"


def topic_id(number: int) -> UUID:
    return UUID(int=(number << 64) + 7)


def new_services(config: BrokerConfig, *, clock: Any, disk: Disk | None = None) -> Services:
    """Return the facts of a node with an empty cluster image."""
    services = Services(
        config,
        DynamicBrokerConfig(config),
        clock=clock,
        random=random.Random(3),
        disk=disk or VirtualDisk(),
        jobs=InlineJobs(),
        metadata=MetadataCache(EMPTY),
    )
    services.cluster_id = "cluster"
    return services


class Broker:
    """Node of a cluster; the test sets the metadata."""

    def __init__(
        self,
        *,
        node: int = NODE,
        nodes: tuple[int, ...] = (1, 2),
        clock: ManualClock | None = None,
        log_dirs: tuple[str, ...] = ("/data",),
        new_lock: Callable[[], AbstractContextManager[object]] = nullcontext,
        kraft: Any = None,
        producer_ids: Any = None,
        forwarder: Any = None,
        new_channel: Callable[[Any], Any] = lambda broker: None,
        **config: str,
    ) -> None:
        """`kraft` to `new_channel`: stand-ins for these parts of the node; `new_channel` makes the channel of the broker given to it."""
        self.clock = clock or ManualClock()
        self.disk = VirtualDisk()
        for path in log_dirs:
            self.disk.makedirs(path)
        settings = {"node.id": str(node), "log.dirs": ",".join(log_dirs)} | {key.replace("_", "."): value for key, value in config.items()}
        self.services = services = new_services(standalone_config(settings), clock=self.clock, disk=self.disk)
        verify = services.config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        log_manager = LogManager(
            self.disk,
            self.clock,
            list(log_dirs),
            services.config,
            random=random.Random(1),
            verify_transactions=verify,
            new_lock=new_lock,
        )
        load_all(log_manager, pytest_fail)
        self.alter_partition_requests: list[tuple[AlterPartitionRequest, Deferred[AlterPartitionResponse]]] = []
        self.manager = ReplicaManager(
            services.config,
            clock=self.clock,
            disk=self.disk,
            rng=random.Random(7),
            log_manager=log_manager,
            metadata=services.metadata,
            send_alter_partition=self._send,
            broker_epoch=lambda: 100 * node,
            run_job=run_inline,
            dynamic_config=services.dynamic_config,
        )
        self.dispatcher = Dispatcher(services)
        channel = new_channel(self)
        self.coordinators = Coordinators(services, self.manager, producer_ids, channel, run_inline)
        self.parts = BrokerParts(
            kraft=kraft,
            log_manager=log_manager,
            replica_manager=self.manager,
            coordinators=self.coordinators,
            producer_ids=producer_ids,
            channel=channel,
            forwarder=forwarder,
        )
        self.dispatcher.serve(BROKER, self.parts)
        self.dispatcher.serve(CONTROLLER, ControllerParts(kraft, self.dispatcher))
        self.manager.changes.on_leadership.append(self.coordinators.leadership_changed)
        log_manager.on_directory_failure = lambda path, error: self.manager.directory_failed(path)
        self.apply(
            *[
                RegisterBrokerRecord(
                    broker_id=each,
                    broker_epoch=100 * each,
                    incarnation_id=UUID(int=1000 + each),
                    end_points=[
                        RegisterBrokerRecord.BrokerEndpoint(name=LISTENER, host=f"host{each}", port=9000 + each, security_protocol=0)
                    ],
                    rack=f"rack{each}",
                    fenced=False,
                )
                for each in nodes
            ]
        )

    def _send(self, request: AlterPartitionRequest) -> Deferred[AlterPartitionResponse]:
        answer: Deferred[AlterPartitionResponse] = Deferred()
        self.alter_partition_requests.append((request, answer))
        return answer

    def apply(self, *records: object) -> None:
        """Replay metadata records, and publish the new image."""
        image = self.services.metadata.image
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        self.services.metadata.image = delta.apply(MetadataProvenance(image.offset + len(records), 1, 0))
        self.manager.changes.prepare(delta, self.services.metadata.image)
        self.manager.changes.apply(delta, self.services.metadata.image)
        self.coordinators.publish(delta, self.services.metadata.image)

    def create_topic(
        self,
        name: str,
        *,
        number: int = 1,
        partitions: int = 1,
        leader: int = NODE,
        replicas: tuple[int, ...] = (NODE,),
        former: UUID | None = None,
        **config: str,
    ) -> UUID:
        """Publish a topic and return its id. `former` is the id of a topic with the same name that is deleted in the same image."""
        id_ = topic_id(number)
        records: list[object] = [RemoveTopicRecord(topic_id=former)] if former is not None else []
        records.append(TopicRecord(name=name, topic_id=id_))
        records += [
            ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value) for key, value in config.items()
        ]
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=id_,
                replicas=list(replicas),
                isr=list(replicas),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[UUID(int=1)] * len(replicas),
            )
            for index in range(partitions)
        ]
        self.apply(*records)
        return id_

    def move_leader(self, id_: UUID, leader: int) -> None:
        self.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, leader=leader))

    def delete_topic(self, id_: UUID) -> None:
        self.apply(RemoveTopicRecord(topic_id=id_))

    def context(self, api_key: int, version: int, client_id: str | None = "test") -> RequestContext:
        return RequestContext(
            api_key,
            version,
            1,
            client_id,
            connection_id="c",
            listener_name=LISTENER,
            listener_scope="broker",
            peer_host="127.0.0.1",
            received_at=self.clock.monotonic(),
            services=self.services,
        )

    def call(self, handle: Callable[..., object], request: Message, version: int, **context: Any) -> Any:
        """Call a handler with the encoded and decoded request, and return the encoded and decoded response.

        A Deferred that is not done is returned as it is.
        """
        decoded = type(request).decode(request.encode(version), version)
        asked = self.context(request.API_KEY, version, **context)
        answer = handle(asked, decoded, self.parts)
        if isinstance(answer, GeneratorType):
            answer = self.dispatcher.long_answers.serve(asked, 0, answer)
        if isinstance(answer, Deferred):
            if not answer.done:
                return answer
            answer = answer.result()
        return answer if answer is None else through_the_wire(answer, version)

    def ask(self, request: M, version: int | None = None, *, scope: str = BROKER, principal: Principal = ANONYMOUS) -> Any:
        """Send a request through the handler table, and return the response that a client on a listener of `scope` gets.

        `version` is the newest version by default. Returns a Deferred while the response is not complete. Raises ProtocolError where the
        connection would close.
        """
        version = API_INFO[request.API_KEY].max_version if version is None else version
        frame = encode_request_header(request.API_KEY, version, 1, "test") + request.encode(version)
        _, answer = self.dispatcher.handle_embedded(frame, scope=scope, listener_name=LISTENER, peer_host="127.0.0.1", principal=principal)

        def decoded(chunks: Any) -> Message | None:
            if chunks is None:
                return None
            return decode_response(join_chunks(chunks)[4:], request.API_KEY, version)

        if not isinstance(answer, Deferred):
            return decoded(answer)
        if answer.done:
            return decoded(answer.result())
        later: Deferred[Message | None] = Deferred()
        answer.add_callback(lambda done: later.fail(done.error) if done.error is not None else later.complete(decoded(done.result())))
        return later

    def log_end(self, topic: str, partition: int = 0) -> int:
        log = self.manager.partition(TopicPartition(topic, partition)).log
        assert log is not None
        return log.log_end_offset


def through_the_wire(response: M, version: int) -> M:
    """Return the response as a client decodes it. File slices are read and released."""
    chunks: list[bytes] = []
    for chunk in response.encode_chunks(version):
        if isinstance(chunk, bytes | bytearray | memoryview):
            chunks.append(bytes(chunk))
        else:
            chunks.append(chunk.read(0, chunk.size))  # type: ignore[attr-defined]
            chunk.release()  # type: ignore[attr-defined]
    return type(response).decode(b"".join(chunks), version)


class InlineJobs:
    """`Jobs` that run at once, without threads."""

    def apart(self, job: Callable[[], T]) -> Deferred[T]:
        try:
            return Deferred.of(job())
        except Exception as error:
            return Deferred.failed(error)

    run = apart


def run_inline(job: Callable[[], None]) -> Deferred[None]:
    return InlineJobs().apart(job)


def pytest_fail(topic_partition: TopicPartition) -> Any:
    raise AssertionError(f"{topic_partition} was not expected on a new disk")


__all__ = ["Broker", "batch", "through_the_wire", "topic_id"]


class Ids:
    """Producer ids from 4001 on."""

    def __init__(self) -> None:
        self.given = 4000

    def next_id(self) -> Deferred[int]:
        self.given += 1
        return Deferred.of(self.given)
