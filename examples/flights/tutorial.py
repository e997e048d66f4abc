"""Runs docs/tutorial.md from top to bottom: its Python blocks one after the other, its commands in between. `make tutorial` runs this.

    python examples/flights/tutorial.py [--data demo-data/tutorial] [--months 12] [--write]

The page's commands `pip install` and `odradek start` are not run: this environment is taken, and a broker is started for the time of the
run, or one that runs already is used (--bootstrap-server). With --write the page gets the outputs and the picture of this run.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo import running_broker
from rich.console import Console

from odradek.base.errors import OdradekError
from odradek.spark.environment import check_java

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PICTURE = "tutorial.png"
_BLOCK = re.compile(r"```(python|console)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
_NOT_RUN = ("pip install ", "odradek start ")


def play(text: str, bootstrap: str, folder: Path, months: int) -> str:
    """Runs a page's blocks in `folder`, and returns the page with what they print; whatever a block raises ends it."""
    assert text.count("MONTHS = 12") == 1
    names: dict[str, Any] = {"__name__": "__main__"}

    def played(block: re.Match[str]) -> str:
        code = block[2].replace("localhost:9092", bootstrap).replace("MONTHS = 12", f"MONTHS = {months}")
        started = time.perf_counter()
        line = text.count("\n", 0, block.start()) + 1
        if block[1] == "console":
            printed = "".join(f"{typed}\n{_run(typed, bootstrap, folder)}" for typed in code.splitlines() if typed.startswith("$ "))
            sys.stderr.write(printed)
            return f"```console\n{printed}```\n".replace(bootstrap, "localhost:9092")
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.chdir(folder):
            exec(compile("\n" * line + code, PAGE.name, "exec"), names)
        sys.stderr.write(f"line {line}, {time.perf_counter() - started:.1f} s\n{output.getvalue()}")
        shown = f"\n```text\n{output.getvalue()}```\n" if output.getvalue() else ""
        return f"```python\n{block[2]}```\n{shown}"

    try:
        return _BLOCK.sub(played, text)
    finally:
        if "spark" in names:
            names["spark"].stop()


def _run(typed: str, bootstrap: str, folder: Path) -> str:
    """What a command line prints."""
    line = typed.removeprefix("$ ")
    if line.startswith(_NOT_RUN):
        return ""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "ODRADEK_BOOTSTRAP_SERVER": bootstrap, "COLUMNS": "120"}
    line = re.sub(r"^odradek ", f"{sys.executable} -m odradek.cli.main ", line)
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{typed}\n{done.stdout}")
    return done.stdout


@contextlib.contextmanager
def _broker(given: str | None, data: Path, console: Console) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with running_broker(data / "broker", console) as bootstrap:
        yield bootstrap


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs docs/tutorial.md.")
    parser.add_argument("--data", type=Path, default=Path("demo-data/tutorial"), help="folder for the broker's data and the results; emptied first")
    parser.add_argument("--months", type=int, default=12, choices=range(1, 13), metavar="1-12", help="how much of 2013")
    parser.add_argument("--bootstrap-server", help="use this broker, which has no topics of the tutorial yet")
    parser.add_argument("--write", action="store_true", help="write outputs and picture into docs")
    options = parser.parse_args()
    data = options.data.resolve()
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    try:
        check_java()
        with _broker(options.bootstrap_server, data, Console(stderr=True)) as bootstrap:
            text = play(PAGE.read_text(), bootstrap, data, options.months)
    except OdradekError as error:
        raise SystemExit(f"tutorial: {error}") from None
    print(f"Everything is as in the files. The picture: {data / PICTURE}")
    if options.write:
        PAGE.write_text(text)
        shutil.copy(data / PICTURE, PAGE.parent / PICTURE)


if __name__ == "__main__":
    main()
