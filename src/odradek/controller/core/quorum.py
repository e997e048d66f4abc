"""The controller as one object for the shell that runs it on the metadata log (org.apache.kafka.controller.QuorumController).

    core.now_s, core.next_offset = clock.monotonic(), log_end_offset
    result = core.create_topics(request)
    for index, (record, version) in enumerate(result.records): core.replay(record, log_end_offset + index)

Operations decide and change nothing but heartbeat times; `replay` changes the state, each change revertible through the journal.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from odradek.base.undo import UndoJournal
from odradek.config.broker import BrokerConfig
from odradek.controller.core import brokers, configs, features, partitions, producer_ids, topics
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.controller.core.state import ControllerState
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class QuorumControllerCore:
    """Every operation raises KafkaError where the request as a whole fails."""

    def __init__(self, config: BrokerConfig, cluster_id: str, rng: random.Random, journal: UndoJournal) -> None:
        self.state = ControllerState(journal)
        self.context = ControllerContext(self.state, config, cluster_id, rng)

    # -- for the shell ----------------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Monotonic seconds; to be set before each operation."""
        return self.context.now_s

    @now_s.setter
    def now_s(self, value: float) -> None:
        self.context.now_s = value

    @property
    def next_offset(self) -> int:
        """The offset the first record of the operation will have; to be set before each."""
        return self.context.next_offset

    @next_offset.setter
    def next_offset(self, value: int) -> None:
        self.context.next_offset = value

    def replay(self, record: object, offset: int) -> None:
        """Applies a record at its offset; ValueError for one that contradicts the state."""
        self.state.replay(record, offset)

    def activate(self) -> None:
        """Begins a term as the active controller: every registered broker counts as heard of now."""
        heartbeats = self.context.heartbeats
        heartbeats.clear()
        for broker_id, broker in self.state.brokers.items():
            heartbeats.touch(broker_id, fenced=broker.fenced, metadata_offset=-1, now_s=self.context.now_s)

    def elr_safety_records(self, bootstrap: Sequence[VersionedRecord]) -> list[VersionedRecord]:
        """What has to follow bootstrap records that turn on eligible leader replicas, in the same transaction."""
        return features.elr_safety_records(self.context, bootstrap)

    # -- topics -----------------------------------------------------------------------------------------------------------------------

    def create_topics(self, request: CreateTopicsRequest) -> ControllerResult[CreateTopicsResponse]:
        return topics.create_topics(self.context, request)

    def create_partitions(self, request: CreatePartitionsRequest) -> ControllerResult[CreatePartitionsResponse]:
        return topics.create_partitions(self.context, request)

    def delete_topics(self, request: DeleteTopicsRequest, version: int) -> ControllerResult[DeleteTopicsResponse]:
        return topics.delete_topics(self.context, request, version)

    # -- configuration and features ---------------------------------------------------------------------------------------------------

    def alter_configs(self, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
        return configs.alter_configs(self.context, request)

    def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> ControllerResult[IncrementalAlterConfigsResponse]:
        return configs.incremental_alter_configs(self.context, request)

    def update_features(self, request: UpdateFeaturesRequest, version: int, kraft_version: int) -> ControllerResult[UpdateFeaturesResponse]:
        return features.update_features(self.context, request, version, kraft_version)

    # -- brokers ----------------------------------------------------------------------------------------------------------------------

    def register_broker(self, request: BrokerRegistrationRequest) -> ControllerResult[BrokerRegistrationResponse]:
        return brokers.register_broker(self.context, request)

    def register_controller(self, request: ControllerRegistrationRequest) -> ControllerResult[ControllerRegistrationResponse]:
        return brokers.register_controller(self.context, request)

    def unregister_broker(self, request: UnregisterBrokerRequest) -> ControllerResult[UnregisterBrokerResponse]:
        return brokers.unregister_broker(self.context, request.broker_id)

    def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatResponse]:
        return brokers.broker_heartbeat(self.context, request)

    def fence_stale_broker(self) -> ControllerResult[int | None]:
        """To be called by timer until the response is None, and again at `next_heartbeat_check_s`."""
        return brokers.fence_stale_broker(self.context)

    def next_heartbeat_check_s(self) -> float | None:
        """When (monotonic seconds) a session may next run out; None while no broker is unfenced."""
        return self.context.heartbeats.next_check_s()

    # -- partitions -------------------------------------------------------------------------------------------------------------------

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> ControllerResult[AlterPartitionResponse]:
        return partitions.alter_partition(self.context, request, version)

    def assign_replicas_to_directories(self, request: AssignReplicasToDirsRequest) -> ControllerResult[AssignReplicasToDirsResponse]:
        return partitions.assign_replicas_to_directories(self.context, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
        return partitions.elect_leaders(self.context, request)

    def balance_leaders(self) -> ControllerResult[bool]:
        """Preferred-leader elections by timer (leader.imbalance.check.interval.seconds); True: call again at once."""
        return partitions.balance_leaders(self.context)

    def elect_unclean_leaders(self) -> ControllerResult[bool]:
        """Unclean elections by timer (unclean.leader.election.interval.ms); True: call again at once."""
        return partitions.elect_unclean_leaders(self.context)

    # -- producer ids -----------------------------------------------------------------------------------------------------------------

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> ControllerResult[AllocateProducerIdsResponse]:
        return producer_ids.allocate_producer_ids(self.context, request)
