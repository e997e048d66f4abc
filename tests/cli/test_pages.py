"""docs/cli: every console of every page shows what its commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.testing.embedded import EmbeddedBroker
from tests.cli.pages import BROKER, FOLDER, commands, normal, played

OURS = ("groups", "offsets")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", OURS)
def test_a_page_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    assert commands(text)
    with EmbeddedBroker(BROKER) as broker:
        assert normal(played(text, broker.bootstrap_servers, tmp_path)) == normal(text)


def test_every_page_is_in_the_site() -> None:
    site = (FOLDER.parents[1] / "mkdocs.yml").read_text()
    for page in OURS:
        assert (FOLDER / f"{page}.md").exists()
        assert f"cli/{page}.md" in site
