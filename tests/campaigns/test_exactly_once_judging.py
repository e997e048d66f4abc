"""Tests that the checks of exactly-once runs report violations, and nothing more."""

from __future__ import annotations

from pathlib import Path

from odradek.testing.history import Recorder
from tests.campaigns import exactly_once_judging as judging
from tests.campaigns.exactly_once_watch import Watch

SENT = frozenset(("0:0@a", "0:1@a"))


def names(problems: list[str]) -> list[str]:
    return [each.partition(":")[0] for each in problems]


def test_what_is_there_once_and_in_order_is_right() -> None:
    assert judging.compare("exactly-once", 0, ["a", "b"], [(0, "a"), (3, "b")]) == []


def test_missing_double_and_disordered_records_are_named_with_their_places() -> None:
    (missing,) = judging.compare("exactly-once", 0, ["a", "b", "c"], [(0, "a"), (3, "c")])
    assert "1 missing, first ['b']" in missing
    (twice,) = judging.compare("exactly-once", 0, ["a", "b"], [(0, "a"), (3, "b"), (7, "a")])
    assert "1 twice, first ['a'] at [0, 7]" in twice
    (disorder,) = judging.compare("exactly-once", 0, ["a", "b"], [(0, "b"), (3, "a")])
    assert "the first difference is record 0: (0, 'b')" in disorder


def test_aborted_transactions_are_invisible_committed_ones_there_and_the_others_whole() -> None:
    everything, half, nothing = [(0, "0:0@a"), (1, "0:1@a")], [(0, "0:0@a")], []
    for kind, rows, wanted in (
        ("ok", everything, []),
        ("ok", half, ["committed-there"]),
        ("ok", nothing, ["committed-there"]),
        ("fail", nothing, []),
        ("fail", half, ["aborted-invisible"]),
        ("info", everything, []),
        ("info", nothing, []),
        ("info", half, ["not-torn"]),
        ("invoke", half, ["not-torn"]),
    ):
        assert names(judging.judge_transactions({"a": (kind, SENT)}, {0: rows})) == wanted, (kind, rows)
    assert names(judging.judge_transactions({}, {0: half})) == ["not-torn"]


def test_outcomes_are_the_last_that_a_history_tells(tmp_path: Path) -> None:
    with Recorder(tmp_path / "copier.jsonl", "copier") as recorder:
        sends = [["send", "output", 0, None, "0:0@a"]]
        recorder.invoke("txn", sends, id="a")
        recorder.ok("txn", sends, id="a")
        recorder.invoke("txn", sends, id="b")
    assert {name: kind for name, (kind, _) in judging.read_outcomes(tmp_path).items()} == {"a": "ok", "b": "invoke"}


def test_the_time_counts_that_a_stable_end_stands_below_the_end(tmp_path: Path) -> None:
    watch = Watch([1], ["output", "input"], "copiers", 1, tmp_path)
    for offset, end, seconds in ((5, 5, 1), (5, 6, 1), (5, 7, 1), (5, 8, 0.5), (8, 9, 1), (8, 9, 1), (9, 9, 1), (9, 10, 1)):
        watch.stands(0, offset, end, seconds)
    assert watch.longest == (1.5, 0, 5)
    watch.grows("high watermark", watch.ends, 0, 10)
    watch.grows("high watermark", watch.ends, 0, 9)
    assert watch.problems == ["goes-back: partition 0: the high watermark went from 10 to 9"]
    watch.abandon()
