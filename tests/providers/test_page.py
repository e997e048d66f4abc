"""docs/config-providers.md: its settings are keys, and its client reads what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.client.settings.common_keys import CLIENT_ID, SSL_KEY_PASSWORD, SSL_KEYSTORE_PASSWORD
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig
from odradek.config.broker import standalone_config
from odradek.config.properties import parse_properties
from odradek.config.references import has_reference
from odradek.providers.resolving import AUTOMATIC, AUTOMATIC_VARIABLE, resolve_broker
from odradek.testing import EmbeddedBroker

PAGE = (Path(__file__).parents[2] / "docs" / "config-providers.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_a_broker_takes_the_settings_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odradek").mkdir()
    (tmp_path / "odradek" / "secrets.properties").write_text("keystore.password=hunter2\n")
    (tmp_path / "key-password").write_text("swordfish\n")
    monkeypatch.setenv("ODRADEK_RACK", "north")
    first, second = blocks("properties")
    settings = parse_properties(first.replace("/etc/odradek", str(tmp_path / "odradek")).replace("/run/secrets", str(tmp_path)))
    config = standalone_config(resolve_broker(settings))
    assert config.rack == "north"
    assert config[SSL_KEYSTORE_PASSWORD] == "hunter2"
    assert config[SSL_KEY_PASSWORD] == "swordfish"
    assert sum(map(has_reference, settings.values())) == 3
    assert list(parse_properties(second)) == [AUTOMATIC]
    assert AUTOMATIC_VARIABLE in PAGE


def test_the_client_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("python")
    monkeypatch.setenv("ODRADEK_CLIENT", "of-the-page")
    with EmbeddedBroker(topics=["one"]) as broker:
        names: dict[str, object] = {}
        exec(compile(code.replace("localhost:9092", broker.bootstrap_servers), "page", "exec"), names)
    settings = names["settings"]
    assert isinstance(settings, dict)
    assert ClientConfig(ADMIN_CONFIG, settings)[CLIENT_ID] == "of-the-page"
