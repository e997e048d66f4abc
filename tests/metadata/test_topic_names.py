"""Names of topics: which are refused, by the rules of Kafka's `Topic.validate`."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.topic_names import check_topic_name


@pytest.mark.parametrize("name", ["a", "...", "A.b_c-9", "a" * 249])
def test_names_of_the_legal_characters_are_taken(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "../etc", "/a", "a/b", "a\0", "a b", "é", "a\n"])
def test_a_topic_is_no_path_and_has_no_other_characters(name: str) -> None:
    with pytest.raises(KafkaError) as error:
        check_topic_name(name)
    assert error.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
