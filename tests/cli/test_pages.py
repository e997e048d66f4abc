"""docs/cli: every console of every page shows what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.cli.main import COMMANDS
from odradek.cli.shared.kafka_flags import SCRIPTS
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.pages import FOLDER, commands, normal, played, settings_of
from tests.forking import Forks

OF_JVM = ("delegation-tokens",)
"""Pages with a login. tests/interop/test_cli_groups_configs_acls.py compares them with JVM Kafka, which has the same rules and tokens."""
OURS = (
    "acls",
    "api-versions",
    "client-metrics",
    "cluster",
    "completion",
    "configs",
    "consume",
    "elections",
    "features",
    "groups",
    "offsets",
    "perf",
    "pipeline",
    "produce",
    "profile",
    "quorum",
    "quotas",
    "reassign",
    "storage",
    "topics",
    "transactions",
    "verifiable",
)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", OURS)
def test_a_page_shows_what_is_printed(name: str, tmp_path: Path, forks: Forks) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    assert commands(text)
    with EmbeddedBroker(settings_of(name)) as broker:
        assert normal(played(text, broker.bootstrap_servers, tmp_path, forks)) == normal(text)


def test_every_page_is_in_the_site() -> None:
    site = (FOLDER.parents[1] / "mkdocs.yml").read_text()
    for page in (*OURS, *OF_JVM, "scripts"):
        assert (FOLDER / f"{page}.md").exists()
        assert f"cli/{page}.md" in site


def test_the_table_of_scripts_names_each_script_and_command() -> None:
    rows = [line.split("|")[1:4] for line in (FOLDER / "scripts.md").read_text().splitlines() if line.startswith("| ")][1:]
    scripts = [name.strip() for names, _, _ in rows for name in names.split(",")]
    assert len(scripts) == len(set(scripts)) == 42
    commands_of = {names.strip(): words for names, words, _ in rows}
    for script, name in SCRIPTS.items():
        assert re.search(rf"\b{name}\b", commands_of[script]), script
    for words in commands_of.values():
        for name in re.findall(r"^\W*([a-z-]+)", words):
            assert name in (*COMMANDS, "none")
    assert set(commands_of) >= {script for script in scripts if script.startswith("kafka-")}


def test_an_hmac_with_a_part_like_an_id_is_an_hmac() -> None:
    """Base64 of random bytes has 22 letters and digits between + and / now and then."""
    hmac = "H3S70lDO2tHreoI/0Kmnlt9+abcdefghijklmnopqrstuV/jqPFpRS2xgympDEe+ABCDEFGHIJKLMNOPQRSTUv=="
    assert normal(f"token {hmac} User:alice") == "token (hmac) User:alice"
