"""Which build of the hot loops runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import odradek

_ROUND_TRIP = """
from odradek.records.batch import decode_records, encode_batch
from odradek.records.native import codec_is_compiled
assert not codec_is_compiled()
assert decode_records(encode_batch([(1, b"k", b"v", ())]))[0].value == b"v"
"""


def test_an_archive_runs_its_sources(tmp_path: Path) -> None:
    """As Spark's workers import a wheel that is sent to them, and whatever else they have."""
    package = Path(odradek.__file__).parent
    archive = tmp_path / "odradek.whl"
    with zipfile.ZipFile(archive, "w") as file:
        for folder in ("", "base", "records", "protocol"):
            for path in (package / folder).iterdir():
                if path.suffix in (".py", ".pxd", ".so"):
                    file.write(path, str(Path("odradek", folder, path.name)))
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run([sys.executable, "-c", _ROUND_TRIP], capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
