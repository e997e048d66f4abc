"""Builds the wheels and tries each in an environment of its own: python packaging/wheels.py [--folder dist]

One holds the compiled codec, for this platform and version of Python; the other is of Python alone, for all of them. Each is installed
with its dependencies into a fresh environment, where a broker starts, takes a record and gives it back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRIAL = """
import sys
from odradek.client import Consumer, Producer, TopicPartition
from odradek.records.native import codec_is_compiled
from odradek.testing.kit.embedded import EmbeddedBroker

assert codec_is_compiled() == (sys.argv[1] == "compiled"), codec_is_compiled()
with EmbeddedBroker() as broker:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("greetings", b"hello").result(30)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("greetings", 0)])
        assert [record.value for record in consumer.poll(30_000)] == [b"hello"]
print("a record went through")
"""


def build(folder: Path, kind: str) -> Path:
    """The wheel; `kind` is "compiled" or "pure"."""
    environment = {**os.environ, "ODRADEK_CODEC": "off"} if kind == "pure" else dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="odradek-wheel-") as scratch:
        source = Path(scratch, "source")
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, source / name)
        made = Path(scratch, "made")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(source)]
        subprocess.run(command, env=environment, check=True)
        (wheel,) = made.glob("*.whl")
        # Without a compiler the name still promises compiled modules.
        compiled = any(name.endswith((".so", ".pyd")) for name in zipfile.ZipFile(wheel).namelist())
        if compiled != (kind == "compiled"):
            raise SystemExit(f"{wheel.name} is not a {kind} wheel: is there a C compiler?")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(wheel, folder / wheel.name))


def try_out(wheel: Path, kind: str) -> None:
    """Installs the wheel into a fresh environment and uses it."""
    with tempfile.TemporaryDirectory(prefix="odradek-trial-") as home:
        venv.create(home, with_pip=True)
        python = str(Path(home, "bin", "python"))
        # Neither the sources nor an environment variable may stand in for what the wheel lacks.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ODRADEK"))}
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, env=environment, cwd=home)
        for command in ([str(Path(home, "bin", "odradek")), "--version"], [python, "-W", "error", "-c", TRIAL, kind]):
            subprocess.run(command, check=True, env=environment, cwd=home)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    for kind in ("compiled", "pure"):
        wheel = build(options.folder, kind)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        try_out(wheel, kind)


if __name__ == "__main__":
    main()
