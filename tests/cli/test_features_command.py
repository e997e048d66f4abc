"""`odradek features`: the ways to name levels, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from odradek.cli.configs.feature_tables import release_levels
from odradek.client.admin.blocking import Admin
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def levels(at: str, command: Command) -> dict[str, int]:
    return {each["name"]: each["finalized"] for each in json.loads(command("features", "describe", "-J", "-b", at).out)}


def test_features_are_disabled_and_raised_again(at: str, command: Command) -> None:
    tried = command("features", "disable", "group.version", "--dry-run", "-b", at)
    assert tried == (0, "Would disable group.version.\n", "")
    assert levels(at, command)["group.version"] == 1
    done = command("kafka-features", "--bootstrap-server", at, "disable", "--feature", "group.version", "--feature", "transaction.version")
    assert done.out == "Disabled group.version.\nDisabled transaction.version.\n"
    assert [levels(at, command)[name] for name in ("group.version", "transaction.version")] == [0, 0]
    raised = command("features", "upgrade", "group.version=1", "--feature", "transaction.version=2", "-b", at)
    assert raised.out == "Upgraded group.version to 1.\nUpgraded transaction.version to 2.\n"
    assert [levels(at, command)[name] for name in ("group.version", "transaction.version")] == [1, 2]


def test_one_node_is_asked_for_what_it_knows(at: str, command: Command) -> None:
    assert command("features", "describe", "--node-id", "1", "-b", at) == command("features", "describe", "-b", at)
    away = command("features", "describe", "--node-id", "7", "-b", at)
    assert (away.status, away.err.startswith("odradek features: BROKER_NOT_AVAILABLE: broker 7 is not in the cluster")) == (1, True)


def test_a_release_names_all_levels_at_once(at: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[dict[str, int], dict[str, bool]]] = []
    monkeypatch.setattr(Admin, "update_features", lambda _, wanted, **how: asked.append((wanted, how)))
    assert command("features", "upgrade", "-r", "4.0", "-b", at).status == 0
    assert command("features", "downgrade", "-r", "4.0", "--unsafe", "-b", at).status == 0
    assert command("features", "upgrade", "--metadata", "4.0-IV3", "group.version=1", "-b", at).status == 0
    every = {
        "metadata.version": 25,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 0,
        "share.version": 0,
        "streams.version": 0,
    }
    assert release_levels("4.0") == every
    assert asked == [
        ({name: level for name, level in every.items() if level}, {"validate_only": False}),
        (every, {"downgrade": True, "unsafe": True, "validate_only": False}),
        ({"group.version": 1, "metadata.version": 25}, {"validate_only": False}),
    ]


def test_tables_stand_in_both_groups(command: Command) -> None:
    for typed in (("version-mapping", "-r", "3.9"), ("feature-dependencies", "-f", "group.version=1")):
        answer = command("features", *typed)
        assert answer == command("storage", *typed)
        assert answer.status == 0
