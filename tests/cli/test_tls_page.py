"""docs/security-tls.md: its commands do what the page says, on ports and in a folder of the test's own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from interop.peers import free_port
from tests.processes import end

PAGE = (Path(__file__).parents[2] / "docs" / "security-tls.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_from_nothing_to_a_record_over_tls(tmp_path: Path) -> None:
    make, begin, use, renew, (more,) = ([line[2:] for line in block.splitlines() if line.startswith("$ ")] for block in blocks("console"))
    server, client = blocks("properties")[:2]
    port, controller, strict = free_port(), free_port(), free_port()
    (tmp_path / "server.properties").write_text(server.replace("9092", str(port)).replace("9093", str(controller)))
    (tmp_path / "client.properties").write_text(client)
    (tmp_path / "odradek").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m odradek.cli.main "$@"\n')
    (tmp_path / "odradek").chmod(0o755)
    shell = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ODRADEK_BOOTSTRAP_SERVER": f"localhost:{port}"}

    def run(*lines: str) -> str:
        command = ["bash", "-euc", "\n".join(lines)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=shell, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(*make)
    run(*begin[:-1])
    process = subprocess.Popen(["bash", "-c", f"exec {begin[-1]}"], stdout=subprocess.PIPE, text=True, env=shell, cwd=tmp_path)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it says that it is ready
        assert run(*use).splitlines()[-1] == "hello"
        run(make[1], make[2], *renew)
        assert run(use[-1]).splitlines() == ["hello"]
        run(more.replace("9092", str(port)).replace("9093", str(controller)).replace("9095", str(strict)))
        told = subprocess.run(
            ["openssl", "s_client", "-connect", f"localhost:{strict}", "-tls1_2"], capture_output=True, input=b"", check=False
        )
        assert b"certificate required" in told.stderr or b"handshake failure" in told.stderr, told.stderr
    finally:
        status = end(process)
    assert status == 0


def test_the_settings_of_the_page_are_keys() -> None:
    from odradek.config.listener_settings import key_of
    from odradek.config.properties import parse_properties

    found = {name for block in blocks("properties") for name in parse_properties(block) if name != "security.protocol"}
    assert {name for name in found if key_of(name) is None} == set()
    assert len(found) > 15
