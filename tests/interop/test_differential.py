"""The same requests to Odradek and to JVM Kafka, the first and the last version of every API; every version: the program itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from interop.peers import REPOSITORY

TIMEOUT_SECONDS = 580


@pytest.mark.jvm
def test_the_answers_are_those_of_jvm_kafka() -> None:
    command = [sys.executable, "-m", "interop.differential", "--versions", "ends"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    compared = int(done.stdout.splitlines()[-1].split()[0])
    assert compared > 6_000, "many of the cases are missing"
