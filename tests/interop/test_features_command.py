"""`odradek features` against our own broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from interop.peers import BrokerProcess, OdradekBroker
from odradek.cli.main import main


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = OdradekBroker(tmp_path_factory.mktemp("features"))
    broker.features.update({"eligible.leader.replicas.version": 0, "group.version": 0, "transaction.version": 0})
    broker.start()
    yield broker
    broker.stop()


def command(broker: BrokerProcess, *arguments: str) -> int:
    return main(["features", *arguments, "-b", broker.bootstrap])


def levels(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, int, int]]:
    capsys.readouterr()
    assert command(broker, "describe", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    return {feature["name"]: (feature["minimum"], feature["maximum"], feature["finalized"]) for feature in found}


def test_levels_go_up_and_down(old_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert levels(old_broker, capsys)["group.version"] == (0, 1, 0)
    assert command(old_broker, "upgrade", "group.version=1", "transaction.version=2", "--validate-only") == 0
    assert levels(old_broker, capsys)["group.version"] == (0, 1, 0)
    assert command(old_broker, "upgrade", "group.version=1", "transaction.version=2") == 0
    assert capsys.readouterr().out == "Upgraded group.version to 1.\nUpgraded transaction.version to 2.\n"
    assert levels(old_broker, capsys)["transaction.version"] == (0, 2, 2)
    assert command(old_broker, "downgrade", "transaction.version=1") == 0
    assert levels(old_broker, capsys)["transaction.version"] == (0, 2, 1)
    assert command(old_broker, "describe") == 0
    assert ["metadata.version", "7", "30", "30"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["upgrade", "transaction.version=9"], 1, "level 9 of feature transaction.version"),
        (["upgrade", "share.version=1"], 1, "does not support it yet"),
        (["downgrade", "metadata.version=20", "--unsafe"], 1, "metadata could be lost"),
        (["upgrade", "transaction.version"], 2, "expected NAME=LEVEL, with a level from 0 to 32767"),
        (["upgrade", "a=1", "a=2"], 2, "is given twice"),
    ],
)
def test_what_is_refused(
    old_broker: BrokerProcess, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    assert command(old_broker, *arguments) == status
    assert said in capsys.readouterr().err
