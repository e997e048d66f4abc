"""docs/security.md: its ten commands lead where the page says, and whoever it keeps out sees what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import free_port, run_jvm_tool
from tests.cli.pages import commands, normal, played
from tests.forking import Forks
from tests.processes import end

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
FILES = re.findall(r"`(\w+\.properties)`:\n```properties\n(.*?)```", PAGE, re.DOTALL)
MAKE, BEGIN = re.findall(r"```console\n.*?```", PAGE, re.DOTALL)[:2]
AFTER = PAGE.partition(BEGIN)[2]
(FOR_JAVA,) = re.findall(r"besides:\n```properties\n(.*?)```", PAGE, re.DOTALL)


class Guide:
    """The page on ports of the test's own, as far as the broker that it starts."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self._forks = forks
        self._shown: str | None = None
        self._ports = {str(port): str(free_port()) for port in (9092, 9093, 9094)}
        for name, text in FILES:
            (folder / name).write_text(self.here(text))
        with (folder / "server.properties").open("a") as server:
            server.write("group.initial.rebalance.delay.ms=0\noffsets.topic.num.partitions=1\n")  # nothing but quicker

    def here(self, text: str) -> str:
        return re.sub("909[234]", lambda found: self._ports[found[0]], text)

    def played(self, text: str) -> str:
        """What is printed now, in the place of what the page shows."""
        return played(self.here(text), self.here("localhost:9092"), self.folder, self._forks)

    def followed(self) -> str:
        """What is printed to the end of the page; it is played once."""
        if self._shown is None:
            self._shown = self.played(AFTER)
        return self._shown

    def start(self) -> subprocess.Popen[str]:
        """The last command of `BEGIN`, when it has said that it is ready."""
        line = f"exec {shlex.quote(sys.executable)} -m odradek.cli.main {commands(BEGIN)[-1].removeprefix('odradek ')}"
        process = subprocess.Popen(["bash", "-c", line], stdout=subprocess.PIPE, text=True, env={**os.environ}, cwd=self.folder)
        assert process.stdout is not None
        if not process.stdout.readline().startswith("Odradek is ready"):
            raise AssertionError(f"it ended with status {end(process)}")
        return process


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Guide]:
    guide = Guide(tmp_path_factory.mktemp("guide"), forks)
    guide.played(MAKE)
    said = guide.played(f"```console\n$ {commands(BEGIN)[0]}\n```")
    assert "Formatting" in said, said
    process = guide.start()
    try:
        yield guide
    finally:
        status = end(process)
    assert status == 0


@pytest.mark.timeout(240)
def test_the_page_shows_what_is_printed(guide: Guide) -> None:
    assert normal(guide.followed()) == normal(guide.here(AFTER))


def test_it_takes_ten_commands() -> None:
    until = PAGE.partition("## Who is kept out")[0]
    assert len(commands(until)) == 10
    assert [name for name, _ in FILES] == ["server.properties", "admin.properties", "alice.properties"]


@pytest.mark.jvm
def test_scripts_of_kafka_take_the_file(guide: Guide) -> None:
    guide.followed()
    file = guide.folder / "java.properties"
    file.write_text((guide.folder / "alice.properties").read_text().replace("=authority", f"={guide.folder}/authority") + FOR_JAVA)
    file.write_text(file.read_text().replace("=client.pem", f"={guide.folder}/client.pem"))
    at = ("--bootstrap-server", guide.here("localhost:9092"))
    done = run_jvm_tool("org.apache.kafka.tools.TopicCommand", *at, "--command-config", str(file), "--list")
    assert (done.returncode, done.stdout) == (0, b"orders\n"), done.stderr
