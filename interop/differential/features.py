"""Levels of features: what may be changed how, and what a changed level does to the requests of clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.case import Case
from interop.differential.peer import PATIENCE_SECONDS, Peer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.update_features import UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3
FORMATTED = {"transaction.version": 2, "group.version": 1, "metadata.version": 30}
"""What both brokers were formatted with and serve."""


def update(version: int, name: str, *updates: tuple[str, int, int], validate_only: bool = False, allow_downgrade: bool = False) -> Case:
    kinds: dict[str, Any] = {"allow_downgrade": allow_downgrade} if version == 0 else {}
    request = UpdateFeaturesRequest(
        timeout_ms=30_000,
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=feature, max_version_level=level, **(kinds if version == 0 else {"upgrade_type": kind})
            )
            for feature, level, kind in updates
        ],
        **({"validate_only": validate_only} if version >= 1 else {}),
    )
    return Case(ApiKey.UPDATE_FEATURES, version, name, lambda _: request)


def features_now(after: str, **expected: int) -> Case:
    """What clients are told. A broker learns of a new level some time after the client that set it has its answer; this waits for it."""
    request = ApiVersionsRequest(client_software_name="odd", client_software_version="1")
    levels = {name.replace("_", "."): level for name, level in expected.items()}

    def wait(peer: Peer) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = {entry.name: entry.max_version_level for entry in peer.call(ApiKey.API_VERSIONS, 4, request).finalized_features}
            if all(found.get(name, 0) == level for name, level in levels.items()):
                return
            time.sleep(0.02)

    return Case(ApiKey.API_VERSIONS, 4, f"after {after}", lambda _: request, before=wait)


def update_features(version: int) -> Iterator[Case]:
    kinds = (UPGRADE, SAFE, UNSAFE, 0, 4, -1) if version >= 1 else (UPGRADE,)
    for name, level in FORMATTED.items():
        for kind in kinds:
            yield update(version, f"{name} as it is, type {kind}", (name, level, kind))
            yield update(version, f"{name} too high, type {kind}", (name, level + 5, kind))
            yield update(version, f"{name} below zero, type {kind}", (name, -1, kind))
        yield update(version, f"{name} lower by an upgrade", (name, level - 1, UPGRADE))
        yield update(version, f"{name} highest number", (name, 32767, UPGRADE))
        yield update(version, f"{name} lowest number", (name, -32768, UPGRADE))
    if version == 0:
        yield update(0, "a downgrade allowed", ("transaction.version", 1, UPGRADE), allow_downgrade=True)
        yield update(0, "an upgrade with a downgrade allowed", ("transaction.version", 2, UPGRADE), allow_downgrade=True)
    for level in (0, 1, 2, -1):
        yield update(version, f"unknown feature at {level}", ("unknown.version", level, UPGRADE))
    yield update(version, "feature without a name", ("", 1, UPGRADE))
    yield update(version, "test feature", ("test.feature.version", 1, UPGRADE))
    yield update(version, "nothing")
    yield update(version, "one of two wrong", ("group.version", 1, UPGRADE), ("transaction.version", 9, UPGRADE))
    yield update(version, "one twice, the last wrong", ("group.version", 1, UPGRADE), ("group.version", 7, UPGRADE))
    yield update(version, "one twice, the first wrong", ("group.version", 7, UPGRADE), ("group.version", 1, UPGRADE))
    for level in (0, 7, 8, 22, 23, 28, 29, 31, 32, 6):
        for kind in kinds[:3]:
            yield update(version, f"metadata.version {level}, type {kind}", ("metadata.version", level, kind))
    for level in (0, 2, -1):
        for kind in kinds[:3]:
            yield update(version, f"kraft.version {level}, type {kind}", ("kraft.version", level, kind))
    if version >= 1:
        yield from downgrades(version)


def downgrades(version: int) -> Iterator[Case]:
    """Down and up again, so that the next version's cases begin where these did."""
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="featured", member_id="", member_epoch=0, rebalance_timeout_ms=-1)
    for kind in (SAFE, UNSAFE):
        yield update(version, f"transaction.version 1, type {kind}, dry run", ("transaction.version", 1, kind), validate_only=True)
        yield features_now("a dry run")
        for level in (1, 0):
            yield update(version, f"transaction.version {level}, type {kind}", ("transaction.version", level, kind))
            yield features_now(f"transaction.version {level}", transaction_version=level)
            yield update(version, f"transaction.version 2 by type {kind}", ("transaction.version", 2, kind))
        yield update(version, "transaction.version 2 too early, dry run", ("transaction.version", 2, UPGRADE), validate_only=True)
        yield features_now("another dry run")
        yield update(version, "transaction.version back", ("transaction.version", 2, UPGRADE))
        yield update(version, f"group.version 0, type {kind}", ("group.version", 0, kind))
        yield features_now("group.version 0", group_version=0)
        yield Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, f"without group.version, type {kind}", lambda _: heartbeat)
        yield update(version, f"group.version 0 again, type {kind}", ("group.version", 0, kind))
        yield update(version, "group.version back, with something wrong", ("group.version", 1, UPGRADE), ("kraft.version", 9, UPGRADE))
        yield features_now("a failure")
        yield update(version, "both", ("group.version", 1, UPGRADE), ("transaction.version", 0, kind))
        yield features_now("both", group_version=1, transaction_version=0)
        yield update(
            version, "all back", ("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE), ("metadata.version", 30, UPGRADE)
        )
        yield features_now("all back", group_version=1, transaction_version=2)


FEATURE_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {ApiKey.UPDATE_FEATURES: update_features}
