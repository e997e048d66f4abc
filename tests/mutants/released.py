"""Planted bugs of an earlier release: the long list left the tree in November 2026 and stays in the history under a tag."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.ci import changes
from tests.mutants.bug import ROOT

TAG = "planted-bugs-1"
"""Annotated tag of the last commit with 3,127 planted bugs."""


class NoTagError(Exception):
    """The clone lacks the tag."""


def run(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Check out the tagged commit in a temporary folder and run its planted bugs with its own options.

    Raises NoTagError when the clone lacks the tag.
    """
    try:
        changes.git("rev-parse", "--verify", f"{TAG}^{{commit}}", folder=root)
    except (OSError, subprocess.CalledProcessError):
        raise NoTagError(f"the tag {TAG} is not in this clone; a shallow clone gets it by: git fetch --unshallow --tags") from None
    with tempfile.TemporaryDirectory(prefix="odradek-planted-") as folder:
        tree = Path(folder) / "tree"
        changes.git("worktree", "add", "--detach", str(tree), TAG, folder=root)
        try:
            for name in (".venv", ".cache"):
                if (root / name).exists():
                    (tree / name).symlink_to(root / name)
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            return subprocess.run([sys.executable, "-m", "tests.mutants", *arguments], cwd=tree, env=environment, check=False).returncode
        finally:
            changes.git("worktree", "remove", "--force", str(tree), folder=root)
