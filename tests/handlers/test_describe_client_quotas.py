"""DescribeClientQuotas: which entities a filter matches, as KIP-546 has it."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.protocol.messages.metadata_records import ClientQuotaRecord
from tests.handlers.support import Broker

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

ALICE = (("user", "alice"),)
ALICES_APP = (("client-id", "app"), ("user", "alice"))
ANY_USER = (("user", None),)
APP = (("client-id", "app"),)
ADDRESS = (("ip", "10.0.0.1"),)


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    for entity in (ALICE, ALICES_APP, ANY_USER, APP, ADDRESS):
        parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        broker.apply(ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=1024.0, remove=False))
    return broker


def ask(broker: Broker, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    parts = [DescribeClientQuotasRequest.ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in components]
    return broker.ask(DescribeClientQuotasRequest(components=parts, strict=strict))


def found(answer: Any) -> list[tuple[tuple[str, str | None], ...]]:
    assert answer.error_code == 0
    return [tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)) for entry in answer.entries]


@pytest.mark.parametrize(
    ("components", "loose", "strict"),
    [
        ((), [ALICE, ALICES_APP, ANY_USER, APP, ADDRESS], []),
        ((("user", EXACT, "alice"),), [ALICE, ALICES_APP], [ALICE]),
        ((("user", DEFAULT, None),), [ANY_USER], [ANY_USER]),
        ((("user", SPECIFIED, None),), [ALICE, ALICES_APP, ANY_USER], [ALICE, ANY_USER]),
        ((("user", SPECIFIED, None), ("client-id", EXACT, "app")), [ALICES_APP], [ALICES_APP]),
        ((("client-id", SPECIFIED, None),), [ALICES_APP, APP], [APP]),
        ((("ip", SPECIFIED, None),), [ADDRESS], [ADDRESS]),
        ((("user", EXACT, "bob"),), [], []),
    ],
)
def test_a_filter_matches(broker: Broker, components: Any, loose: list[Any], strict: list[Any]) -> None:
    assert sorted(map(str, found(ask(broker, *components)))) == sorted(map(str, loose))
    assert sorted(map(str, found(ask(broker, *components, strict=True)))) == sorted(map(str, strict))


def test_all_quotas_of_an_entity_are_shown_until_they_are_removed(broker: Broker) -> None:
    entity = [ClientQuotaRecord.EntityData(entity_type="user", entity_name="alice")]
    broker.apply(ClientQuotaRecord(entity=entity, key="request_percentage", value=12.5, remove=False))
    (entry,) = ask(broker, ("user", EXACT, "alice"), strict=True).entries
    assert sorted((value.key, value.value) for value in entry.values) == [("producer_byte_rate", 1024.0), ("request_percentage", 12.5)]
    for key in ("request_percentage", "producer_byte_rate"):
        broker.apply(ClientQuotaRecord(entity=entity, key=key, remove=True))
    assert found(ask(broker, ("user", EXACT, "alice"), strict=True)) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ((("", EXACT, "a"),), ErrorCode.INVALID_REQUEST),
        ((("group", EXACT, "a"),), ErrorCode.UNSUPPORTED_VERSION),
        ((("user", EXACT, None),), ErrorCode.INVALID_REQUEST),
        ((("user", DEFAULT, "a"),), ErrorCode.INVALID_REQUEST),
        ((("user", SPECIFIED, "a"),), ErrorCode.INVALID_REQUEST),
        ((("user", 3, None),), ErrorCode.INVALID_REQUEST),
        ((("user", SPECIFIED, None), ("user", EXACT, "a")), ErrorCode.INVALID_REQUEST),
        ((("ip", SPECIFIED, None), ("user", SPECIFIED, None)), ErrorCode.INVALID_REQUEST),
        ((("client-id", EXACT, "a"), ("ip", DEFAULT, None)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_means_nothing_is_refused_and_lists_nothing(broker: Broker, components: Any, code: ErrorCode) -> None:
    answer = ask(broker, *components)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message
