"""One subscriber that raises keeps the news from nobody."""

from __future__ import annotations

import pytest

from odradek.base.notify import tell_each


def test_those_behind_one_that_raises_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, int]] = []

    def broken(number: int) -> None:
        told.append(("broken", number))
        raise RuntimeError("as the test wanted")

    errors = tell_each([lambda number: told.append(("first", number)), broken, broken, lambda number: told.append(("last", number))], 7)
    assert told == [("first", 7), ("broken", 7), ("broken", 7), ("last", 7)]
    assert errors == 2
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert "broken" in record.message
        assert record.exc_info


def test_what_ends_the_process_is_raised() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tell_each([interrupted])
