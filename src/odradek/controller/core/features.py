"""Finalized feature levels (org.apache.kafka.controller.FeatureControlManager, KIP-584, KIP-1022)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED_LEVELS,
    VersionRange,
    controller_registration_supported,
    dependencies,
    is_supported,
    known_features,
    metadata_would_be_lost,
    supported_features,
)
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.messages.metadata_records import ConfigRecord, FeatureLevelRecord
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

logger = logging.getLogger(__name__)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Codes of upgrade types (org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType)."""

_NO_SUPPORT = VersionRange(0, 0)


def update_features(context: ControllerContext, request: UpdateFeaturesRequest, version: int) -> ControllerResult[UpdateFeaturesResponse]:
    """Finalize feature levels for the whole cluster (UpdateFeatures, 57, KIP-584, KIP-1022).

    All updates are made or none; an error applies to the whole request. As in Kafka 4.3, allow_downgrade of version 0 allows no downgrade,
    and the last of several updates of one feature counts. Version 2 has no results by feature.
    ACL: ALTER on Cluster. Quota: request time.
    Known gaps: levels that Odradek does not support (`metadata.features.SUPPORTED_LEVELS`) and kraft.version are not upgraded.
    """
    wanted = {update.feature: (update.max_version_level, update.upgrade_type) for update in request.feature_updates}
    proposed = dict(context.state.features.items()) | {name: level for name, (level, _) in wanted.items()}
    records: list[VersionedRecord] = []
    try:
        for name, (level, kind) in wanted.items():
            records += _update(context, name, level, kind, proposed)
    except KafkaError as error:
        logger.info("no feature is changed: %s", error.message)
        raise KafkaError(error.code, f"No feature was changed, since one change is not possible: {error.message}") from None
    response = UpdateFeaturesResponse(error_message=None)
    if version <= 1:
        # Kafka writes the text "NONE" here, and no text at the top level.
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        response.results = [result(feature=update.feature, error_message="NONE") for update in request.feature_updates]
    if request.validate_only:
        return ControllerResult([], response, atomic=True)
    for record in records:
        assert isinstance(record.message, FeatureLevelRecord)
        logger.info("%s changes to level %d", record.message.name, record.message.feature_level)
    return ControllerResult(elr_safety_records(context, records) + records, response, atomic=True)


def _update(context: ControllerContext, name: str, level: int, kind: int, proposed: Mapping[str, int]) -> list[VersionedRecord]:
    """Return the record that takes a feature to its new level, or an empty list when the level is the current one."""
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, level, f"The upgrade type {kind} does not exist.")
    if level < 0:
        raise _invalid(name, level, "A level must be at least 0.")
    current = context.kraft_version if name == KRAFT_VERSION else context.state.features.get(name) or 0
    # A level that another implementation has finalized may stay, even if this release does not support it.
    if level != current:
        _check_supported(context, name, level)
    if level < current and kind == UPGRADE:
        raise _invalid(name, level, f"That is below the current level {current} and needs a downgrade, safe or unsafe.")
    if level > current and kind != UPGRADE:
        raise _invalid(name, level, f"That is above the current level {current} and needs an upgrade.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level)
    elif name == KRAFT_VERSION:
        if level < current:
            raise _invalid(name, level, "This feature cannot be downgraded.")
        if level > current:
            raise _invalid(name, level, "Odradek cannot change a static quorum into a dynamic one at run time yet.")
    else:
        _check_dependencies(name, level, proposed)
    if level == current:
        return []
    return [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)]


def _check_supported(context: ControllerContext, name: str, level: int) -> None:
    if level in known_features().get(name, _NO_SUPPORT) and not is_supported(name, level):
        raise _invalid(name, level, f"Odradek does not support it yet; the highest supported level is {SUPPORTED_LEVELS[name]}.")
    for node, supported in _supported_by(context, name):
        if level not in supported:
            raise _invalid(
                name, level, f"{node} only supports levels {supported}." if supported.maximum else f"{node} does not support this feature."
            )


def _supported_by(context: ControllerContext, name: str) -> Iterator[tuple[str, VersionRange]]:
    """Yield each node that must support the level, with the levels that it supports. A voter that has not registered supports none."""
    yield f"Controller {context.node_id}", supported_features().get(name, _NO_SUPPORT)
    for broker_id, broker in context.state.brokers.items():
        yield f"Broker {broker_id}", dict(broker.supported_features).get(name, _NO_SUPPORT)
    if not controller_registration_supported(context.state.metadata_version):
        return
    registered = dict(context.state.controllers.items())
    for controller_id, controller in registered.items():
        if controller_id != context.node_id:
            yield f"Controller {controller_id}", dict(controller.supported_features).get(name, _NO_SUPPORT)
    for voter_id in context.config.controller_quorum_voters:
        if voter_id != context.node_id and voter_id not in registered:
            yield f"Controller {voter_id}, which has not registered,", VersionRange(0, -1)


def _check_metadata_version(current: int, level: int) -> None:
    if level >= current or not metadata_would_be_lost(current, level):
        return
    # Kafka refuses unsafe downgrades too: no code removes the records from the log.
    before, after = METADATA_VERSION_NAMES[current], METADATA_VERSION_NAMES[level]
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"metadata.version cannot go down from {current} ({before}) to {level} ({after}): metadata could be lost, which is not supported.",
    )


def _check_dependencies(name: str, level: int, proposed: Mapping[str, int]) -> None:
    """Raise KafkaError unless the feature's dependencies are met after the whole request."""
    try:
        needed = dependencies(name, level)
    except ValueError as error:
        raise _invalid(name, level, f"{error}.") from None
    for other, least in needed:
        if proposed.get(other, 0) < least:
            raise _invalid(name, level, f"It depends on {other} at level {least}.")


def _invalid(name: str, level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid level {level} of feature {name}. {reason}")


def elr_safety_records(context: ControllerContext, levels: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """Return the records needed to enable eligible leader replicas: one min.insync.replicas that all brokers see (KIP-966)."""
    turned_on = any(
        isinstance(record.message, FeatureLevelRecord)
        and record.message.name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and record.message.feature_level >= 1
        for record in levels
    )
    if not turned_on or context.state.elr_enabled:
        return []
    key = "min.insync.replicas"
    records: list[VersionedRecord] = []
    if key not in (context.state.configs.get((RESOURCE_BROKER, "")) or {}):
        value = str(context.config.min_insync_replicas)
        records.append(VersionedRecord(ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name=key, value=value), 0))
    for (resource_type, name), values in context.state.configs.items():
        if resource_type == RESOURCE_BROKER and name and key in values:
            records.append(VersionedRecord(ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=None), 0))
    return records
