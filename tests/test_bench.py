"""The benchmarks keep their own rules: a target on every row, and the page says what the kept results say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import brokers, cleaning, cluster, groups, page, recovery, transactions
from bench.comparison import ColdRow, Figures, Measured, Row, Target, at_least, at_most, below, order, settle, summarize
from interop.peers import BrokerProcess

ROWS: list[Row[Any] | ColdRow[Any]] = [
    *(row for module in (brokers, cleaning, groups, recovery, transactions) for row in module.rows(1.0)),
    *cluster.rows(1.0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_has_a_target(row: Row[Any] | ColdRow[Any]) -> None:
    assert row.targets


def test_names_of_rows_are_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_the_page_says_what_the_kept_results_say() -> None:
    text = page.PAGE.read_text()
    assert text == page.page_with_table(text, page.kept()), "run: python -m bench.page"


def test_brokers_take_turns_at_going_first() -> None:
    assert [order(number)[0] for number in range(4)] == ["odradek", "jvm", "odradek", "jvm"]


@pytest.mark.parametrize(
    ("target", "ours", "ratio", "met"),
    [
        (at_least(2), 10, 2.0, True),
        (at_least(2), 10, 1.99, False),
        (at_most(0.5), 10, 0.5, True),
        (at_most(0.5), 10, 0.51, False),
        (below(0.35, "s"), 0.35, 9.0, True),
        (below(0.35, "s"), 0.36, 0.1, False),
        (Target(">= 0.8", least=0.8), 0.8, 9.0, True),
        (Target(">= 0.8", least=0.8), 0.79, 9.0, False),
    ],
)
def test_targets(target: Target, ours: float, ratio: float, met: bool) -> None:
    assert target.met(ours, ratio) is met


def _row(figures: list[float]) -> Row[BrokerProcess]:
    left = iter(figures)

    def work(broker: BrokerProcess, label: str) -> Figures:
        return {"CPU us": next(left)}

    return Row("row", work, "CPU us", {"CPU us": at_most(1)}, most_passes=4)


class _OneBroker:
    def turn(self, side: str) -> _OneBroker:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("figures", "outcome"),
    [
        ([100, 99], (2, True)),
        ([200, 100, 96], (3, True)),
        ([200, 100, 50, 25], (4, False)),
        ([100, 94, 100, 94], (4, False)),
    ],
)
def test_a_row_is_warm_when_two_passes_in_a_row_are_alike(figures: list[float], outcome: tuple[int, bool]) -> None:
    assert settle(_row(figures), _OneBroker(), "jvm") == outcome  # type: ignore[arg-type]


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    rounds = [{"odradek": {"CPU us": mine}, "jvm": {"CPU us": other}} for mine, other in ((10.0, 10.0), (30.0, 10.0), (50.0, 100.0))]
    (line,) = summarize(Measured(_row([]), rounds, {"odradek": 2, "jvm": 8}, {"odradek": True, "jvm": False}))
    assert (line["odradek"], line["jvm"], line["ratio"], line["met"], line["settled"]) == (30.0, 10.0, 1.0, True, False)


def test_a_row_behind_its_target_is_listed() -> None:
    lines = summarize(Measured(_row([]), [{"odradek": {"CPU us": 20.0}, "jvm": {"CPU us": 10.0}}], {}, {"odradek": True, "jvm": True}))
    machine = {"cpu": "some", "cpus": 2, "memory GiB": 24, "kernel": "6", "python": "3.11", "java": "17"}
    text = page.table([("groups", {"machine": machine, "commit": "abc", "rounds": 5, "table": lines})])
    behind = text.partition("### Behind the target")[2]
    assert "- row: CPU us 20 against 10, ratio 2.00, target <= 1x" in behind


def test_results_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text("{}")
    assert page.kept(tmp_path) == [("groups", {})]
