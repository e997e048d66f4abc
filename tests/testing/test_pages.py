"""docs/testing.md and docs/simulation.md: every example runs, and what their tables name is there."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import odradek
from odradek.testing import EmbeddedBroker
from odradek.testing.kit.controls import Faults
from odradek.testing.pytest_plugin import pytest_configure
from odradek.testing.simulation.cluster import SimulatedCluster

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("testing", "simulation")}
EXAMPLES = [(name, code) for name, page in PAGES.items() for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]
WARNINGS = ["-W", "error"]


@pytest.mark.parametrize(("page", "code"), EXAMPLES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(EXAMPLES)])
def test_examples_run(page: str, code: str, tmp_path: Path) -> None:
    """Each by itself in a process of its own; a module of tests by pytest."""
    environment = {**os.environ, "PYTHONPATH": str(Path(odradek.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if name := re.match(r"# (test_\w+\.py)\n", code):
        (tmp_path / name[1]).write_text(code)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "odradek.testing.pytest_plugin", "-p", "no:cacheprovider"]
    else:
        command = [sys.executable, *WARNINGS, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_example_is_looked_at() -> None:
    assert len(EXAMPLES) == 11


def _named(page: str, heading: str) -> set[str]:
    """What the first cells of a section's table name as methods."""
    section = PAGES[page].split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def test_the_table_of_faults_names_every_verb() -> None:
    assert _named("testing", "Faults") == {name for name in vars(Faults) if not name.startswith("_")}


def test_the_table_of_arguments_names_every_argument() -> None:
    arguments = set(inspect.signature(EmbeddedBroker.__init__).parameters) - {"self", "disk"}
    assert _named("testing", "A broker in a test") == arguments


def test_the_fixtures_and_the_words_of_the_mark_are_those_of_the_plugin() -> None:
    plugin = (ROOT / "src/odradek/testing/pytest_plugin.py").read_text()
    fixtures = set(re.findall(r"^def (odradek_\w+)\(", plugin, re.MULTILINE))
    assert _named("testing", "With pytest") == fixtures
    lines: list[str] = []

    class Config:
        def addinivalue_line(self, name: str, line: str) -> None:
            lines.append(line)

    pytest_configure(Config())  # type: ignore[arg-type]
    words = set(re.findall(r"(\w+)=", lines[0]))
    section = PAGES["testing"].split("The mark takes")[1].split("\n\n")[0]
    assert words == set(re.findall(r"`(\w+)(?:=True)?`", section)) & words
    assert len(words) == 8


def test_what_the_page_says_of_simulated_clusters_is_there() -> None:
    assert all(hasattr(SimulatedCluster, name) for name in _named("simulation", "A broker, and a cluster"))
    assert len(_named("simulation", "A broker, and a cluster")) > 12


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", PAGES[page]):
        assert (ROOT / "docs" / target).exists(), target
