"""Makes the table of docs/performance.md from the kept results: python -m bench.page

`page_with_table` writes the text between the two marks of the page; a test compares it with bench/results/.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.comparison import RESULTS
from interop.peers import REPOSITORY

PAGE = REPOSITORY / "docs" / "performance.md"
BEGIN, END = "<!-- table: python -m bench.page -->", "<!-- end of the table -->"
BENCHMARKS = (
    "brokers",
    "recovery",
    "footprint",
    "cleaning",
    "groups",
    "transactions",
    "tls",
    "cluster",
    "clients",
    "spark",
    "spark_shapes",
)


def kept(folder: Path = RESULTS) -> list[tuple[str, dict[str, Any]]]:
    """The results of every benchmark that has been run, by name."""
    return [(name, json.loads(path.read_text())) for name in BENCHMARKS if (path := folder / f"{name}.json").exists()]


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(results: list[tuple[str, dict[str, Any]]]) -> str:
    """One table a benchmark, and a list of what is behind its target."""
    text: list[str] = []
    behind: list[str] = []
    for name, result in results:
        machine = result["machine"]
        text += [
            f"### bench.{name}",
            f"Commit {result['commit']}; {machine['cpus']} CPUs ({machine['cpu']}), {machine['memory GiB']} GiB, "
            f"Linux {machine['kernel']}, Python {machine['python']}, {machine['java']}; rounds: {result['rounds']}.",
            "",
        ]
        if name == "clients":
            lines, missed = clients(result["table"])
            text += [*lines, ""]
            behind += missed
            continue
        text += [line(("row", "figure", "Odradek", "JVM", "ratio", "target", "")), line(["---"] * 7)]
        before = ""
        for each in result["table"]:
            verdict = {True: "met", False: "**missed**", None: ""}[each["met"]]
            if not each["settled"]:
                verdict = f"{verdict} (not settled)".strip()
            row = each["row"] if each["row"] != before else ""
            before = each["row"]
            cells = (row, each["figure"], number(each["odradek"]), number(each["jvm"]), f"{each['ratio']:.2f}", each["target"], verdict)
            text.append(line(cells))
            if each["met"] is False:
                behind.append(
                    f"- {each['row']}: {each['figure']} {number(each['odradek'])} against {number(each['jvm'])}, ratio "
                    f"{each['ratio']:.2f}, target {each['target']}"
                )
        text.append("")
    return "\n".join([*text, "### Behind the target", *(behind or ["Nothing."])])


def clients(lines: Iterable[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The table of Python clients side by side, and what is behind its target."""
    names = ("odradek", "odradek-async", "confluent", "aiokafka", "kafka-python")
    text = [line(("row", "broker", "figure", *names, "held to")), line(["---"] * (len(names) + 4))]
    behind: list[str] = []
    for each in lines:
        figures = (number(each[name]) if name in each else "" for name in names)
        verdicts = []
        for held in each["held"]:
            against = f"{held['client']} / {held['beside']} {held['ratio']:.2f} ({held['target']})"
            verdicts.append(against if held["met"] else f"{against} **missed**")
            if not held["met"]:
                behind.append(f"- {each['row']} on {each['broker']}: {each['figure']} of {against}")
        text.append(line((each["row"], each["broker"], each["figure"], *figures, "; ".join(verdicts))))
    return text, behind


def page_with_table(page: str, results: list[tuple[str, dict[str, Any]]]) -> str:
    """The page with its table made anew. ValueError when the marks are not there."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table between {BEGIN} and {END}")
    return f"{head}{BEGIN}\n{table(results)}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(), kept()))
    print(f"wrote {PAGE.relative_to(REPOSITORY)}", file=sys.stderr)
