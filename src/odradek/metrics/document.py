"""Tables of docs/operations.md. `python -m odradek.metrics.document docs/operations.md` updates the page."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from odradek.metrics.absent import ABSENT
from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.names import Metric
from odradek.metrics.prometheus import series_names

_BEGIN: Final = "<!-- {} begins -->"
_END: Final = "<!-- {} ends -->"


def document(page: str) -> str:
    """Return the page with updated tables."""
    for name, lines in (("metrics", metrics()), ("absent", absent())):
        begin, end = _BEGIN.format(name), _END.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = before + begin + "\n" + "\n".join(lines) + "\n" + end + after
    return page


def metrics() -> list[str]:
    """Return a table for each type of MBean."""
    tables: dict[str, list[str]] = {}
    for metric in CATALOGUE:
        tables.setdefault(f"{metric.domain}:type={metric.type}", []).append(_row(metric))
    lines: list[str] = []
    for heading, rows in tables.items():
        lines += ["", f"#### {heading}", "", "| Name | Kind | Tags | Meaning | In Prometheus |", "|---|---|---|---|---|", *rows]
    return [*lines, ""]


def _row(metric: Metric) -> str:
    unit = f" ({metric.unit})" if metric.unit else ""
    shown = ", ".join(f"`{name}`" for name, _ in series_names(metric)) or "only in `/mbeans`"
    kind = "attribute" if metric.attribute else metric.kind.value
    return f"| `{metric.name}` | {kind} | {', '.join(metric.tags)} | {metric.help}{unit} | {shown} |"


def absent() -> Iterable[str]:
    """Yield the table of JVM Kafka's MBeans that Odradek does not have."""
    yield "| MBeans of JVM Kafka | Why not here |"
    yield "|---|---|"
    for names, reason in ABSENT:
        for name in names:
            yield f"| `{name}` | {reason} |"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        made = document(file.read())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(made)
