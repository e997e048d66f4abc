"""docs/architecture.md names files, packages and decision records that exist, and every package and record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "odradek"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists())
PATHS = sorted(set(re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/*.]*)`", PAGE)))


@pytest.mark.parametrize("path", PATHS)
def test_named_files_exist(path: str) -> None:
    assert list(SOURCES.glob(path.rstrip("/"))), f"docs/architecture.md: src/odradek/{path} does not exist"


def test_every_package_is_listed() -> None:
    listed = re.findall(r"^(\w+)/ ", PAGE, re.MULTILINE)
    assert sorted(listed) == PACKAGES


def test_ten_files_are_to_be_read_first() -> None:
    section = PAGE.partition("## Read these ten files first")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| `[\w/]+\.py` \|", section, re.MULTILINE)) == 10


def test_every_decision_record_is_listed() -> None:
    records = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    assert re.findall(r"\(adr/(\d{4}-[\w-]+\.md)\)", PAGE.partition("## Where decisions")[2]) == records
    site = (ROOT / "mkdocs.yml").read_text()
    assert re.findall(r"adr/(\d{4}-[\w-]+\.md)", site) == records
