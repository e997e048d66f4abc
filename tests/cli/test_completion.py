"""`odradek completion`: a real bash completes what is typed; zsh and fish, which are seldom there, are asked as their scripts would."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.cli.main import COMMANDS, COMPLETING
from odradek.client import Admin, Consumer
from odradek.client.admin.blocking import Admin as BlockingAdmin
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What bash loads, and beside it an `odradek` of these sources."""
    folder = tmp_path_factory.mktemp("completion")
    tool = folder / "odradek"
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m odradek.cli.main "$@"\n')
    tool.chmod(0o755)
    printed = subprocess.run([tool, "completion", "bash"], capture_output=True, text=True, check=True)
    assert printed.stderr == ""
    (folder / "script").write_text(printed.stdout)
    return folder / "script"


def completed(script: Path, line: str, **environment: str) -> list[str]:
    """What bash offers for the last word of a line, whose words it parts at colons and equals signs, too."""
    words = [piece for word in line.split(" ") for piece in re.split("([:=]+)", word)]
    typed = (
        f"source {script}; COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; "
        "_odradek_completion odradek; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", typed],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "XDG_CONFIG_HOME": f"{script.parent}/config", **environment},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("odradek top", ["topics"]),
        ("odradek nothing-such", []),
        ("odradek topics de", ["delete", "describe"]),
        ("odradek topics create --repl", ["--replication-factor", "--replica-assignment"]),
        ("odradek start --p", ["--port"]),
        ("odradek completion ", ["bash", "zsh", "fish"]),
        ("odradek consume --isolation-level ", ["read_committed", "read_uncommitted"]),
        ("odradek produce --transaction", ["--transactional-id", "--transaction-size"]),
    ],
)
def test_bash_completes_commands_and_options(line: str, offered: list[str], script: Path) -> None:
    assert completed(script, line) == offered


def test_bash_completes_all_commands(script: Path) -> None:
    assert completed(script, "odradek ") == [*COMMANDS]


def test_names_come_from_the_brokers_of_the_line(script: Path, bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, group_id="readers") as consumer:
        consumer.subscribe(["there"])
        deadline = time.monotonic() + 30
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(100)
        at = f"-b {bootstrap}"
        assert completed(script, f"odradek consume {at} -t the") == ["there"]
        assert completed(script, f"odradek consume {at} -t there -G read") == ["readers"]
        assert completed(script, f"odradek topics describe {at} the") == ["there"]
        assert completed(script, f"odradek groups describe {at} read") == ["readers"]
        assert completed(script, "odradek topics describe the", ODRADEK_BOOTSTRAP_SERVER=bootstrap) == ["there"]


def test_without_brokers_there_are_no_names_and_no_words(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            assert completed(script, f"odradek consume -b 127.0.0.1:{port} -t the") == []


def test_profiles_are_completed(script: Path) -> None:
    folder = script.parent / "config" / "odradek" / "profiles"
    folder.mkdir(parents=True)
    (folder / "shop.properties").write_text("bootstrap.servers=shop:1\n")
    (folder / "stock.properties").write_text("bootstrap.servers=stock:1\n")
    assert completed(script, "odradek topics list --profile s") == ["shop", "stock"]
    assert completed(script, "odradek topics list --profile=sh") == ["shop"]
    assert completed(script, "odradek profile use st") == ["stock"]


def test_names_are_asked_for_with_a_short_deadline(bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def watched(settings: dict[str, str]) -> Admin:
        asked.append(settings)
        return BlockingAdmin(settings)

    monkeypatch.setattr("odradek.cli.completion.Admin", watched)
    monkeypatch.setenv(COMPLETING, "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", f"odradek consume -b {bootstrap} -X request.timeout.ms=90000 -X max.poll.records=7 -t the")
    monkeypatch.setenv("COMP_CWORD", "9")
    answer = command()
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.split("\n")[:2] == ["plain", "there"]
    assert {asked[0][f"{name}.timeout.ms"] for name in ("default.api", "request")} == {"700"}
    assert "max.poll.records" not in asked[0], "a setting of consumers, which an Admin refuses"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_asks_odradek(shell: str, command: Command) -> None:
    answer = command("completion", shell)
    assert (answer.status, answer.err) == (0, "")
    assert f"{COMPLETING}={shell}_complete" in answer.out


def test_completing_commands_loads_none_of_them() -> None:
    code = "import sys; from odradek.cli.main import main; main(); print(*sys.modules, file=sys.stderr)"
    words = {COMPLETING: "bash_complete", "COMP_WORDS": "odradek ", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **words})
    assert "odradek.cli.completion" in done.stderr
    assert "odradek.cli.topics.topics" not in done.stderr
