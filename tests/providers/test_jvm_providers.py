"""References are followed as by Kafka's own providers (jvm/Providers.java)."""

from __future__ import annotations

import base64
import os
import random
import subprocess
from pathlib import Path

import pytest

from odradek.base.errors import ConfigError
from odradek.providers.resolving import resolve
from tests.providers.support import DIRECTORY, ENV, FILE, PROVIDERS, only, secrets

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[2] / ".cache" / "jvm" / "libs")
SOURCE = Path(__file__).with_name("jvm") / "Providers.java"
CASES = 4_000
VARIABLES = {"ODRADEK_TEST_A": "a value", "ODRADEK_TEST_EMPTY": "", "OTHER_TEST": "${env:ODRADEK_TEST_A}"}

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]


def _word(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _texts(rng: random.Random, folder: Path) -> str:
    """Values that are references, nearly so, or made of their parts."""
    paths = [
        "",
        str(folder),
        f"{folder}/secrets.properties",
        f"{folder}/./odd.properties",
        f"{folder}/more/../user",
        f"{folder}/none",
        "relative",
    ]
    paths += [f"{folder}/{name}.properties" for name in ("broken", "escape")] if rng.random() < 0.05 else []
    keys = [
        "password",
        "user",
        "empty",
        "un:code",
        "unicode",
        "key with:colon",
        "none",
        "ODRADEK_TEST_A",
        "ODRADEK_TEST_EMPTY",
        "OTHER_TEST",
    ]
    keys += ["link", "more", "reference", "../user", "", " user", "bytes"]
    parts = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.7:
            path, key = rng.choice(paths), rng.choice(keys)
            middle = f"{path}:" if path or rng.random() < 0.3 else ""
            parts.append(f"${{{rng.choice(('file', 'file', 'dir', 'env', 'other', ''))}:{middle}{key}}}")
        parts.append("".join(rng.choices(("$", "{", "}", ":", "${", "file", "env:", "a", "\n", "\\", "$1", "é"), k=rng.randint(0, 4))))
    return "".join(parts)


def _cases(rng: random.Random, folder: Path) -> list[tuple[dict[str, str], str | None]]:
    """Settings, and the classes that are allowed."""
    found: list[tuple[dict[str, str], str | None]] = []
    for _ in range(CASES):
        settings = dict(PROVIDERS)
        if rng.random() < 0.4:
            allowed = rng.choice((str(folder), f"{folder}/secrets.properties", f"{folder}/more,{folder}/user", f"{folder}/./more/.."))
            settings["config.providers.file.param.allowed.paths"] = allowed
            settings["config.providers.dir.param.allowed.paths"] = allowed
        if rng.random() < 0.4:
            pattern = rng.choice(("^ODRADEK_.*", "TEST", "ODRADEK_TEST_A", ".*EMPTY", "^$", "A$"))
            settings["config.providers.env.param.allowlist.pattern"] = pattern
        settings["key"] = f"${{env:{rng.choice(sorted(VARIABLES))}}}"
        settings |= {f"key{number}": _texts(rng, folder) for number in range(rng.randint(1, 2))}
        found.append((settings, None))
    broken = {
        "none": only("file", allowed_paths="/no/such/place"),
        "relative": only("file", allowed_paths="tests"),
        "pattern": only("env", allowlist_pattern="("),
        "path": {**only("env"), "key": "${env:/path:X}"},
        "missing": {**only("file"), "key": f"${{file:{folder}/none:x}}"},
        "class": {"config.providers": "a", "config.providers.a.class": "com.example.None"},
    }
    found += [(settings, None) for settings in broken.values()]
    for allowed in ("none", "", FILE, f"{FILE}, {DIRECTORY},{ENV}", "FileConfigProvider"):
        found.append((only("file") | {"key": f"${{file:{folder}/secrets.properties:password}}"}, allowed))
        found.append(({"key": "${file:x:y}"}, allowed))
    return found


def _ours(settings: dict[str, str], allowed: str | None) -> dict[str, str] | None:
    try:
        return dict(resolve(settings, None, None if allowed is None else [each.strip() for each in allowed.split(",")]))
    except ConfigError:
        return None


def _theirs(answer: str) -> dict[str, str] | None:
    if answer.startswith("! "):
        return None
    pairs = (line.split(" ") for line in answer.splitlines())
    return {base64.b64decode(key).decode(): base64.b64decode(value).decode() for key, value in pairs}


def test_references_lead_where_kafkas_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    secrets(tmp_path)
    (tmp_path / "odd.properties").write_bytes(b"password=\xc3\xa9odd \\\n  more\nuser : a=b\r\nempty\nnone\\u00e9=x\n")
    (tmp_path / "broken.properties").write_bytes(b"password=\xff\xfe\n")
    (tmp_path / "escape.properties").write_bytes(b"password=\\u12g4\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\n")
    cases = _cases(random.Random(297), tmp_path)
    lines: list[str] = []
    for settings, allowed in cases:
        lines.append("allow" if allowed is None else f"allow {_word(allowed)}")
        lines += [f"set {_word(key)} {_word(value)}" for key, value in settings.items()]
        lines.append("client")
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{LIBS}/*", str(SOURCE)]
    ran = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    theirs = [_theirs(answer) for answer in ran.stdout.split("\n\n")[:-1]]
    assert len(theirs) == len(cases)
    differences = []
    for (settings, allowed), java in zip(cases, theirs, strict=True):
        ours = _ours(settings, allowed)
        if ours != java:
            keys = [key for key in settings if key.startswith("key")]
            parameters = [value for key, value in settings.items() if ".param." in key]
            differences.append((allowed, parameters, [(settings[key], (java or {}).get(key), (ours or {}).get(key)) for key in keys]))
    assert not differences, f"{len(differences)}: {differences[:3]}"
    assert (
        sum(
            java is not None and any(java[key] != settings[key] for key in settings)
            for (settings, _), java in zip(cases, theirs, strict=True)
        )
        > CASES / 5
    )
