"""The same assignments as Kafka's own assignors, member by member (jvm/Assignors.java).

Kafka takes members and topics in the order of its hash tables; here members are given in our order, and the topic ids are chosen so that
their hashes are in that order, too.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from odradek.assignment.registry import ASSIGNORS
from odradek.assignment.spec import GroupSpec
from tests.assignment.support import random_spec, reassigned

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[2] / ".cache" / "jvm" / "libs")
SOURCE = Path(__file__).with_name("jvm") / "Assignors.java"
CASES = 4_000

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]


def _question(name: str, spec: GroupSpec) -> str:
    words = [name, "HOMOGENEOUS" if spec.homogeneous else "HETEROGENEOUS"]
    for topic_id, count in spec.partition_counts.items():
        words += ["topic", str(topic_id.int), str(count)]
    for member_id in sorted(spec.members):
        member = spec.members[member_id]
        topics = ",".join(str(topic_id.int) for topic_id in sorted(member.topics))
        owned = ",".join(
            f"{topic.int}:{partition}" for topic in sorted(member.assignment) for partition in sorted(member.assignment[topic])
        )
        words += ["member", member_id, member.instance_id or "-", topics or "-", owned or "-"]
    return " ".join(words)


def _answer(name: str, spec: GroupSpec) -> str:
    assigned = ASSIGNORS[name](spec)
    found = []
    for member_id in sorted(spec.members):
        mine = assigned.get(member_id, {})
        found.append(f"{member_id}=" + ",".join(f"{topic.int}:{partition}" for topic in sorted(mine) for partition in sorted(mine[topic])))
    return " ".join(found)


def test_kafkas_assignors_assign_the_same() -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"
    rng = random.Random(848)
    cases: list[tuple[str, GroupSpec]] = []
    for number in range(CASES):
        name = "range" if number % 4 == 0 else "uniform"
        spec = random_spec(rng)
        if spec.homogeneous and rng.random() < 0.5:
            spec = reassigned(spec, ASSIGNORS[name](spec), rng)
        cases.append((name, spec))
    questions = "\n".join(_question(*case) for case in cases) + "\n"
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{LIBS}/*", str(SOURCE)],
        input=questions,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    theirs = run.stdout.splitlines()
    assert len(theirs) == CASES
    for case, answer in zip(cases, theirs, strict=True):
        assert _answer(*case) == answer, _question(*case)
