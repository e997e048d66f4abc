"""docs/schemas.md: every example runs, and prints what the page says; its tables name what is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import odradek
from odradek.client.schemas.config import REGISTRY_CONFIG, SERIALIZER_CONFIG

PAGE = (Path(__file__).parents[3] / "docs" / "schemas.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = ("{'name': 'Assam', 'picked': datetime.date(2024, 10, 4)}", "does not have a schema with id 99", "['tea', None]")


@pytest.mark.parametrize(("code", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)), ids=["clients", "registry", "folder"])
def test_examples_run(code: str, printed: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(odradek.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout


def test_the_page_names_every_key() -> None:
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", PAGE))
    keys = {key.name for config in (REGISTRY_CONFIG, SERIALIZER_CONFIG) for key in config}
    known = {"basic.auth.credentials.source", "bearer.auth.credentials.source", "security.protocol"}
    assert {name for name in keys if not name.startswith("ssl.")} - known <= named
