"""Writes two sections of docs/differences.md from the tables: `python -m interop.differential.document`.

They are the text between `<!-- from the tables -->` and `<!-- end -->`: the APIs whose connection is closed, and the differences that the
comparison with JVM Kafka excuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from interop.differential.compare import Excepted
from interop.differential.exceptions import API_KEYS_TO_COME, API_KEYS_TO_COME_ON_CONTROLLERS, EXCEPTIONS
from interop.peers import REPOSITORY
from odradek.protocol.api_keys import API_INFO, ApiKey

PAGE = REPOSITORY / "docs" / "differences.md"
_SECTION = re.compile(r"(<!-- from the tables: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def closed() -> str:
    """The APIs that are not served, in the order of their keys."""

    def named(keys: Iterable[ApiKey]) -> str:
        return ", ".join(f"`{API_INFO[key].name}` ({int(key)})" for key in keys)

    return f"{named(API_KEYS_TO_COME)}.\n\nOn controller listeners: {named(API_KEYS_TO_COME_ON_CONTROLLERS)}.\n"


def excused() -> str:
    """The exceptions grouped by reason, in the order of the table."""
    by_reason: dict[str, list[Excepted]] = {}
    for entry in EXCEPTIONS:
        by_reason.setdefault(entry.why, []).append(entry)
    lines = ["| Excused | In the answers to | Entries | How near |", "|---|---|---|---|"]
    for why, entries in by_reason.items():
        cases = ", ".join(dict.fromkeys(_api(entry.case) for entry in entries))
        lines.append(f"| {why.replace('|', ' ')} | {cases} | {len(entries)} | {_nearness(entries)} |")
    return "\n".join(lines) + "\n"


def _api(case: str) -> str:
    """The API that a pattern for cases begins with."""
    if case.startswith("frame"):
        return "frames"
    name = case.removeprefix("(controller )?")
    if name.startswith("[A-Z_]+"):
        return "every API"
    where, _, rest = name.partition(" ")
    name = f"{rest.partition(' ')[0]} (on a {where})" if where in ("controller", "voter") else where
    return "ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS" if name.startswith("(INCREMENTAL_)?") else name


def _nearness(entries: list[Excepted]) -> str:
    bounds = sorted({entry.bound for entry in entries if entry.bound})
    if bounds:
        return "; ".join(bounds)
    elsewhere = {entry.elsewhere for entry in entries} - {""}
    return f"exact (with `{elsewhere.pop()}`)" if elsewhere else "exact"


def written(page: str) -> str:
    """The page with both sections as the tables have them."""
    sections = {"closed": closed, "excused": excused}
    return _SECTION.sub(lambda found: f"{found[1]}{sections[found[2]]()}{found[3]}", page)


def main(path: Path = PAGE) -> None:
    path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
