"""Registrations, heartbeats and fencing of brokers and controllers (org.apache.kafka.controller.ClusterControlManager, KIP-631).

    registered, fenced --caught up, wants no fence--> unfenced --wants to shut down--> controlled shutdown --leads nothing--> may stop
                       <--silent for the session timeout, or wants to be fenced--

A registration's epoch is the offset of its record. A request with an older epoch comes from an earlier process of the broker. While a
broker's session lasts, fenced or not, no other broker may register its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_string
from odradek.controller.core import partitions
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.heartbeats import ControlState
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.metadata import features
from odradek.metadata.registrations import BrokerRegistration
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1

_RESERVED_DIRECTORY_IDS = 100

_SECURITY_PROTOCOLS = range(4)
"""Codes of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL (org.apache.kafka.common.security.auth.SecurityProtocol)."""


# -- registration -------------------------------------------------------------------------------------------------------------------------


def register_broker(
    context: ControllerContext, request: BrokerRegistrationRequest, version: int
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker; the response is its epoch (BrokerRegistration, 62).

    Raises KafkaError INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION, BROKER_ID_NOT_REGISTERED (a ZooKeeper
    broker) or UNSUPPORTED_VERSION when the registration is refused.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    state = context.state
    existing = state.brokers.get(request.broker_id)
    _check_registration(context, request, existing)
    same_life = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[VersionedRecord] = []
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in {each.name: each for each in request.listeners}.values()  # Of two listeners with the same name the last counts.
        ],
        features=_registered_features(context, request),
        rack=request.rack,
        broker_epoch=context.next_offset,
    )
    if features.directory_assignment_supported(state.metadata_version):
        record.log_dirs = list(request.log_dirs)
    if existing is not None and same_life:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.broker_epoch = existing.epoch
    else:
        records += _records_for_past_life(context, request, existing)
        context.heartbeats.remove(request.broker_id)
        record.broker_epoch = context.next_offset
    records.append(VersionedRecord(record, features.register_broker_record_version(state.metadata_version)))
    context.heartbeats.register(request.broker_id, fenced=record.fenced)
    return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch), atomic=True)


def _check_registration(context: ControllerContext, request: BrokerRegistrationRequest, existing: BrokerRegistration | None) -> None:
    if request.cluster_id != context.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {context.cluster_id}, but got cluster ID {request.cluster_id}"
        )
    alive = context.heartbeats.has_valid_session(request.broker_id, context.now_s)
    if existing is not None and alive and existing.incarnation_id != request.incarnation_id and not _replaces(request, existing):
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker is registered with id {request.broker_id}")
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    _check_listeners(request.listeners)
    if features.directory_assignment_supported(context.state.metadata_version):
        _check_directories(context, request)


def _check_listeners(
    listeners: Sequence[BrokerRegistrationRequest.Listener] | Sequence[ControllerRegistrationRequest.Listener],
) -> None:
    """Raise KafkaError INVALID_REGISTRATION for a listener to which clients cannot connect.

    Kafka's controller resigns when a listener has no host, port or known security protocol. A record with a nameless listener ends the
    process of every JVM node that replays it.
    """
    for listener in listeners:
        if not listener.name or not listener.host or not listener.port or listener.security_protocol not in _SECURITY_PROTOCOLS:
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"Listener {listener.name!r} at {listener.host!r}, port {listener.port}, security protocol "
                f"{listener.security_protocol}, is incomplete, or its security protocol is unknown",
            )


def _replaces(request: BrokerRegistrationRequest, existing: BrokerRegistration) -> bool:
    """Return whether the registering broker has the log directories and the addresses of the registered one.

    A living process keeps its log directories locked and its addresses in use, so the registered process has ended, and its session need
    not time out first. Kafka, unlike Odradek, refuses the registration until the old session has timed out.
    """
    return (
        bool(existing.directories)
        and set(existing.directories) == set(request.log_dirs)
        and set(existing.listeners) == {(e.name, e.host, e.port, e.security_protocol) for e in request.listeners}
    )


def _check_directories(context: ControllerContext, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(directory.int < _RESERVED_DIRECTORY_IDS for directory in directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker_id, broker in context.state.brokers.items():
        for directory in broker.directories if broker_id != request.broker_id else ():
            if directory in directories:
                raise KafkaError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker_id} is already registered with directory {uuid_to_string(directory)}",
                )


def _registered_features(context: ControllerContext, request: BrokerRegistrationRequest) -> list[RegisterBrokerRecord.BrokerFeature]:
    """Return the features that the broker supports.

    Another implementation may have finalized levels that this controller does not support. These levels are kept, and brokers need not
    support them. Raises KafkaError UNSUPPORTED_VERSION when the broker does not support a finalized level, and INVALID_REGISTRATION without
    metadata.version.
    """
    supported = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features}
    finalized = dict(context.state.features.items()) | {
        features.METADATA_VERSION: context.state.metadata_version,
        features.KRAFT_VERSION: context.kraft_version,
    }
    for name, levels in supported.items():
        _check_finalized(name, finalized.get(name, 0), levels)
    if features.METADATA_VERSION not in supported:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    for name, level in finalized.items():
        if name not in supported:
            _check_finalized(name, level, (0, 0))
    return [
        RegisterBrokerRecord.BrokerFeature(name=name, min_supported_version=levels[0], max_supported_version=levels[1])
        for name, levels in supported.items()
    ]


def _check_finalized(name: str, level: int, supported: tuple[int, int]) -> None:
    minimum, maximum = supported
    if features.is_supported(name, level) and not minimum <= level <= maximum:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {minimum} and {maximum}, inclusive.",
        )


def _records_for_past_life(
    context: ControllerContext, request: BrokerRegistrationRequest, existing: BrokerRegistration | None
) -> list[VersionedRecord]:
    """Return records that remove the broker's former process from ISRs and, after an unclean stop, from eligible replicas (KIP-966)."""
    broker_id = request.broker_id
    clean = context.state.elr_enabled and existing is not None and existing.epoch == request.previous_broker_epoch
    if context.state.elr_enabled and not clean:
        affected = partitions.partitions_with(context, broker_id) + partitions.partitions_with(context, broker_id, elr=True)
        return partitions.leader_and_isr_records(context, affected, unclean=broker_id)
    return partitions.leader_and_isr_records(context, partitions.partitions_with(context, broker_id), remove=broker_id)


