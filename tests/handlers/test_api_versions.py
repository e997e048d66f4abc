"""ApiVersions: what a listener serves, which features it tells whom, and whose names it takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.metadata.features import supported_features
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from tests.handlers.support import Broker


def ask(version: int, scope: str = BROKER, *, name: str = "test", software: str = "1.0", level: int = 0) -> Any:
    broker = Broker(kraft=SimpleNamespace(kraft_version=level))
    broker.apply(FeatureLevelRecord(name="metadata.version", feature_level=29), FeatureLevelRecord(name="group.version", feature_level=1))
    fields = {"client_software_name": name, "client_software_version": software} if version >= 3 else {}
    return broker.ask(ApiVersionsRequest(**fields), version, scope=scope)


@pytest.mark.parametrize("scope", [BROKER, CONTROLLER])
def test_it_names_what_the_listener_serves(scope: str) -> None:
    answer = ask(4, scope)
    assert answer.error_code == 0
    assert [each.api_key for each in answer.api_keys] == [int(api.api_key) for api in APIS if api.is_served_on(scope) and not api.optional]


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a/b", "x" * 513])
@pytest.mark.parametrize("version", [3, 4])
def test_names_of_software_have_a_form(version: int, name: str) -> None:
    assert ask(version, name=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(version, software=name).error_code == ErrorCode.INVALID_REQUEST
    assert ask(version, name="x" * 512, software="a-b.c").error_code == 0


def test_clients_before_version_4_do_not_see_levels_from_0() -> None:
    levels = supported_features()
    assert {each.name for each in ask(4).supported_features} == set(levels)
    assert {each.name for each in ask(3).supported_features} == {name for name, level in levels.items() if level.minimum > 0}


def test_what_is_finalized_is_told_with_where_it_was_read() -> None:
    answer = ask(3, level=1)
    finalized = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
    assert finalized == {"metadata.version": (29, 29), "group.version": (1, 1), "kraft.version": (1, 1)}
    assert answer.finalized_features_epoch >= 0
    assert "kraft.version" not in {each.name for each in ask(3).finalized_features}
