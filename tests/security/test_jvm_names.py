"""The names of certificates, and of principals made of them, as Java and Kafka write them (jvm/Names.java)."""

from __future__ import annotations

import base64
import os
import random
import subprocess
from pathlib import Path

import pytest

from odradek.security.distinguished_name import rfc2253
from odradek.security.kerberos_names import KerberosShortNamer
from odradek.security.ssl_principal import SslPrincipalMapper

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[2] / ".cache" / "jvm" / "libs")
SOURCE = Path(__file__).with_name("jvm") / "Names.java"
CASES = 20_000

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

_TYPES = [
    bytes([6, 3, 0x55, 4, number])
    for number in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 42, 43, 44, 46)  # CN, SN, serialNumber, C, L, ST, STREET, O, OU, T, ...
] + [
    bytes.fromhex("060a0992268993f22c640101"),  # UID
    bytes.fromhex("060a0992268993f22c640119"),  # DC
    bytes.fromhex("06092a864886f70d010901"),  # emailAddress
    bytes.fromhex("060488378f2b"),
    bytes.fromhex("06028837"),
]
_TAGS = [0x0C, 0x0C, 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x12, 0x02]
_LETTERS = [*"ab Z0 ,+\"\\<>;=#\0\r\néß日𝒳/'*", "  "]


def der(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + content


def _attribute(rng: random.Random) -> bytes:
    tag = rng.choice(_TAGS)
    text = "".join(rng.choices(_LETTERS, k=rng.choice([0, 1, 2, 3, 8, 60])))
    if tag == 0x02:
        value = bytes(rng.choices(range(256), k=rng.randint(1, 4)))
    elif tag == 0x1E:
        value = text.encode("utf-16-be")
    elif tag in (0x13, 0x16, 0x12):
        value = text.encode("ascii", "ignore")
    elif tag in (0x14, 0x1B):
        value = text.encode("latin-1", "ignore")
    else:
        value = text.encode()
    return der(0x30, rng.choice(_TYPES) + der(tag, value))


def _name(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.randint(0, 5)):
        several = sorted(_attribute(rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        parts.append(der(0x31, b"".join(several)))
    return der(0x30, b"".join(parts))


_RULES = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^CN=([^,]*).*$/user-$1/U",
    "RULE:(.*)/$1$2$12/",
    "RULE:CN=(a+)(b*)/$2x$1$0/",
    "RULE:.*/X/",
    "RULE:CN=(?<who>[a-z]*).*/${who}!/",
    r"RULE:^CN=(.*)\/(.*)$/$1\/$2/",
    r"RULE:a/\$1\\/",
    "RULE:a//",
    "RULE:/x/",
]
_BROKEN = ["", "x", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/LL", "RULE:(/x/", "DEFAULTS", "RULE:a/b/c/", "RULE:CN=(.*)/$/"]
_NAMES = [
    "CN=duke,OU=ServiceUsers,O=Org,C=US",
    "CN=Duke,OU=JavaSoft,O=Sun Microsystems,L=Town,ST=CA,C=US",
    "CN=aab",
    "CN=aaß,OU=Ünit",
    "OU=x",
    "a",
    "",
    "cn=kafka.example,x=2",
    "CN=a/b",
    "CN=İI",
]


_LOCAL = [
    "DEFAULT",
    "RULE:[1:$1]",
    "RULE:[1:$1@$0](.*@REALM.COM)s/@.*//",
    "RULE:[1:$1@$0](.*@OTHER)s/@.*///U",
    "RULE:[2:$1](kafka)s/kafka/node/",
    "RULE:[2:$1-$2]s/[.]/_/g/L",
    "RULE:[2:$2.$1](.*)s/(.)(.*)/$2$1/",
    "RULE:[1:$1](a+)s/a/bb/",
    "RULE:[1:$1]s/a//g",
    "RULE:[1:x$1y$0z]s/@//L",
    "RULE:[1:$1]/U",
    "RULE:[1:$1]L",
    "RULE:[0:$0]",
    "RULE:[2:]",
    "RULE:[1:$1]()s/x/y/",
    r"RULE:[1:$1]s/a/\$/",
]
_BROKEN_LOCAL = [
    "",
    "default",
    "RULE",
    "RULE:[1:$1",
    "RULE:[x:$1]",
    "RULE:[:$1]",
    "RULE:[1:$1]s/a/b",
    "RULE:[1:$1]/X",
    "DEFAULT/L",
    "RULE:[1:$1](()",
]
_PRINCIPALS = [
    "alice@REALM.COM", "Alice@OTHER", "kafka/host.example@REALM.COM", "kafka/h@OTHER", "aaa@REALM.COM", "simple", "", "a/b/c@R", "a@b@c",
    "/@", "@", "a/@REALM.COM", "/b@REALM.COM", "ß@REALM.COM", "kafka/", "a/b",
]  # fmt: skip


def _ours(question: str) -> str:
    words = question.split(" ")
    try:
        if words[0] == "name":
            answer = rfc2253(bytes.fromhex(words[1]))
        else:
            rules, name = (base64.b64decode(word).decode() for word in words[1:])
            if words[0] == "local":
                answer = KerberosShortNamer(rules.split(","), "REALM.COM").name(name)
            else:
                answer = SslPrincipalMapper(rules).name(name)
    except ValueError:
        return "!"
    return base64.b64encode(answer.encode()).decode()


def test_names_are_javas_and_principals_kafkas() -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"
    rng = random.Random(371)
    questions = [f"name {_name(rng).hex()}" for _ in range(CASES)]
    for rules in [
        *_RULES,
        *_BROKEN,
        *(rng.choice([",", " , ", ","]).join(rng.choices(_RULES, k=rng.randint(2, 4))) for _ in range(400)),
        "DEFAULT,",
        " DEFAULT ",
    ]:
        for name in _NAMES:
            questions.append("map " + " ".join(base64.b64encode(word.encode()).decode() for word in (rules, name)))
    for local in [*_LOCAL, *_BROKEN_LOCAL, *(",".join(rng.choices(_LOCAL, k=rng.randint(2, 4))) for _ in range(400))]:
        for name in _PRINCIPALS:
            questions.append("local " + " ".join(base64.b64encode(word.encode()).decode() for word in (local, name)))
    command = ["java", "-cp", f"{LIBS}/*", str(SOURCE)]
    ran = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    theirs = ran.stdout.splitlines()
    assert len(theirs) == len(questions)
    differences = []
    for question, java in zip(questions, theirs, strict=True):
        ours = _ours(question)
        if ours != java:
            shown = [base64.b64decode(each).decode() if each != "!" else each for each in (java, ours)]
            what = question if question.startswith("name") else [base64.b64decode(word).decode() for word in question.split(" ")[1:]]
            differences.append((what, *shown))
    assert differences[:10] == [], len(differences)
