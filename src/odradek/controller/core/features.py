"""Finalized feature levels (org.apache.kafka.controller.FeatureControlManager, KIP-584)."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, FEATURES, METADATA_VERSION, VersionRange, supported_features
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.messages.metadata_records import ConfigRecord, FeatureLevelRecord
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType."""


def update_features(context: ControllerContext, request: UpdateFeaturesRequest, version: int) -> ControllerResult[UpdateFeaturesResponse]:
    """All updates or none; from version 2 the first error stands for the whole request."""
    records: list[VersionedRecord] = []
    response = UpdateFeaturesResponse()
    failed: KafkaError | None = None
    for update in request.feature_updates:
        kind = update.upgrade_type
        if version == 0:
            kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
        result = UpdateFeaturesResponse.UpdatableFeatureResult(feature=update.feature)
        try:
            records += _update(context, update.feature, update.max_version_level, kind)
        except KafkaError as error:
            failed = failed or error
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    if failed is not None:
        records = []
        if version >= 2:
            message = f"The update failed for all features since the following feature had an error: {failed.message}"
            response.error_code, response.error_message, response.results = failed.code, message, []
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def _update(context: ControllerContext, name: str, level: int, kind: int) -> list[VersionedRecord]:
    supported = supported_features().get(name)
    if supported is None:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. The feature is unknown.")
    current = context.state.features.get(name) or 0
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid upgrade type {kind} for feature {name}")
    _check_range(context, name, level, supported)
    if level < current and kind == UPGRADE:
        message = f"Can't downgrade the version of feature {name} without setting the upgrade type to either safe or unsafe downgrade."
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
    if level > current and kind != UPGRADE:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Can't upgrade the version of feature {name} with a downgrade type.")
    if level == current:
        return []
    if name == METADATA_VERSION and level < current:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "Invalid metadata.version: a downgrade is not served yet")
    _check_dependencies(context, name, level)
    records = [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)]
    return records + elr_safety_records(context, records)


def elr_safety_records(context: ControllerContext, levels: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """What turning on eligible leader replicas needs: one min.insync.replicas, set where all brokers see it (KIP-966)."""
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


def _check_range(context: ControllerContext, name: str, level: int, supported: VersionRange) -> None:
    if level != 0 and level not in supported:
        message = (
            f"Invalid update version {level} for feature {name}. This controller supports versions {supported.minimum}-{supported.maximum}."
        )
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
    for broker_id, broker in context.state.brokers.items():
        levels = dict(broker.supported_features).get(name)
        if level != 0 and (levels is None or level not in levels):
            message = f"Invalid update version {level} for feature {name}. Broker {broker_id} does not support this feature level."
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _check_dependencies(context: ControllerContext, name: str, level: int) -> None:
    for version in FEATURES.get(name, ()):
        for other, needed in version.dependencies if version.level == level else ():
            if (context.state.features.get(other) or 0) < needed:
                message = f"Invalid update version {level} for feature {name}. It needs {other} at level {needed}."
                raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
