"""Quotas in the controller: what may be set for whom, and what becomes of it."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core import context as controller_context
from odradek.controller.core.client_quotas import alter_client_quotas, alter_client_quotas_error
from odradek.controller.core.topics import create_partitions, create_topics, delete_topics
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.metadata_records import ClientQuotaRecord
from tests.controller.harness import Controller

Entity = dict[str, str | None]
RATE = "producer_byte_rate"


def entry(entity: Entity, *ops: tuple[str, float | None]) -> AlterClientQuotasRequest.EntryData:
    return AlterClientQuotasRequest.EntryData(
        entity=[AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def ask(controller: Controller, *entries: AlterClientQuotasRequest.EntryData, validate_only: bool = False) -> list[tuple[int, str | None]]:
    answer = controller.ask(alter_client_quotas, AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only))
    return [(each.error_code, each.error_message) for each in answer.entries]


def quotas(controller: Controller) -> dict[Any, dict[str, float]]:
    return {entity: dict(values) for entity, values in controller.core.context.state.client_quotas.items()}


def test_quotas_are_set_changed_and_removed_with_a_record_for_each_change() -> None:
    controller = Controller()
    before = len(controller.log)
    assert ask(controller, entry({"user": "alice", "client-id": None}, (RATE, 1000.0), ("request_percentage", 2.5))) == [(0, None)]
    owner = (("client-id", None), ("user", "alice"))
    assert quotas(controller) == {owner: {RATE: 1000.0, "request_percentage": 2.5}}
    assert len(controller.log) == before + 2
    assert ask(controller, entry({"user": "alice", "client-id": None}, (RATE, 1000.0))) == [(0, None)]
    assert len(controller.log) == before + 2, "what is so already needs no record"
    assert ask(controller, entry({"user": "alice", "client-id": None}, (RATE, None), ("request_percentage", 3.0))) == [(0, None)]
    assert quotas(controller) == {owner: {"request_percentage": 3.0}}
    assert ask(controller, entry({"user": "alice", "client-id": None}, (RATE, None), ("request_percentage", None))) == [(0, None)]
    assert quotas(controller) == {}
    removal = controller.log[-1].message
    assert isinstance(removal, ClientQuotaRecord)
    assert removal.remove
    assert removal.value == 0


def test_what_is_only_validated_changes_nothing() -> None:
    controller = Controller()
    before = len(controller.log)
    assert ask(controller, entry({"user": "a"}, (RATE, 1.0)), entry({"user": "b"}, (RATE, 0.5)), validate_only=True) == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, f"{RATE} cannot be a fractional value."),
    ]
    assert len(controller.log) == before


@pytest.mark.parametrize(
    ("entity", "ops", "problem"),
    [
        ({}, [(RATE, 1.0)], "Invalid empty client quota entity"),
        ({"user": ""}, [(RATE, 1.0)], "Empty user not supported"),
        ({"group": "g"}, [(RATE, 1.0)], "Unhandled client quota entity type: group"),
        (
            {"ip": "10.0.0.1", "user": "a"},
            [("connection_creation_rate", 1.0)],
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ({"ip": "no such host"}, [("connection_creation_rate", 1.0)], "no such host is not a valid IP or resolvable host."),
        ({"ip": "10.0.0.1"}, [(RATE, 1.0)], f"Invalid configuration key {RATE}"),
        ({"user": "a"}, [("connection_creation_rate", 1.0)], "Invalid configuration key connection_creation_rate"),
        ({"user": "a"}, [(RATE, -1.0)], f"Quota {RATE} must be greater than 0"),
        ({"user": "a"}, [(RATE, nan)], f"Quota {RATE} must be greater than 0"),
        ({"user": "a"}, [(RATE, 1.0), (RATE, 2.0)], "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"),
    ],
)
def test_what_cannot_be_is_refused(entity: Entity, ops: list[tuple[str, float | None]], problem: str) -> None:
    controller = Controller()
    assert ask(controller, entry(entity, *ops)) == [(ErrorCode.INVALID_REQUEST, problem)]
    assert quotas(controller) == {}


def test_an_entity_that_is_named_twice_is_changed_once_and_fails() -> None:
    controller = Controller()
    answer = ask(controller, entry({"user": None}, (RATE, 1.0)), entry({"user": None}, (RATE, 2.0)), entry({"user": "b"}, (RATE, 3.0)))
    assert answer == [(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"), (0, None)]
    assert quotas(controller) == {(("user", None),): {RATE: 1.0}, (("user", "b"),): {RATE: 3.0}}


def test_what_is_not_there_can_be_removed_whatever_it_is_called() -> None:
    assert ask(Controller(), entry({"user": "a"}, ("no such key", None))) == [(0, None)]


def test_too_many_quotas_at_once_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_context, "MAX_RECORDS_PER_OPERATION", 3)
    controller = Controller()
    with pytest.raises(KafkaError) as refused:
        ask(controller, *[entry({"user": str(number)}, (RATE, 1.0)) for number in range(4)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert quotas(controller) == {}


def test_an_error_of_the_whole_request_is_told_for_each_entity() -> None:
    request = AlterClientQuotasRequest(entries=[entry({"user": "a"}, (RATE, 1.0)), entry({"user": None}, (RATE, 1.0))])
    answer = alter_client_quotas_error(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"))
    assert [(each.error_code, each.error_message, each.entity[0].entity_name) for each in answer.entries] == [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no", "a"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no", None),
    ]


# -- mutations are counted ----------------------------------------------------------------------------------------------------------------


class Counter:
    """Allows so many partitions in all."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.counted: list[int] = []

    def __call__(self, partitions: int) -> None:
        if self.left < partitions:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self.left -= partitions
        self.counted.append(partitions)


def operate(controller: Controller, operation: Any, request: Any, counter: Counter, version: int) -> Any:
    def counted(context: Any, asked: Any, asked_version: int) -> Any:
        with context.on_behalf_of(lambda *_: True, counter):
            return operation(context, asked, asked_version)

    return controller.ask(counted, request, version)


def creation(*topics: tuple[str, int]) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics]
    )


def test_partitions_that_are_created_and_deleted_count() -> None:
    controller = Controller()
    controller.join(1)
    counter = Counter(9)
    answer = operate(controller, create_topics, creation(("a", 3), ("b", 7), ("c", 2), ("a/b", 1)), counter, 7)
    codes = {each.name: each.error_code for each in answer.topics}
    assert codes == {"a": 0, "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED, "c": 0, "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert counter.counted == [3, 2], "what fails for another reason costs nothing"
    more = CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="c", count=6, assignments=None)])
    assert [each.error_code for each in operate(controller, create_partitions, more, counter, 3).results] == [0]
    assert counter.counted == [3, 2, 4]
    deletion = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in ("a", "gone")])
    answer = operate(controller, delete_topics, deletion, counter, 6)
    assert {each.name: (each.error_code, each.error_message) for each in answer.responses}["a"] == (
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        "The throttling quota has been exceeded.",
    )
    assert controller.core.context.state.topic("a") is not None
    answer = operate(controller, delete_topics, deletion, Counter(3), 6)
    assert {each.name: each.error_code for each in answer.responses}["a"] == 0
