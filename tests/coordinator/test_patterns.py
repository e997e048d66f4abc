"""Patterns from clients: whole names, linear time, refused when they are no patterns."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.patterns import compile_pattern


def test_whole_names_match() -> None:
    matches = compile_pattern("orders-.*|bills")
    assert [matches(name) for name in ("orders-1", "bills", "bills-2", "old-orders-1")] == [True, True, False, False]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]", "(?=x)", "x" * 10_001, "((a{500}){500}){500}", "a{900}" * 300])
def test_what_is_no_pattern_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as error:
        compile_pattern(pattern)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_would_take_a_backtracking_engine_ages() -> None:
    assert not compile_pattern("(a+)+b")("a" * 50_000)
