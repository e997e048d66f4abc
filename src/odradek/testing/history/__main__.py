"""Command `python -m odradek.testing.history check FILES...`, which checks a recorded history."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from odradek.testing.history.anomalies import ALLOWED, NAMES
from odradek.testing.history.checker import Report, examine
from odradek.testing.history.copies import Copy
from odradek.testing.history.events import HistoryError, iterate_history, to_list


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a history. Return exit code 0 without anomalies, 1 with anomalies, 2 when the history cannot be read or an argument is
    invalid.
    """
    options = _parser().parse_args(arguments)
    try:
        report = examine(
            iterate_history(options.files),
            read_committed=options.read_committed,
            removal={**dict.fromkeys(options.delete, "delete"), **dict.fromkeys(options.compact, "compact")},
            copies=[Copy(*pair.split(":", 1)) for pair in options.copy],
            allow=ALLOWED | frozenset(options.allow),
            unavailable_after=options.unavailable_after,
            write_edges=options.write_edges,
            limit=options.limit,
        )
    except (OSError, ValueError, HistoryError) as error:
        print(error, file=sys.stderr)
        return 2
    print(_as_json(report) if options.json else _as_text(report, over_time=options.unseen_over_time))
    return 1 if report.counts else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m odradek.testing.history", description="Recorded histories.")
    check = parser.add_subparsers(required=True).add_parser("check", help="report the anomalies of a history")
    check.add_argument("files", nargs="+", help="one file for each process")
    check.add_argument("--read-committed", action="store_true", help="treat polls without an isolation level as read_committed")
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.add_argument("--allow", action="append", default=[], choices=sorted(NAMES), metavar="NAME", help="do not report these anomalies")
    check.add_argument(
        "--compact", action="append", default=[], metavar="TOPIC", help="this topic is compacted: older values of a key may be missing"
    )
    check.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="TOPIC",
        help="this topic is deleted from: values below its log start may be missing",
    )
    check.add_argument(
        "--copy", action="append", default=[], metavar="SOURCE:SINK", help="each value of the first topic must occur once in the second"
    )
    check.add_argument("--unavailable-after", type=float, metavar="SECONDS", help="a longer wait for a successful send is an anomaly")
    check.add_argument("--write-edges", action="store_true", help="search for cycles of writes too (Kafka allows them)")
    check.add_argument("--unseen-over-time", action="store_true", help="print how many acknowledged values had not been polled yet")
    check.add_argument("--limit", type=int, default=100, help="number of printed anomalies of each name (100)")
    return parser


def _as_json(report: Report) -> str:
    anomalies = [
        {
            "name": anomaly.name,
            "text": anomaly.text,
            "operations": [
                {
                    "process": each.process,
                    "function": each.function,
                    "outcome": each.outcome,
                    "invoked": each.invoked if abs(each.invoked) != float("inf") else None,
                    "completed": each.completed if each.completed != float("inf") else None,
                    "v": [to_list(one) for one in each.micro_operations],
                    **({"extra": dict(each.extra)} if each.extra else {}),
                }
                for each in anomaly.operations
            ],
        }
        for anomaly in report.anomalies
    ]
    document = {
        "counts": report.counts,
        "operations": report.operations,
        "values": report.values,
        "partitions": report.partitions,
        "unavailable": report.unavailable,
        "unseen": report.unseen,
        "anomalies": anomalies,
    }
    return json.dumps(document, indent=1)


def _as_text(report: Report, *, over_time: bool) -> str:
    lines = [str(anomaly) for anomaly in report.anomalies]
    if over_time:
        lines += [f"{time:.3f} {number} unseen" for time, number in report.unseen]
    lines.append(", ".join(f"{number} {what}" for what, number in report.operations.items()) or "no operations")
    lines.append(f"{report.values} values in {report.partitions} partitions")
    if report.unavailable:
        name, (time, end) = max(report.unavailable.items(), key=lambda each: each[1][0])
        lines.append(f"longest wait for a successful send: {time:.3f} s up to {end:.3f}, {name}")
    found = ", ".join(f"{number} {name}" for name, number in sorted(report.counts.items()))
    lines.append(f"ANOMALIES: {found}" if found else "no anomalies")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
