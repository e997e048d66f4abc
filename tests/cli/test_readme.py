"""What the README shows works: every Python snippet runs, every command line is one, and what it claims is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.cli.main import COMMANDS
from odradek.cli.node import start
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command
from tests.quick_jvms import QUICK_JVMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))
MOST_LINES = 120
MOST_OWN_WORDS = 10


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def typed() -> list[str]:
    """The command lines, without their comments."""
    lines = [line for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r" +# .*", "", line.removeprefix("$ ")) for line in lines]


PYTHON = blocks("python")


@pytest.fixture
def broker() -> Iterator[str]:
    """A broker of its own with one record in `greetings`, as the reader has it by then."""
    with EmbeddedBroker({"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}) as running:
        from odradek.client import Producer

        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            producer.send("greetings", b"hello").result(30)
        yield running.bootstrap_servers


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, marks=[pytest.mark.spark, pytest.mark.timeout(400)] if "pyspark" in code else [], id=code.split("\n")[0])
        for code in PYTHON
    ],
)
def test_snippets_run(code: str, broker: str, tmp_path: Path) -> None:
    """Each by itself in a process of its own: nothing may be left out of it. The environment is the activated one."""
    activated = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    spark = {"PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell"}
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code.replace("localhost:9092", broker)],
        capture_output=True,
        text=True,
        timeout=350,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **QUICK_JVMS, **spark, "PATH": activated},
    )
    assert done.returncode == 0, done.stderr
    if "print(" in code or ".show()" in code:
        assert "hello" in done.stdout


def test_all_snippets_are_looked_at() -> None:
    assert len(PYTHON) == 4
    assert sum("localhost:9092" in code for code in PYTHON) == 3
    assert len(typed()) >= 9


def test_the_page_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_commands_against_a_broker_do_what_is_shown(broker: str, tmp_path: Path) -> None:
    """The lines for the second terminal, in their order, by a shell: what is shown below a line is what it prints."""
    (block,) = [each for each in blocks("console") if "odradek consume" in each]
    expected = "".join(f"{line}\n" for line in block.splitlines() if not line.startswith("$ "))
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    (tmp_path / "odradek").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m odradek.cli.main "$@"\n')
    (tmp_path / "odradek").chmod(0o755)
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": broker, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = "\n".join(line.replace("greetings", "salutations") for line in lines)
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Created topic salutations (1 partition).\n{expected}"


def test_a_properties_file_is_formatted_and_can_be_started(tmp_path: Path, command: Command) -> None:
    (line,) = [line for line in typed() if line.startswith("odradek storage format")]
    text = (
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=localhost:9093\nlisteners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"log.dirs={tmp_path}/data\n"
    )
    (tmp_path / "server.properties").write_text(text)
    words = shlex.split(line.replace("$(odradek storage random-uuid)", "theCluster").replace("server.", f"{tmp_path}/server."))
    assert command(*words[1:]).status == 0
    assert (tmp_path / "data" / "meta.properties").exists()
    starts = [line for line in typed() if line.startswith("odradek start")]
    assert len(starts) == 2
    for each in starts:
        start.load(start.parse(shlex.split(each.replace("server.", f"{tmp_path}/server."))[2:]))
    (quoted,) = re.findall(r"`(odradek start [^`]+)`", README)
    assert "PLAINTEXT://localhost:9192" in [str(each) for each in start.load(start.parse(shlex.split(quoted)[2:])).listeners]


def test_every_other_line_names_what_there_is() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in typed():
        words = line.split(" | ")[-1].split()
        if words[0] == "make":
            assert words[1] in targets
        elif words[0] == "odradek":
            assert words[1] in COMMANDS
        else:
            assert words[:2] in (["source", ".venv/bin/activate"], ["pip", "install"], ["pip", "wheel"])
    for target in re.findall(r"`make ([a-z]+)`", README):
        assert target in targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)):
        assert "://" in target or (path.parent / target).exists(), target


def test_the_glossary_has_at_most_ten_words_of_ours_and_each_word_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)
    words = [word for word, _ in rows if word != "Word" and not word.startswith("---")]
    assert len(words) == len(set(words)) >= 30
    assert all(meaning.endswith((".", ").")) for word, meaning in rows if word in words)
    _, _, ours = text.partition("## Odradek's own words")
    assert 1 <= len(re.findall(r"^\| [^-]", ours, re.MULTILINE)) - 1 <= MOST_OWN_WORDS
