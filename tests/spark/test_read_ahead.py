"""One item ahead of who works on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from odradek.spark.read_ahead import read_ahead


def test_the_next_item_is_made_while_one_is_worked_on() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number in range(3):
            made[number].set()
            yield number
        made[3].set()

    seen: list[int] = []
    for number in read_ahead(items()):
        seen.append(number)
        assert made[number + 1].wait(20), "nobody has asked for the next one"
        assert not any(each.is_set() for each in made[number + 2 :]), "one ahead, not two"
    assert seen == [0, 1, 2]


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("broken")

    seen: list[int] = []
    with pytest.raises(ValueError, match="broken"):
        seen.extend(read_ahead(items()))
    assert seen == [1, 2]


def test_who_stops_early_waits_for_nothing() -> None:
    free, asked, ended = threading.Event(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        asked.set()
        free.wait(5)
        ended.set()
        yield 2

    ahead = read_ahead(items())
    assert next(ahead) == 1
    assert asked.wait(20)
    ahead.close()
    assert not ended.is_set()
    free.set()


def test_nothing_at_all() -> None:
    assert list(read_ahead(iter([]))) == []
