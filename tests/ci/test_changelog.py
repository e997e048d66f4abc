"""Changelog: a line is a change, the page is short, and fragments of unreleased changes have valid names and one sentence."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]
FRAGMENTS = sorted(path for path in (ROOT / SETTINGS["directory"]).iterdir() if path.name != "README.md")
NAME = re.compile(rf"(\+[a-z0-9-]+|\d+(\.\d+)?)\.({'|'.join(KINDS)})\.md")
MOST_LINES_OF_A_RELEASE = 200


def problem(name: str, text: str) -> str:
    """Return what is wrong with a fragment, or ""."""
    if not NAME.fullmatch(name):
        return f"changes/{name}: the name must be +WORDS.KIND.md or ISSUE.KIND.md, with KIND one of {', '.join(KINDS)}"
    if not text.strip().endswith(".") or re.search(r"^\s*([#*-]|$)", text.strip(), re.MULTILINE):
        return f"changes/{name}: the text must be one paragraph that ends with a full stop, without a list or a heading"
    return ""


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_fragments_are_valid(fragment: Path) -> None:
    assert problem(fragment.name, fragment.read_text()) == ""


@pytest.mark.parametrize("name", ["+a-new-key.added.md", "31.fixed.md", "31.2.fixed.md"])
def test_names_that_towncrier_takes(name: str) -> None:
    assert problem(name, "`odradek start` reads the new key.\n") == ""


@pytest.mark.parametrize("name", ["a-new-key.added.md", "+A.fixed.md", "31.bug.md", "31.md", "+words.fixed", "+.fixed.md"])
def test_names_that_are_wrong(name: str) -> None:
    assert "the name must be" in problem(name, "A sentence.")


@pytest.mark.parametrize("text", ["", "no full stop", "- a list.", "# A heading.", "One.\n\nTwo."])
def test_texts_that_are_wrong(text: str) -> None:
    assert "one paragraph" in problem("31.fixed.md", text)


def test_a_release_begins_where_towncrier_writes_it() -> None:
    assert CHANGELOG.count(SETTINGS["start_string"]) == 1
    assert CHANGELOG.partition(SETTINGS["start_string"])[2].lstrip().startswith("## ")


def test_releases_are_readable() -> None:
    _, *releases = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)
    for release in releases:
        lines = release.splitlines()
        assert len(lines) <= MOST_LINES_OF_A_RELEASE
        assert [line for line in lines if line.startswith("  ")] == [], "a change has one line"