def register_controller(
    context: ControllerContext, request: ControllerRegistrationRequest, version: int
) -> ControllerResult[ControllerRegistrationResponse]:
    """Register a controller's listeners and features (ControllerRegistration, 70).

    Raises KafkaError UNSUPPORTED_VERSION while the metadata.version is too old, and INVALID_REGISTRATION for an incomplete listener.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    if not features.controller_registration_supported(context.state.metadata_version):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current MetadataVersion is too old to support controller registrations.")
    _check_listeners(request.listeners)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in {each.name: each for each in request.listeners}.values()
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=f.name, min_supported_version=f.min_supported_version, max_supported_version=f.max_supported_version
            )
            for f in request.features
        ],
    )
    return ControllerResult([VersionedRecord(record, 0)], ControllerRegistrationResponse(), atomic=True)


def unregister_broker(
    context: ControllerContext, request: UnregisterBrokerRequest, version: int
) -> ControllerResult[UnregisterBrokerResponse]:
    """Remove a broker's registration (UnregisterBroker, 64). Raises KafkaError BROKER_ID_NOT_REGISTERED for an unknown broker.

    ACL: ALTER on Cluster. Quota: request time.
    """
    broker_id = request.broker_id
    broker = context.state.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    affected = partitions.partitions_with(context, broker_id) + partitions.partitions_with(context, broker_id, elr=True)
    records = partitions.leader_and_isr_records(context, affected, remove=broker_id)
    records.append(VersionedRecord(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch), 0))
    context.heartbeats.remove(broker_id)
    return ControllerResult(records, UnregisterBrokerResponse())


# -- heartbeats ---------------------------------------------------------------------------------------------------------------------------


def broker_heartbeat(
    context: ControllerContext, request: BrokerHeartbeatRequest, version: int
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Note a broker's heartbeat; fence or unfence the broker, or let it shut down (BrokerHeartbeat, 63).

    Raises KafkaError STALE_BROKER_EPOCH when the broker must register again.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    state = context.state
    broker_id = request.broker_id
    broker = state.check_broker_epoch(broker_id, request.broker_epoch)
    registered_at = state.registration_offsets.get(broker_id) or 0
    current = context.heartbeats.state_of(broker_id)
    following = _next_state(context, request, current, registered_at)
    failed = _newly_offline(context, broker, request.offline_log_dirs)
    if failed and current is ControlState.FENCED and following is ControlState.UNFENCED:
        # Do not unfence in the same step, or the broker would be elected for partitions in the failed directory too. (Kafka 4.3.1 does
        # that.)
        following = ControlState.FENCED
    records: list[VersionedRecord] = []
    if following is not current:
        if following.fenced:
            records += fencing_records(context, broker)
        elif following is ControlState.UNFENCED:
            records += _unfencing_records(context, broker)
        else:
            records += _controlled_shutdown_records(context, broker)
    context.heartbeats.touch(broker_id, fenced=following.fenced, metadata_offset=request.current_metadata_offset, now_s=context.now_s)
    records += _offline_directory_records(context, broker, failed)
    records += _cordoned_directory_records(context, broker, request.cordoned_log_dirs)
    if following is ControlState.CONTROLLED_SHUTDOWN:
        context.heartbeats.begin_shutdown(broker_id, context.next_offset + len(records) - 1)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= registered_at,
        is_fenced=following.fenced,
        should_shut_down=following is ControlState.SHUTDOWN_NOW,
    )
    return ControllerResult(records, response)


def _next_state(context: ControllerContext, request: BrokerHeartbeatRequest, current: ControlState, registered_at: int) -> ControlState:
    broker_id = request.broker_id
    if current is ControlState.FENCED:
        if request.want_shut_down:
            return ControlState.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= registered_at
        return ControlState.UNFENCED if not request.want_fence and caught_up else ControlState.FENCED
    if current is ControlState.UNFENCED:
        if request.want_fence:
            return ControlState.SHUTDOWN_NOW if request.want_shut_down else ControlState.FENCED
        if not request.want_shut_down:
            return ControlState.UNFENCED
        return ControlState.CONTROLLED_SHUTDOWN if context.state.has_leaderships(broker_id) else ControlState.SHUTDOWN_NOW
    if context.state.has_leaderships(broker_id) or not context.heartbeats.all_others_have_seen_shutdown(broker_id):
        return ControlState.CONTROLLED_SHUTDOWN
    return ControlState.SHUTDOWN_NOW


def fence_stale_broker(context: ControllerContext, as_of_s: float | None = None) -> ControllerResult[int | None]:
    """Fence the broker with the oldest heartbeat if its session has expired. The response is its id, or None; call again until None.

    `as_of_s` is the time of the check in monotonic seconds, now by default. Heartbeats received after it may not have been noted yet.
    """
    for broker_id in context.heartbeats.stale_brokers(context.now_s if as_of_s is None else as_of_s):
        broker = context.state.brokers.get(broker_id)
        if broker is None:
            context.heartbeats.remove(broker_id)
            continue
        records = fencing_records(context, broker)
        context.heartbeats.fence(broker_id)
        return ControllerResult(records, broker_id)
    return ControllerResult([], None)


def fence_broker(context: ControllerContext, broker_id: int, broker_epoch: int) -> ControllerResult[bool]:
    """Fence a broker that is known to be gone, and return whether it was fenced now.

    Do nothing for a fenced broker, or when `broker_epoch` is not current.
    """
    broker = context.state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return ControllerResult([], False)
    context.heartbeats.fence(broker_id)
    return ControllerResult(fencing_records(context, broker), True)


def fencing_records(context: ControllerContext, broker: BrokerRegistration) -> list[VersionedRecord]:
    """Return records that remove the broker from every ISR and then fence it."""
    affected = partitions.partitions_with(context, broker.broker_id)
    records = partitions.leader_and_isr_records(context, affected, remove=broker.broker_id)
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=FENCE)
    records.append(VersionedRecord(change, 0))
    return records


def _unfencing_records(context: ControllerContext, broker: BrokerRegistration) -> list[VersionedRecord]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=UNFENCE)
    records = [VersionedRecord(change, 0)]
    records += partitions.leader_and_isr_records(context, partitions.leaderless(context), add=broker.broker_id)
    return records


def _controlled_shutdown_records(context: ControllerContext, broker: BrokerRegistration) -> list[VersionedRecord]:
    records: list[VersionedRecord] = []
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
        )
        records.append(VersionedRecord(change, 1))
    affected = partitions.partitions_with(context, broker.broker_id)
    return records + partitions.leader_and_isr_records(context, affected, remove=broker.broker_id)


# -- log directories ----------------------------------------------------------------------------------------------------------------------


def _newly_offline(context: ControllerContext, broker: BrokerRegistration, offline: list[UUID]) -> list[UUID]:
    if not features.directory_assignment_supported(context.state.metadata_version):
        return []
    return [directory for directory in broker.directories if directory in offline]


def _offline_directory_records(context: ControllerContext, broker: BrokerRegistration, newly: list[UUID]) -> list[VersionedRecord]:
    if not newly:
        return []
    affected = [
        each
        for each in context.state.all_partitions()
        if broker.broker_id in each.partition.replicas and each.partition.directory(broker.broker_id) in newly
    ]
    records = partitions.leader_and_isr_records(context, affected, remove=broker.broker_id)
    online = [directory for directory in broker.directories if directory not in newly]
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=online)
    records.append(VersionedRecord(change, 2))
    return records


def _cordoned_directory_records(
    context: ControllerContext, broker: BrokerRegistration, cordoned: list[UUID] | None
) -> list[VersionedRecord]:
    if cordoned is None or not features.cordoned_log_dirs_supported(context.state.metadata_version):
        return []
    known = broker.cordoned_directories
    if known is not None and set(known) == set(cordoned):
        return []
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned))
    return [VersionedRecord(change, 3)]
