"""A controller's core with its journal, and a log that is only a list."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from odradek.base.undo import UndoJournal
from odradek.config.broker import standalone_config
from odradek.controller.core.brokers import broker_heartbeat, register_broker
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.quorum import QuorumControllerCore
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.controller.core.topics import create_topics
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.features import FEATURES, LATEST_METADATA_VERSION, METADATA_VERSION, supported_features
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.metadata.registrations import PartitionRegistration
from odradek.protocol.api_keys import API_INFO
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record
from odradek.protocol.schema import Message

Q = TypeVar("Q", bound=Message)
R = TypeVar("R")

CLUSTER_ID = "test-cluster"


def level_records(levels: dict[str, int]) -> list[VersionedRecord]:
    return [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in levels.items()]


def directory(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(broker_id + 1) * 1000 + number)


class Controller:
    """Runs operations as the shell does: decide, encode, replay what was encoded."""

    def __init__(self, seed: int = 1, settings: dict[str, str] | None = None, *, features: bool = True, elr: bool = True) -> None:
        self.journal = UndoJournal()
        self.core = QuorumControllerCore(standalone_config(settings), CLUSTER_ID, random.Random(seed), self.journal)
        self.log: list[VersionedRecord] = []
        self.now_s = 1000.0
        self.kraft_version = 0
        if features:
            levels = {METADATA_VERSION: LATEST_METADATA_VERSION}
            levels |= {name: versions[-1].level for name, versions in FEATURES.items() if name != "kraft.version"}
            if not elr:
                del levels["eligible.leader.replicas.version"]
            self.append(level_records(levels))
        self.core.activate(self.now_s)

    def append(self, records: list[VersionedRecord]) -> None:
        for message, version in records:
            decoded, _ = decode_metadata_record(encode_metadata_record(message, version))
            self.core.replay(decoded, len(self.log))
            self.log.append(VersionedRecord(decoded, version))

    def ask(self, operation: Callable[[ControllerContext, Q, int], ControllerResult[R]], request: Q, version: int | None = None) -> R:
        """The response to a request, in the newest version unless one is given."""
        newest = API_INFO[request.API_KEY].max_version
        return self.run(lambda context: operation(context, request, newest if version is None else version))

    def run(self, operation: Callable[[ControllerContext], ControllerResult[R]]) -> R:
        context = self.core.begin(now_s=self.now_s, next_offset=len(self.log), kraft_version=self.kraft_version)
        result = operation(context)
        self.append(result.records)
        return result.response

    def register(
        self,
        broker_id: int,
        *,
        incarnation: int = 1,
        rack: str | None = None,
        previous_epoch: int = -1,
        dirs: int = 1,
        port: int | None = None,
        **fields: object,
    ) -> int:
        """The epoch; `fields` are those of the request."""
        port = 9092 + broker_id if port is None else port
        values: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=broker_id * 100 + incarnation),
            "listeners": [BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=port, security_protocol=0)],
            "features": [
                BrokerRegistrationRequest.Feature(name=name, min_supported_version=r.minimum, max_supported_version=r.maximum)
                for name, r in supported_features().items()
            ],
            "rack": rack,
            "log_dirs": [directory(broker_id, number) for number in range(dirs)],
            "previous_broker_epoch": previous_epoch,
        }
        return self.ask(register_broker, BrokerRegistrationRequest(**(values | fields))).broker_epoch

    def heartbeat(self, broker_id: int, **fields: object) -> BrokerHeartbeatResponse:
        epoch = self.core.state.brokers[broker_id].epoch
        values: dict[str, object] = {"broker_id": broker_id, "broker_epoch": epoch, "current_metadata_offset": len(self.log)}
        request = BrokerHeartbeatRequest(**(values | fields))
        return self.ask(broker_heartbeat, request)

    def join(self, *broker_ids: int, rack: Callable[[int], str | None] = lambda _: None) -> None:
        for broker_id in broker_ids:
            self.register(broker_id, rack=rack(broker_id))
            self.heartbeat(broker_id)

    def create(self, name: str, partitions: int = 1, factor: int = 1, **fields: object) -> CreateTopicsResponse.CreatableTopicResult:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)
        return self.ask(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]

    def partition(self, topic: str, number: int = 0) -> PartitionRegistration:
        found = self.core.state.topic(topic)
        assert found is not None
        return found.partitions[number]

    def image(self) -> MetadataImage:
        delta = MetadataDelta(EMPTY)
        for record, _ in self.log:
            delta.replay(record)
        return delta.apply(MetadataProvenance(len(self.log) - 1, 1, 0))

    def replica(self) -> QuorumControllerCore:
        """A second core that has replayed the log."""
        core = QuorumControllerCore(standalone_config(), CLUSTER_ID, random.Random(9), UndoJournal())
        for offset, (record, _) in enumerate(self.log):
            core.replay(record, offset)
        return core
