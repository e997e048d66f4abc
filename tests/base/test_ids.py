"""Ids as Kafka draws, writes and reads them."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from odradek.base.ids import random_uuid, uuid_from_string, uuid_to_string


def test_random_ids_have_version_4_and_never_begin_with_a_dash() -> None:
    """One in 64 would (Uuid.randomUuid draws again, so that an id on a command line is not taken for an option)."""
    rng = random.Random(1)
    ids = [random_uuid(rng) for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert {value.version for value in ids} == {4}
    assert not [value for value in ids if uuid_to_string(value).startswith("-")]


def test_the_text_of_an_id_is_kafkas() -> None:
    value = UUID("01234567-89ab-4def-8123-456789abcdef")
    assert uuid_to_string(value) == "ASNFZ4mrTe-BI0VniavN7w"
    assert uuid_from_string("ASNFZ4mrTe-BI0VniavN7w") == value
    assert uuid_from_string("ASNFZ4mrTe-BI0VniavN7w==") == value


@pytest.mark.parametrize("text", ["", "abc", "ASNFZ4mrTe-BI0VniavN", "ASNFZ4mrTe-BI0VniavN7wAA", "x" * 25])
def test_what_is_not_16_bytes_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"UUID|padding"):
        uuid_from_string(text)
