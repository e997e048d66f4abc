"""docs/client-network.md: its examples do what the page says, against a JVM broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.secured import secured

pytestmark = pytest.mark.jvm
PAGE = (Path(__file__).parents[2] / "docs" / "client-network.md").read_text()


def test_every_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with secured(tmp_path) as broker:
        files = {"authority.pem": broker.certificates.authority, "client.pem": broker.certificates.client}
        names = {"broker.example:9093": "TLS", "broker.example:9094": "MUTUAL", "broker.example:9095": "SASLTLS"}
        names |= {"broker.example:9096": "SASL", "localhost:9092": "PLAINTEXT"}
        meant = {name: str(path) for name, path in files.items()} | {name: broker.address[listener] for name, listener in names.items()}
        examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        assert len(examples) == 5
        for example in examples:
            for name, value in meant.items():
                example = example.replace(f'"{name}"', repr(value))
            assert "broker.example" not in example
            exec(compile(example, "client-network.md", "exec"), {})
            assert capsys.readouterr().out
