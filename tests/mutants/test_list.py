"""The list of planted bugs is whole: each text to replace stands in its file once, and what replaces it is Python."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.mutants import bug
from tests.mutants.accepted import ACCEPTED
from tests.mutants.bug import SOURCES

MOST_ROWS = 320
"""A row for a new fence, durable step or bound takes the place of one that another row shows as well."""


def test_every_row_can_be_planted() -> None:
    rows = list(bug.rows())
    assert 200 <= len(rows) <= MOST_ROWS
    assert len({(row.path, row.start, row.after) for row in rows}) == len(rows), "a row is there twice"
    assert not [row for row in rows if row.before == row.after]


def test_every_row_leaves_python() -> None:
    by_path = defaultdict(list)
    for row in bug.rows():
        by_path[row.path].append(row)
    for path, rows in by_path.items():
        text = (SOURCES / path).read_text()
        planted, begin = text, len(text)
        for row in sorted(rows, reverse=True, key=lambda row: row.start):
            if row.end <= begin:
                planted, begin = row.planted(planted), row.start
            else:
                ast.parse(row.planted(text))
        ast.parse(planted)


def test_reasons_are_short_and_given() -> None:
    assert not [row for row in bug.rows() if not 10 <= len(row.why) <= 80]


def test_accepted_mutants_name_lines_that_are_there() -> None:
    for path, before, after, why in ACCEPTED:
        assert before in (line.strip() for line in (SOURCES / path).read_text().split("\n")), f"{path} has no line {before!r} any longer"
        assert before != after
        assert why
