"""The same decisions as JVM Kafka's StandardAuthorizer (jvm/Authorizers.java)."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from odradek.security.acls import AccessControlEntry, AclFilter
from odradek.security.principal import parse_super_users
from odradek.security.standard import StandardAuthorizer
from tests.security.acl_support import ASKED, HOSTS, NAMES, PRINCIPALS, TYPES, random_entry, random_question

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[2] / ".cache" / "jvm" / "libs")
SOURCE = Path(__file__).with_name("jvm") / "Authorizers.java"
WORLDS, CHANGES, QUESTIONS = 60, 6, 60

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]


def _acl(entry: AccessControlEntry) -> str:
    kind, name, pattern, *rest = entry
    return "\t".join(map(str, ("acl", kind, pattern, name, *rest)))


def test_kafkas_own_authorizer_decides_the_same() -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"
    rng = random.Random(4)
    lines: list[str] = []
    expected: list[str] = []
    for _ in range(WORLDS):
        supers = rng.choice(("", "User:bob", "User:bob;Group:alice"))
        default = rng.random() < 0.3
        lines.append(f"new\t{supers}\t{str(default).lower()}")
        authorizer: StandardAuthorizer[int] = StandardAuthorizer(parse_super_users(supers), allow_without_acl=default)
        authorizer.load({})
        known = 0
        for _ in range(CHANGES):
            # Kafka's index refuses an ACL that is there already under another id.
            new = {random_entry(rng) for _ in range(rng.randrange(12))} - set(authorizer.entries.values())
            for entry in new:
                lines.append(_acl(entry))
                authorizer.change({known: entry})
                known += 1
            for _ in range(QUESTIONS):
                principal, host, operation, kind, name = question = random_question(rng)
                lines.append(f"ask\t{principal.kind}\t{principal.name}\t{host}\t{operation}\t{kind}\t{name}")
                expected.append("1" if authorizer.allows(*question) else "0")
            for _ in range(8):
                principal, host, operation, kind, _ = random_question(rng)
                lines.append(f"any\t{principal.kind}\t{principal.name}\t{host}\t{operation}\t{kind}")
                expected.append("1" if authorizer.allows_any(principal, host, operation, kind) else "0")
                lines.append(_filter(rng, expected, authorizer))
            for gone in rng.sample(sorted(authorizer.entries), min(3, len(authorizer.entries))):
                lines.append(f"remove\t{gone}")
                authorizer.change({gone: None})
    run = subprocess.run(
        ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", str(SOURCE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3_000:]
    answers = run.stdout.split("\n")[:-1]
    asked = [line for line in lines if line.startswith(("ask", "any", "filter"))]
    assert len(answers) == len(expected) == len(asked)
    different = [(line, ours, theirs) for line, ours, theirs in zip(asked, expected, answers, strict=True) if ours != theirs]
    assert not different, different[:10]
    assert min(expected.count("0"), expected.count("1")) > 1_000, "the questions are too one-sided"


def _filter(rng: random.Random, expected: list[str], authorizer: StandardAuthorizer[int]) -> str:
    def maybe(choices: tuple[object, ...]) -> object:
        return rng.choice(choices) if rng.random() < 0.3 else None

    pattern = rng.choice((1, 2, 3, 4))
    values = (
        maybe(TYPES) or 1,
        maybe(NAMES),
        pattern,
        maybe(PRINCIPALS),
        maybe(HOSTS),
        maybe(ASKED) or 1,
        maybe((2, 3)) or 1,
    )
    wanted = AclFilter(*(int(v) if isinstance(v, int) else v for v in values))  # type: ignore[arg-type]
    expected.append(str(sum(map(wanted.matches, authorizer.entries.values()))))
    kind, name, pattern, *rest = wanted
    return "\t".join("-" if word is None else str(word) for word in ("filter", kind, pattern, name, *rest))
