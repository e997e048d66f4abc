"""The same assignments, and the same bytes, as Kafka's own clients (jvm/ClientAssignors.java).

Kafka goes over members in the order of its hash tables; here their ids are such that this is their own order, too.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from odradek.client.assignors.protocol import Assigned, encode_assignment, encode_subscription
from odradek.client.assignors.registry import ASSIGNORS, Assignor
from odradek.client.assignors.spec import Assignment
from tests.client.assignors.support import Group, assigned, random_group, reassigned

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[3] / ".cache" / "jvm" / "libs")
SOURCE = Path(__file__).with_name("jvm") / "ClientAssignors.java"
CASES = 6_000

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(200)]


def _question(assignor: Assignor, group: Group) -> str:
    words = [assignor.name]
    subscribed = {name for said in group.said.values() for name in said.topics}
    for name, racks in group.topics.items():
        if name in subscribed:
            words += ["topic", name, ";".join("+".join(sorted(each)) or "-" for each in racks)]
    for member_id, said in group.said.items():
        owned = ",".join(f"{topic}:{partition}" for topic, partition in said.owned)
        data = "-" if said.user_data is None else said.user_data.hex()
        instance = group.instance_ids.get(member_id) or "-"
        words += ["member", member_id, instance, said.rack or "-", str(said.generation), ",".join(said.topics) or "-", owned or "-", data]
    return " ".join(words)


def _assignment(found: Assignment, group: Group) -> list[str]:
    return [f"{each}=" + ",".join(f"{topic}:{partition}" for topic, partition in sorted(found[each])) for each in group.said]


def _bytes(found: Assignment, group: Group) -> list[str]:
    return [
        f"{each}@{encode_subscription(said).hex()}@{encode_assignment(Assigned(found[each])).hex()}" for each, said in group.said.items()
    ]


def _kafka_is_wrong(assignor: Assignor, group: Group, answer: list[str]) -> bool:
    """Kafka's sticky assignors take members for alike when the first of them subscribe to nothing, and give them what they never wanted;
    where racks count they may give some members too much, and then fail.
    """
    if not assignor.name.endswith("sticky"):
        return False
    if answer[0].startswith("!"):
        return any(said.rack for said in group.said.values())
    subscriptions = [said.topics for said in group.said.values()]
    return not subscriptions[0] and any(subscriptions)


def _without_what_others_hold(assignor: Assignor, group: Group, answer: list[str]) -> list[str]:
    """Kafka's cooperative assignor gives a partition that is far from its owner to somebody else at once: a partition may then be read by
    two. Ours takes it back first.
    """
    if not assignor.cooperative:
        return answer
    claims = sorted((said.generation, f"{topic}:{partition}", each) for each, said in group.said.items() for topic, partition in said.owned)
    owner = {partition: each for _, partition, each in claims}
    kept = []
    for word in answer:
        member_id, _, named = word.partition("=")
        kept.append(f"{member_id}=" + ",".join(each for each in named.split(",") if owner.get(each, member_id) == member_id))
    return kept


def _cases() -> list[tuple[Assignor, Group]]:
    rng = random.Random(1014)
    cases: list[tuple[Assignor, Group]] = []
    while len(cases) < CASES:
        assignor = rng.choice(list(ASSIGNORS.values()))
        group = random_group(rng)
        for generation in range(1, rng.randint(2, 4)):
            cases.append((assignor, group))
            group = reassigned(assignor, group, assigned(assignor, group), generation, rng)
    return cases


def test_kafkas_assignors_assign_the_same() -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"
    cases = _cases()
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{LIBS}/*", str(SOURCE)],
        input="\n".join(_question(*case) for case in cases) + "\n",
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    theirs = run.stdout.splitlines()
    assert len(theirs) == len(cases)
    different = []
    passed_over = 0
    for (assignor, group), answer in zip(cases, theirs, strict=True):
        found = assigned(assignor, group)
        ours = _assignment(found, group)
        words = answer.split(" ")
        if _kafka_is_wrong(assignor, group, words):
            passed_over += 1
            continue
        if _without_what_others_hold(assignor, group, words[: len(ours)]) != ours:
            different.append((_question(assignor, group), ours, words[: len(ours)]))
        elif words[: len(ours)] == ours:
            assert words[len(ours) :] == _bytes(found, group)
    assert passed_over < CASES / 50
    assert not different, f"{len(different)} of {len(cases)}: {different[0]}"
