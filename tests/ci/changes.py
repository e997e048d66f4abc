"""The change under test: the files and lines that differ between a base commit and the work tree."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOURS = 4
"""A change is what was committed within as many hours before the newest commit, where the environment names no base."""


def git(*arguments: str, folder: Path = ROOT) -> str:
    """Return what git prints. OSError or subprocess.CalledProcessError where git is missing or refuses."""
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def base(folder: Path = ROOT) -> str:
    """Return the commit before the change: $CI_BASE, or the newest that is 4 hours older than HEAD, or the first commit of all.

    The text is empty where the folder is no repository (an archive of the sources): nothing counts as changed then.
    """
    if not is_repository(folder):
        return ""
    if named := os.environ.get("CI_BASE"):
        return git("rev-parse", "--verify", f"{named}^{{commit}}", folder=folder).strip()
    newest = int(git("log", "-1", "--format=%ct", folder=folder))
    older = git("rev-list", "-1", f"--before={newest - HOURS * 3600}", "HEAD", folder=folder).strip()
    return older or git("rev-list", "--max-parents=0", "HEAD", folder=folder).split()[-1]


def is_repository(folder: Path = ROOT) -> bool:
    """Return whether git is there and knows a commit of the folder."""
    try:
        git("rev-parse", "--verify", "HEAD", folder=folder)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def files(since: str, folder: Path = ROOT) -> list[str]:
    """Return the paths, relative to the root, of the files that differ from the commit `since` and still exist."""
    if not since:
        return []
    return [line for line in git("diff", "--name-only", "--diff-filter=d", since, folder=folder).splitlines() if line]


def lines(since: str, folder: Path = ROOT) -> dict[str, set[int]]:
    """Return the numbers of the changed lines of each file, as they stand now."""
    if not since:
        return {}
    return parse_lines(git("diff", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=d", since, folder=folder))


def parse_lines(diff: str) -> dict[str, set[int]]:
    """Return the numbers of the lines that a unified diff without context adds or rewrites, by path."""
    found: dict[str, set[int]] = defaultdict(set)
    path, left = "", 0
    for line in diff.splitlines():
        if left and line[:1] in "+-":
            left -= 1
        elif line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif hunk := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            removed, first, added = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            left = removed + added
            found[path].update(range(first, first + added))
    return {path: numbers for path, numbers in found.items() if numbers}
