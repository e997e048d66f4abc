"""docs/admin-client.md: its examples run, and its table has every method of Java's Admin and of ours, with our parameters."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop.peers import jvm_libs
from odradek.client import AsyncAdmin

PAGE = (Path(__file__).parents[2] / "docs/admin-client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")][1:]
CALLS = [(ours.strip("`"), java) for java, ours, *_ in ROWS if ours.startswith("`")]


@pytest.mark.parametrize("example", EXAMPLES, ids=["blocking", "asyncio"])
def test_examples_run(example: str, bootstrap: str) -> None:
    code = example.replace("localhost:9092", bootstrap)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if "billing" in example:
        assert done.stdout.splitlines()[-2:] == ["billing deleted", "shipping GROUP_ID_NOT_FOUND: group shipping"]


def test_the_page_names_every_call_of_ours() -> None:
    named = {call.partition("(")[0] for call, _ in CALLS} | set(re.findall(r"Java's Admin has no `(\w+)\(", PAGE))
    named |= {name.removeprefix("try_") for name in named}
    there = {name for name in dir(AsyncAdmin) if not name.startswith("_")} - {"cluster", "start"}
    assert named == there


@pytest.mark.parametrize(("call", "java"), CALLS)
def test_the_table_has_the_parameters(call: str, java: str) -> None:
    name, _, given = call.rstrip(")").partition("(")
    parameters = [each for each in inspect.signature(getattr(AsyncAdmin, name)).parameters.values() if each.name != "self"]
    positional = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    keywords = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    expected = ", ".join([*positional, *(["*"] if keywords else []), *keywords])
    assert given.replace("names or ids", "topics") == expected
    words = re.sub("([A-Z])", r"_\1", java).lower()
    assert name.removeprefix("try_") == words


@pytest.mark.jvm
def test_the_table_names_every_method_of_java() -> None:
    listing = subprocess.run(
        ["javap", "-cp", f"{jvm_libs()}/*", "org.apache.kafka.clients.admin.Admin"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    methods = set(re.findall(r"public (?:abstract|default) \S.* (\w+)\(", listing)) | {"close"}
    named = {name for java, *_ in ROWS for name in java.split(", ")}
    assert named == methods
