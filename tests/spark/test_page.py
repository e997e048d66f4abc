"""docs/spark.md has every option there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from odradek.spark.option_keys import OPTIONS, TOPIC
from tests.interop.spark_differences import DIFFERENCES, OTHERS

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_page_has_every_option() -> None:
    rows = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith("| `")]
    shown = {name for row in rows for name in re.findall(r"`([^`]+)`", row) if not name.startswith("kafka.")}
    assert shown == {option.name for option in OPTIONS if option is not TOPIC}


def test_the_page_has_every_difference_from_the_connector() -> None:
    """Word for word; `tests/interop/test_spark_connector.py` shows that they are what differs."""
    section = PAGE.split("\n## Differences from Spark's connector\n")[1].split("\n## ")[0]
    shown = [" ".join(item.split()) for item in section.split("\n- ")[1:]]
    assert shown == list(dict.fromkeys(each.reason for each in (*DIFFERENCES, *OTHERS)))
