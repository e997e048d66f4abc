"""Stories played in another process, whose hashes are other ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def output_in_process(code: str, *, hash_seed: int) -> str:
    """Return what the code prints on its standard output. CalledProcessError when it fails.

    There is no time limit but the test's: how long a story takes depends on what else the machine does. The process ends with the call,
    also when the test's limit ends it.
    """
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
