"""The table of APIs and what the modules register are the same facts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from odradek import handlers
from odradek.handlers.registration import BROKER, CONTROLLER, REGISTRATIONS
from odradek.handlers.table import ROWS, TableRow, rows_for
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.registry import request_class, response_class
from odradek.server.dispatch import build_routes


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.api_key.name}-{row.module.rpartition('.')[2]}")
def test_a_row_says_what_its_module_registers(row: TableRow) -> None:
    import_module(row.module)
    for listener in row.listeners:
        registration = REGISTRATIONS[(row.api_key, listener)]
        assert registration.function.__module__ == row.module
        assert registration.listeners == row.listeners
        assert (registration.min_version, registration.max_version) == (row.min_version, row.max_version)
        assert registration.forwarded == row.forwarded
        assert registration.advertised_from == row.advertised_from


def test_every_registration_has_its_row() -> None:
    for row in ROWS:
        import_module(row.module)
    assert set(REGISTRATIONS) == {(row.api_key, listener) for row in ROWS for listener in row.listeners}


def test_every_module_that_serves_has_a_row() -> None:
    folder = Path(handlers.__file__).parent
    serving = {
        f"odradek.handlers.{path.relative_to(folder).with_suffix('').as_posix().replace('/', '.')}"
        for path in folder.glob("*/*.py")
        if "\n@handler(" in path.read_text()
    }
    assert serving == {row.module for row in ROWS}


def test_every_row_stays_within_what_the_protocol_has() -> None:
    for row in ROWS:
        info = API_INFO[row.api_key]
        assert info.min_version <= row.min_version <= row.max_version <= info.max_version
        assert set(row.listeners) <= set(info.listeners)
        if row.forwarded:
            assert BROKER in info.listeners


def test_every_api_has_a_shape_for_its_errors() -> None:
    for row in ROWS:
        module = import_module(row.module)
        request_class(row.api_key)
        assert hasattr(module, "error_response") or hasattr(response_class(row.api_key)(), "error_code"), row.module


def test_only_produce_is_advertised_below_what_is_served() -> None:
    assert [row.api_key for row in ROWS if row.advertised_from != row.min_version] == [ApiKey.PRODUCE]


def test_forwarded_apis_stand_on_both_listeners() -> None:
    assert rows_for(BROKER)[ApiKey.CREATE_TOPICS] is rows_for(CONTROLLER)[ApiKey.CREATE_TOPICS]


def test_an_unstable_version_is_only_served_when_asked_for() -> None:
    stable = {line.api_key: line for line in build_routes(BROKER, unstable=False)[1]}
    unstable = {line.api_key: line for line in build_routes(BROKER, unstable=True)[1]}
    assert stable[ApiKey.INIT_PRODUCER_ID].max_version == 5
    assert unstable[ApiKey.INIT_PRODUCER_ID].max_version == 6
    assert stable[ApiKey.PRODUCE].min_version == 0
