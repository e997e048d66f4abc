"""How fast a broker decides about access among many ACLs, beside JVM Kafka's own authorizer.

    python -m bench.acls [--acls 100000] [--questions 20000] [--rounds 5] [--without-jvm]

- load: all ACLs of an image, in an authorizer that had none.
- uncached: a question that was not asked before. Everybody's questions are about another topic each time, with literal, prefixed and
  wildcard ACLs among those that match.
- cached: the same questions once more; the JVM's authorizer remembers nothing.
- change: one ACL goes, or comes.
- any topic: whether a principal may write to any topic at all, not asked before.

Figures are microseconds of CPU time, the best round. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import count

from interop.peers import REPOSITORY, jvm_libs
from odradek.security.acls import AccessControlEntry
from odradek.security.principal import Principal
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType
from odradek.security.standard import StandardAuthorizer

Question = tuple[Principal, str, Operation, ResourceType, str]

TEAMS, USERS = 5_000, 2_000
HOST = "10.0.0.1"
TARGETS = {"load": 2_000_000.0, "uncached": 20.0, "cached": 2.0}
"""Microseconds."""


def entries(number: int) -> list[AccessControlEntry]:
    """A fifth are prefixed, in nine lengths; one in fifty denies; one in a hundred is for everybody; one in ten for one host."""
    rng = random.Random(1)
    found: dict[AccessControlEntry, None] = {}
    for index in count():
        if len(found) == number:
            break
        team = index % TEAMS
        prefixed = index % 5 == 0
        entry = AccessControlEntry(
            int(ResourceType.TOPIC),
            f"team{team}.{'part' * (index % 9)}" if prefixed else f"team{team}.topic{index}",
            int(PatternType.PREFIXED if prefixed else PatternType.LITERAL),
            "User:*" if index % 100 == 7 else f"User:u{rng.randrange(USERS)}",
            HOST if index % 10 == 0 else "*",
            int(rng.choice((Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL))),
            int(PermissionType.DENY if index % 50 == 0 else PermissionType.ALLOW),
        )
        found[entry] = None
    return list(found)


def questions(number: int, acls: int) -> list[Question]:
    rng = random.Random(2)
    asked: list[Question] = []
    for _ in range(number):
        index = rng.randrange(acls)
        principal = Principal("User", f"u{rng.randrange(USERS)}")
        asked.append((principal, HOST, Operation.READ, ResourceType.TOPIC, f"team{index % TEAMS}.topic{index}"))
    return asked


def each(action: Callable[[], object], times: int) -> float:
    """Microseconds of CPU for one of so many."""
    begin = time.process_time()
    action()
    return (time.process_time() - begin) / times * 1e6


def measure(acls: list[AccessControlEntry], asked: list[Question]) -> dict[str, float]:
    image = dict(enumerate(acls))
    authorizer: StandardAuthorizer[int] = StandardAuthorizer()
    found = {"load": each(lambda: authorizer.load(image), 1)}
    distinct = list(dict.fromkeys(asked))

    def ask(those: Iterable[Question]) -> None:
        for question in those:
            authorizer.allows(*question)

    found["uncached"] = each(lambda: ask(distinct), len(distinct))
    found["cached"] = each(lambda: ask(distinct), len(distinct))
    numbers = count(len(acls))

    def change() -> None:
        for index in range(500):
            authorizer.change({index: None})
            authorizer.change({next(numbers): acls[index]})

    found["change"] = each(change, 1_000)
    users = [Principal("User", f"u{number}") for number in range(USERS)]

    def any_topic() -> None:
        for user in users:
            authorizer.allows_any(user, HOST, Operation.WRITE, ResourceType.TOPIC)

    found["any topic"] = each(any_topic, len(users))
    return found


def measure_jvm(acls: list[AccessControlEntry], asked: list[Question]) -> dict[str, float]:
    """By the driver of the tests, which warms each question up before it asks it as often again."""
    lines = ["new\t\tfalse"]
    for kind, name, pattern, *rest in acls:
        lines.append("\t".join(map(str, ("acl", kind, pattern, name, *rest))))
    sample = asked[:200]
    for principal, host, operation, resource, name in sample:
        lines.append(f"ask\t{principal.kind}\t{principal.name}\t{host}\t{operation}\t{resource}\t{name}")
        lines.append("bench\t2000")
    driver = REPOSITORY / "tests" / "security" / "jvm" / "Authorizers.java"
    command = ["java", "-Xmx1g", "-cp", f"{jvm_libs()}/*", str(driver)]
    run = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = run.stdout.splitlines()
    times = sorted(float(answer) for answer in answers if "." in answer)
    return {"load": float(answers[0].split()[1]) / 1e3, "uncached": sum(times) / len(times) / 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description="decisions about access among many ACLs")
    parser.add_argument("--acls", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-jvm", action="store_true")
    options = parser.parse_args()
    acls, asked = entries(options.acls), questions(options.questions, options.acls)
    rounds = [measure(acls, asked) for _ in range(options.rounds)]
    ours = {name: min(each[name] for each in rounds) for name in rounds[0]}
    theirs = {} if options.without_jvm else measure_jvm(acls, asked)
    print(f"{options.acls:,} ACLs, {options.questions:,} questions; microseconds")
    missed = 0
    for name, figure in ours.items():
        target = TARGETS.get(name)
        late = target is not None and figure > target
        missed += late
        beside = f"   JVM {theirs[name]:12,.2f}" if name in theirs else ""
        print(f"{name:10} {figure:14,.2f}{'' if target is None else f'   target {target:,.0f}'}{'   MISSED' if late else ''}{beside}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
