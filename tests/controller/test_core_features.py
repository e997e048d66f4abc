"""Feature levels in the controller's core: what goes up, what comes down, and what holds it back."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.brokers import register_controller
from odradek.controller.core.features import elr_safety_records, update_features
from odradek.metadata.features import (
    FEATURES,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED_LEVELS,
    VersionRange,
    known_features,
    metadata_would_be_lost,
    supported_features,
)
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest
from odradek.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.controller.harness import Controller, level_records

UPGRADE, SAFE, UNSAFE = 1, 2, 3
Update = tuple[str, int, int]


def update(controller: Controller, *updates: Update, version: int = 2, kraft_version: int = 0, dry: bool = False) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
            for feature, level, kind in updates
        ],
        validate_only=dry,
    )
    controller.kraft_version = kraft_version
    return controller.ask(update_features, request, version)


def refused(controller: Controller, *updates: Update, kraft_version: int = 0) -> str:
    written = len(controller.log)
    with pytest.raises(KafkaError) as failure:
        update(controller, *updates, kraft_version=kraft_version)
    assert failure.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert len(controller.log) == written
    return failure.value.message


def old(metadata_version: int = 22, **others: int) -> Controller:
    """A cluster with two brokers that was formatted by an older release."""
    controller = Controller(features=False)
    controller.append(
        level_records({METADATA_VERSION: metadata_version} | {name.replace("_", "."): level for name, level in others.items()})
    )
    controller.join(0, 1)
    return controller


def test_an_upgrade_is_a_record_that_a_restart_finds() -> None:
    controller = old()
    assert update(controller, ("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE)).error_code == 0
    assert [record.message for record in controller.log[-2:]] == [
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
    ]
    assert controller.image().features.levels == {"group.version": 1, "transaction.version": 2}


def test_level_zero_takes_a_feature_away() -> None:
    controller = old(group_version=1)
    update(controller, ("group.version", 0, SAFE))
    assert controller.image().features.finalized == {METADATA_VERSION: 22}
    assert "group.version" not in controller.core.state.features


def test_all_updates_or_none() -> None:
    controller = old()
    assert "share.version" in refused(controller, ("group.version", 1, UPGRADE), ("share.version", 7, UPGRADE))
    assert controller.image().features.levels == {}


def test_a_dry_run_writes_nothing() -> None:
    controller = old()
    written = len(controller.log)
    assert update(controller, ("group.version", 1, UPGRADE), dry=True).error_code == 0
    assert len(controller.log) == written


def test_versions_before_2_list_the_features() -> None:
    controller = old()
    assert [(each.feature, each.error_code) for each in update(controller, ("group.version", 1, UPGRADE), version=1).results] == [
        ("group.version", 0)
    ]
    assert update(controller, ("group.version", 1, UPGRADE), version=2).results == []


def test_the_last_update_of_a_feature_counts() -> None:
    controller = old()
    update(controller, ("transaction.version", 9, UPGRADE), ("transaction.version", 1, UPGRADE))
    assert controller.image().features.levels == {"transaction.version": 1}
    update(controller, ("transaction.version", 1, UPGRADE))
    refused(controller, ("transaction.version", 1, UPGRADE), ("transaction.version", 9, UPGRADE))


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_the_present_level_changes_nothing(kind: int) -> None:
    controller = old(transaction_version=1)
    written = len(controller.log)
    update(controller, ("transaction.version", 1, kind), (METADATA_VERSION, 22, kind), ("kraft.version", 0, kind))
    assert len(controller.log) == written


@pytest.mark.parametrize(
    "wanted",
    [
        ("transaction.version", 0, UPGRADE),
        ("transaction.version", 2, SAFE),
        ("transaction.version", 2, UNSAFE),
        ("transaction.version", 3, UPGRADE),
        ("transaction.version", -1, SAFE),
        ("transaction.version", 0, 0),
        ("transaction.version", 1, 4),
        ("unknown.version", 1, UPGRADE),
        ("unknown.version", 0, UPGRADE),
        ("", 0, UPGRADE),
        ("share.version", 1, UPGRADE),
        ("streams.version", 1, UPGRADE),
        ("kraft.version", 1, UPGRADE),
        (METADATA_VERSION, 0, SAFE),
        (METADATA_VERSION, 6, SAFE),
        (METADATA_VERSION, 31, UPGRADE),
        (METADATA_VERSION, 21, UPGRADE),
    ],
)
def test_what_is_refused(wanted: Update) -> None:
    assert f"level {wanted[1]} of feature {wanted[0]}" in refused(old(transaction_version=1), wanted)


def test_a_dynamic_quorum_stays_one() -> None:
    refused(old(), ("kraft.version", 0, SAFE), kraft_version=1)
    update(old(), ("kraft.version", 1, UPGRADE), kraft_version=1)


def test_levels_that_are_kept_but_not_served_may_stay_and_go() -> None:
    controller = old(29, share_version=1)
    update(controller, ("share.version", 1, UPGRADE))
    update(controller, ("share.version", 0, SAFE))
    refused(controller, ("share.version", 1, UPGRADE))


def test_a_feature_may_depend_on_what_the_same_request_brings() -> None:
    elr = ("eligible.leader.replicas.version", 1, UPGRADE)
    assert "depends on metadata.version at level 23" in refused(old(22), elr)
    controller = old(22)
    update(controller, elr, (METADATA_VERSION, 23, UPGRADE))
    assert controller.image().features.elr_enabled


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_metadata_version_comes_down_as_long_as_nothing_can_be_lost(kind: int) -> None:
    controller = old(29)
    update(controller, (METADATA_VERSION, 23, kind))
    assert controller.image().features.metadata_version == 23
    assert "cannot go down" in refused(controller, (METADATA_VERSION, 22, kind))
    update(controller, (METADATA_VERSION, 30, UPGRADE))
    assert "cannot go down" in refused(controller, (METADATA_VERSION, 29, kind))


def test_which_levels_changed_the_metadata() -> None:
    lossless = [(high, low) for high in METADATA_VERSION_NAMES for low in METADATA_VERSION_NAMES if low < high]
    lossless = [(high, low) for high, low in lossless if not metadata_would_be_lost(high, low)]
    assert {(high, high - 1) for high in METADATA_VERSION_NAMES} & set(lossless) == {
        (level, level - 1) for level in (9, 10, 12, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29)
    }
    assert not metadata_would_be_lost(30, 30)


def test_every_broker_has_to_know_the_level() -> None:
    controller = old()
    state = controller.core.state
    broker = state.brokers[1]
    known = tuple((name, levels) for name, levels in broker.supported_features if name != "group.version")
    state.brokers[1] = broker._replace(supported_features=known)
    assert "Broker 1 does not support" in refused(controller, ("group.version", 1, UPGRADE))
    update(controller, ("transaction.version", 2, UPGRADE))


def test_every_controller_has_to_know_the_level() -> None:
    controller = old()
    feature = ControllerRegistrationRequest.Feature(name="group.version", min_supported_version=0, max_supported_version=0)
    request = ControllerRegistrationRequest(controller_id=77, features=[feature])
    controller.ask(register_controller, request)
    assert "Controller 77 does not support" in refused(controller, ("group.version", 1, UPGRADE))


def test_older_metadata_does_not_tell_what_controllers_know() -> None:
    controller = Controller(features=False, settings={"controller.quorum.voters": "1@localhost:1,77@localhost:2"})
    controller.append(level_records({METADATA_VERSION: 14}))
    update(controller, ("transaction.version", 1, UPGRADE))
    update(controller, (METADATA_VERSION, 15, UPGRADE))
    assert "Controller 77, which has not registered" in refused(controller, ("transaction.version", 2, UPGRADE))


def test_a_failed_append_takes_the_level_back() -> None:
    controller = old()
    before = controller.core.state.comparable()
    offset = len(controller.log)
    update(controller, ("group.version", 1, UPGRADE))
    controller.journal.revert_to(offset)
    assert controller.core.state.comparable() == before


def test_validating_finalizes_nothing() -> None:
    controller = old()
    written = len(controller.log)
    assert update(controller, ("group.version", 1, UPGRADE), dry=True).error_code == 0
    assert len(controller.log) == written
    refused(controller, ("group.version", 9, UPGRADE))


def test_clearing_eligible_replicas_is_a_change_of_each_partition_that_has_any() -> None:
    controller = Controller()
    controller.join(0, 1)
    for name in ("a", "b"):
        controller.create(name, 1, 2)
    gone = controller.partition("a").replicas[0]
    controller.heartbeat(gone, want_fence=True)
    controller.heartbeat(1 - gone, want_fence=True)
    before = {name: controller.partition(name) for name in ("a", "b")}
    assert all(each.elr for each in before.values())
    controller.append([VersionedRecord(ClearElrRecord(topic_name="a"), 0)])
    assert controller.partition("b") == before["b"]
    after = controller.partition("a")
    assert (after.elr, after.partition_epoch, after.leader_epoch) == ((), before["a"].partition_epoch + 1, before["a"].leader_epoch)
    image = controller.image()
    topic = image.topics.by_name["a"]
    assert topic.partitions[0] == after, "brokers see the same epoch"


def test_turning_on_eligible_replicas_leaves_one_min_isr_where_all_brokers_see_it() -> None:
    controller = Controller(elr=False, settings={"min.insync.replicas": "2"})
    controller.join(0)
    key = "min.insync.replicas"
    for name in ("0", "1"):
        record = ConfigRecord(resource_type=4, resource_name=name, name=key, value="3")
        controller.append([VersionedRecord(record, 0)])
    levels = level_records({"eligible.leader.replicas.version": 1})
    written = [each.message for each in elr_safety_records(controller.core.context, levels)]
    assert written == [
        ConfigRecord(resource_type=4, resource_name="", name=key, value="2"),
        ConfigRecord(resource_type=4, resource_name="0", name=key, value=None),
        ConfigRecord(resource_type=4, resource_name="1", name=key, value=None),
    ]
    controller.append([VersionedRecord(record, 0) for record in written])
    assert elr_safety_records(controller.core.context, levels) == [], "what is set for all stays"
    assert elr_safety_records(controller.core.context, level_records({"group.version": 1})) == []


def test_what_is_said_to_be_supported_can_be_reached() -> None:
    """A level in the range that clients are told is one that an upgrade takes; one that is not served is in no range."""
    elr = "eligible.leader.replicas.version"
    assert supported_features().keys() == {METADATA_VERSION, "kraft.version", "group.version", "transaction.version", elr}
    controller = old(30)
    for name, levels in supported_features().items():
        if name not in (METADATA_VERSION, "kraft.version"):
            update(controller, (name, levels.maximum, UPGRADE))
    for name in known_features().keys() - supported_features().keys():
        refused(controller, (name, 1, UPGRADE))


def test_a_level_served_in_part_ends_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUPPORTED_LEVELS, "transaction.version", 1)
    assert supported_features()["transaction.version"] == VersionRange(0, 1)
    assert known_features()["transaction.version"] == VersionRange(0, 2)
    assert "supported level is 1" in refused(old(30), ("transaction.version", 2, UPGRADE))


def test_brokers_come_back_to_levels_that_are_kept_but_not_served() -> None:
    """As in a directory that JVM Kafka formatted: nobody here serves what it finalized, and the cluster starts all the same."""
    unserved = [name for name in FEATURES if SUPPORTED_LEVELS.get(name) == 0]
    assert len(unserved) == 2
    controller = Controller(features=False)
    controller.append(level_records({METADATA_VERSION: 30, **dict.fromkeys(unserved, 1)}))
    controller.join(0, 1)
    assert [controller.image().features.levels[name] for name in unserved] == [1, 1]
    assert all(unserved[0] not in dict(broker.supported_features) for broker in controller.core.state.brokers.values())
