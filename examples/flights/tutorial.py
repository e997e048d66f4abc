"""Runs docs/tutorial.md from top to bottom: its Python blocks one after the other, its commands in between. `make tutorial` runs this.

    python examples/flights/tutorial.py [--data demo-data/tutorial] [--months 12]

The page's commands `pip install` and `odradek start` are not run: this environment is taken, and a broker is started for the time of the
run, or one that runs already is used (--bootstrap-server). With --output docs/tutorial.md the page gets what this run printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from demo import running_broker
from rich.console import Console

from odradek.base.errors import OdradekError
from odradek.spark.environment import check_java

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PICTURE = "tutorial.png"
_PIECE = re.compile(
    r"^## (?P<heading>[^\n]*)\n|^```(?P<kind>python|console)\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL | re.MULTILINE
)
_NOT_RUN = ("pip install ", "odradek start ")


def play(text: str, bootstrap: str, folder: Path, months: int) -> str:
    """Runs a page's blocks in `folder`, and returns the page with what they print; whatever a block raises ends it."""
    assert text.count("MONTHS = 12") == 1
    names: dict[str, Any] = {"__name__": "__main__"}
    began = time.perf_counter()

    def played(piece: re.Match[str]) -> str:
        if piece["heading"] is not None:
            print(f"\n[{time.perf_counter() - began:5.1f} s] {piece['heading']}", flush=True)
            return piece[0]
        code = piece["code"].replace("localhost:9092", bootstrap).replace("MONTHS = 12", f"MONTHS = {months}")
        if piece["kind"] == "console":
            shown = "".join(f"{typed}\n{_run(typed, bootstrap, folder)}" for typed in code.splitlines() if typed.startswith("$ "))
            print(shown, end="", flush=True)
            return f"```console\n{shown}```\n".replace(bootstrap, "localhost:9092")
        line = text.count("\n", 0, piece.start("code"))
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.chdir(folder):
            exec(compile("\n" * line + code, PAGE.name, "exec"), names)
        shown = output.getvalue()
        print(shown, end="", flush=True)
        return f"```python\n{piece['code']}```\n" + (f"\n```text\n{shown}```\n" if shown else "")

    try:
        return _PIECE.sub(played, text)
    finally:
        if "spark" in names:
            names["spark"].stop()


def _run(typed: str, bootstrap: str, folder: Path) -> str:
    """What a command prints; SystemExit when it fails."""
    line = typed.removeprefix("$ ")
    if line.startswith(_NOT_RUN):
        return ""
    line = re.sub(r"^odradek ", f"{sys.executable} -m odradek.cli.main ", line)
    done = subprocess.run(
        line,
        shell=True,
        check=False,
        cwd=folder,
        env={**os.environ, "ODRADEK_BOOTSTRAP_SERVER": bootstrap, "COLUMNS": "120"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise SystemExit(f"{typed}\n{done.stdout}")
    return done.stdout


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs docs/tutorial.md.")
    parser.add_argument("--data", type=Path, default=Path("demo-data/tutorial"), help="folder for the broker's data and the results")
    parser.add_argument("--months", type=int, default=12, choices=range(1, 13), metavar="1-12", help="how much of 2013")
    parser.add_argument("--bootstrap-server", help="use this broker, which has no topics of the tutorial yet")
    parser.add_argument("--output", type=Path, help="file for the page with what this run printed")
    options = parser.parse_args()
    data = options.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    for old in ("broker", "flights-results"):  # What an earlier run has left: topics and checkpoints belong together.
        shutil.rmtree(data / old, ignore_errors=True)
    given = options.bootstrap_server
    try:
        check_java()
        with contextlib.nullcontext(given) if given else running_broker(data / "broker", Console()) as bootstrap:
            text = play(PAGE.read_text(), bootstrap, data, options.months)
    except OdradekError as error:
        raise SystemExit(f"tutorial: {error}") from None
    print(f"\nEverything is as in the files. The picture: {data / PICTURE}")
    if options.output is not None:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
