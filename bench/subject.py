"""A broker that counts what it does.

    python -m bench.subject COUNTS start server.properties

is `odradek start server.properties`. SIGUSR1 begins to count calls of Python functions (frames; generators and coroutines that go on count
again) and of built-in functions, in the event loop's thread. SIGUSR2 ends that, and writes what was counted to the file COUNTS, as JSON,
with the frames of each function, and the allocations of all threads since the start. Counting calls allocates: whoever wants to know
allocations asks before and after.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

SOURCE = Path(__file__).with_name("counting.pyx")
BUILT = Path(__file__).resolve().parent.parent / ".cache" / "bench"


def build() -> Path:
    """The compiled `counting.pyx`; built when it is not, or changed since."""
    found = sorted(BUILT.glob("counting.*.so"))
    if not found or found[0].stat().st_mtime < SOURCE.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        script = (
            "from setuptools import Extension, setup; from Cython.Build import cythonize; "
            f"setup(name='counting', ext_modules=cythonize(Extension('counting', [{str(SOURCE)!r}]), build_dir={str(BUILT)!r}, quiet=True))"
        )
        command = [sys.executable, "-c", script, "build_ext", "--build-lib", str(BUILT), "--build-temp", str(BUILT), "-q"]
        subprocess.run(command, check=True, cwd=BUILT)
        found = sorted(BUILT.glob("counting.*.so"))
    return found[0]


def load() -> ModuleType:
    """The module `counting`."""
    spec = importlib.util.spec_from_file_location("counting", build())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CallCounter:
    """What the signals ask for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counting: Any = load()
        self._counting.install()
        self._events = {"call": 0, "c_call": 0, "return": 0, "c_return": 0, "c_exception": 0}
        self._functions: Counter[CodeType] = Counter()

    def begin(self, _: int, __: FrameType | None) -> None:
        events, functions = self._events, self._functions
        for name in events:
            events[name] = 0
        functions.clear()

        def seen(frame: FrameType, event: str, __: object) -> None:
            events[event] += 1
            if event == "call":
                functions[frame.f_code] += 1

        sys.setprofile(seen)

    def end(self, _: int, __: FrameType | None) -> None:
        sys.setprofile(None)
        functions: Counter[str] = Counter()
        for code, calls in self._functions.items():
            functions[f"{_module(code.co_filename)}:{code.co_qualname}"] += calls
        counts = {
            "frames": self._events["call"],
            "built-in": self._events["c_call"],
            "allocations": self._counting.allocations(),
            "functions": functions,
        }
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(counts))
        unfinished.replace(self._path)


def _module(path: str) -> str:
    """The end of a file's path, from the package on."""
    return path.rpartition("/src/")[2] or path


def main() -> None:
    counter = CallCounter(Path(sys.argv[1]))
    signal.signal(signal.SIGUSR1, counter.begin)
    signal.signal(signal.SIGUSR2, counter.end)
    from odradek.cli.main import main as run

    sys.exit(run(sys.argv[2:]))


if __name__ == "__main__":
    main()
