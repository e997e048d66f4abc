"""Which version of a request goes out, and how the two sides of a connection find it."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.negotiation import ApiVersionTable, Negotiation, own_range

Served = ApiVersionsResponse.ApiVersion


def test_the_highest_of_both_is_sent() -> None:
    low, high = own_range(ApiKey.FETCH)
    assert ApiVersionTable({ApiKey.FETCH: (0, 99)}).choose(ApiKey.FETCH) == high
    assert ApiVersionTable({ApiKey.FETCH: (0, high - 2)}).choose(ApiKey.FETCH) == high - 2
    assert ApiVersionTable({ApiKey.FETCH: (0, 99)}).choose(ApiKey.FETCH, at_most=12) == 12
    assert ApiVersionTable({ApiKey.FETCH: (0, low)}).choose(ApiKey.FETCH) == low


@pytest.mark.parametrize("announced", [(14, 99), (0, 3), None])
def test_where_there_is_none_an_error_says_so(announced: tuple[int, int] | None) -> None:
    table = ApiVersionTable({} if announced is None else {ApiKey.FETCH: announced})
    with pytest.raises(KafkaError, match="FETCH") as caught:
        table.choose(ApiKey.FETCH, at_most=12, at_least=4)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_unstable_versions_are_not_sent() -> None:
    unstable = [key for key, info in API_INFO.items() if info.latest_version_unstable]
    for key in unstable:
        assert own_range(key)[1] == API_INFO[key].max_version - 1
    assert all(own_range(key)[1] == info.max_version for key, info in API_INFO.items() if key not in unstable)


def test_supports() -> None:
    table = ApiVersionTable.announced([(ApiKey.FETCH, 4, 12)])
    assert [table.supports(ApiKey.FETCH, version) for version in (3, 4, 12, 13)] == [False, True, True, False]
    assert not table.supports(ApiKey.PRODUCE, 0)


def test_who_knows_the_question_is_asked_once() -> None:
    negotiation = Negotiation("1.2")
    question = ApiVersionsRequest.decode(negotiation.question(), negotiation.version)
    assert (question.client_software_name, question.client_software_version) == ("odradek", "1.2")
    answer = ApiVersionsResponse(api_keys=[Served(api_key=1, min_version=4, max_version=18)])
    table = negotiation.answered(memoryview(answer.encode(negotiation.version)))
    assert table is not None
    assert table.ranges == {1: (4, 18)}


def test_who_knows_older_ones_only_is_asked_in_the_version_it_names() -> None:
    negotiation = Negotiation("1.2")
    refusal = ApiVersionsResponse(error_code=35, api_keys=[Served(api_key=18, min_version=0, max_version=2)])
    assert negotiation.answered(memoryview(refusal.encode(0))) is None
    assert negotiation.version == 2
    assert negotiation.question() == b""
    answer = ApiVersionsResponse(api_keys=[Served(api_key=0, min_version=3, max_version=8)])
    table = negotiation.answered(memoryview(answer.encode(2)))
    assert table is not None
    assert table.ranges == {0: (3, 8)}


def test_who_refuses_without_a_version_is_asked_in_the_first_and_then_no_more() -> None:
    negotiation = Negotiation("1.2")
    refusal = memoryview(ApiVersionsResponse(error_code=35).encode(0))
    assert negotiation.answered(refusal) is None
    assert negotiation.version == 0
    with pytest.raises(KafkaError) as caught:
        negotiation.answered(refusal)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_who_refuses_the_version_that_it_names_is_not_asked_for_ever() -> None:
    refusal = ApiVersionsResponse(error_code=35, api_keys=[Served(api_key=18, min_version=0, max_version=4)])
    with pytest.raises(KafkaError):
        Negotiation("1.2").answered(memoryview(refusal.encode(0)))


def test_other_refusals_are_told() -> None:
    negotiation = Negotiation("1.2")
    with pytest.raises(KafkaError) as caught:
        negotiation.answered(memoryview(ApiVersionsResponse(error_code=42).encode(negotiation.version)))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(ProtocolError):
        negotiation.answered(memoryview(b"\0\0\xff"))
