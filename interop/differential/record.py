"""Pairs of answers that exceptions excuse, kept as JSON for the test that asks whether a wrong answer beside them would be seen."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interop.differential.compare import MISSING, Excepted, Named, differences, which
from interop.differential.peer import CLOSED, SILENT, Closed, Silent

_NEIGHBOURS = 2
"""How many equal entries of an unordered list are kept, and how many in which the exception occurs."""
_SHORT_BYTES = 1000
"""Longer byte strings are kept as their length: they are compared by size."""


class Recorded(NamedTuple):
    """The name of a case and both plain answers."""

    label: str
    ours: Any
    theirs: Any


def key_of(entry: Excepted) -> str:
    return f"{entry.case} | {entry.path}"


def keep_smallest(kept: dict[str, Recorded], index: int, exceptions: Sequence[Excepted], found: Recorded) -> None:
    """Keeps the pair for the exception if it is the first or smaller than the one kept, and exceptions cover all its differences."""
    entry = exceptions[index]
    pruned = Recorded(found.label, *_pruned(entry, found.label, found.ours, found.theirs))
    if any(which(exceptions, found.label, difference) is None for difference in differences(pruned.ours, pruned.theirs)):
        return
    former = kept.get(key_of(entry))
    if former is None or len(repr(pruned)) < len(repr(former)):
        kept[key_of(entry)] = pruned


def _pruned(entry: Excepted, label: str, ours: Any, theirs: Any, path: str = "") -> tuple[Any, Any]:
    """Both answers, with few entries in unordered lists: some that are equal, and some in which the exception occurs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        named = isinstance(ours, Named)
        inside = {key: f"{path}[{key}]" if named else f"{path}.{key}" if path else key for key in {**ours, **theirs}}
        kept = list(inside)
        if named:
            found = {key: list(differences(ours.get(key, MISSING), theirs.get(key, MISSING), inside[key])) for key in inside}
            met = [key for key, those in found.items() if any(entry.covers(label, each) for each in those)]
            kept = [*[key for key, those in found.items() if not those][:_NEIGHBOURS], *met[-_NEIGHBOURS:]]
        pairs = {key: _pruned(entry, label, ours.get(key, MISSING), theirs.get(key, MISSING), inside[key]) for key in kept}
        of = type(ours)
        return of({k: pairs[k][0] for k in kept if k in ours}), of({k: pairs[k][1] for k in kept if k in theirs})
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        both = list(zip(ours, theirs, strict=True))
        if path.endswith(".batches"):
            # One batch is enough, the smallest in which the exception occurs.
            met = [pair for pair in both if any(entry.covers(label, each) for each in differences(*pair, f"{path}[0]"))]
            both = sorted(met, key=lambda pair: len(repr(pair)))[:1] or both
        if path.endswith(".content") and ours == theirs:
            both = both[:_NEIGHBOURS]
        items = [_pruned(entry, label, mine, other, f"{path}[{index}]") for index, (mine, other) in enumerate(both)]
        return [mine for mine, _ in items], [other for _, other in items]
    return ours, theirs


def write(path: Path, recorded: Mapping[str, Recorded], known: Collection[str]) -> None:
    """Writes the recorded pairs; the file keeps its pairs of known exceptions that did not occur in this run."""
    former = json.loads(path.read_text()) if path.exists() else {}
    former = {key: row for key, row in former.items() if key in known}
    rows = {key: {"label": each.label, "ours": _packed(each.ours), "theirs": _packed(each.theirs)} for key, each in recorded.items()}
    path.write_text(json.dumps({**former, **rows}, indent=1, sort_keys=True) + "\n")


def read(path: Path) -> dict[str, Recorded]:
    rows = json.loads(path.read_text())
    return {key: Recorded(row["label"], _unpacked(row["ours"]), _unpacked(row["theirs"])) for key, row in rows.items()}


def _packed(value: Any) -> Any:
    if isinstance(value, Closed | Silent):
        return {"$": repr(value)}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()} if len(value) <= _SHORT_BYTES else {"$zeros": len(value)}
    if isinstance(value, Named):
        return {"$named": {key: _packed(each) for key, each in value.items()}}
    if isinstance(value, dict):
        return {key: _packed(each) for key, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return CLOSED if value["$"] == repr(CLOSED) else SILENT
    if "$bytes" in value:
        return bytes.fromhex(value["$bytes"])
    if "$zeros" in value:
        return bytes(value["$zeros"])
    if "$named" in value:
        return Named({key: _unpacked(each) for key, each in value["$named"].items()})
    return {key: _unpacked(each) for key, each in value.items()}
