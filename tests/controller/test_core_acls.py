"""ACLs in the controller: what is written, what is there already, what is refused, and what a filter removes."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.acls import create_acls, delete_acls
from odradek.security.acls import AccessControlEntry, AclFilter
from odradek.security.resources import Operation, ResourceType
from tests.controller.harness import Controller

READ = AccessControlEntry(2, "t", 3, "User:alice", "*", 3, 3)
WRITE = READ._replace(operation=4)
PREFIXED = READ._replace(resource_name="t", pattern_type=4)
EVERYTHING = AclFilter(1, None, 1, None, None, 1, 1)


def held(controller: Controller) -> list[AccessControlEntry]:
    acls = list(controller.core.state.acls.values())
    assert sorted(acls) == sorted(controller.core.state.acl_ids.keys()) == sorted(controller.image().acls.entries.values())
    return sorted(acls)


def test_an_acl_is_written_once_however_often_it_is_asked_for() -> None:
    controller = Controller()
    assert controller.run(lambda context: create_acls(context, [READ, WRITE, READ])) == [None, None, None]
    end = len(controller.log)
    assert held(controller) == sorted([READ, WRITE])
    assert controller.run(lambda context: create_acls(context, [WRITE, READ])) == [None, None]
    assert len(controller.log) == end


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -7}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_written(changes: dict[str, object], text: str) -> None:
    controller = Controller()
    wrong = READ._replace(**changes)  # type: ignore[arg-type]
    first, error, last = controller.run(lambda context: create_acls(context, [READ, wrong, WRITE]))
    assert (first, last) == (None, None)
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert (error.message or "").startswith(text)
    assert held(controller) == sorted([READ, WRITE])


def test_filters_remove_what_they_mean_and_say_so_each() -> None:
    controller = Controller()
    controller.run(lambda context: create_acls(context, [READ, WRITE, PREFIXED]))
    matching = EVERYTHING._replace(resource_type=2, resource_name="tx", pattern_type=2)
    reads = EVERYTHING._replace(operation=3)
    removals = controller.run(lambda context: delete_acls(context, [matching, reads, EVERYTHING._replace(operation=99)]))
    assert [sorted(removal.removed) for removal in removals] == [[PREFIXED], sorted([READ, PREFIXED]), []]
    assert removals[2].error is not None
    assert removals[2].error.message == "Unknown entryFilter."
    assert held(controller) == [WRITE]


def test_one_request_adds_and_removes_ten_thousand_at_most() -> None:
    controller = Controller()
    many = [READ._replace(resource_name=f"t{number}") for number in range(10_001)]
    with pytest.raises(KafkaError) as refused:
        controller.run(lambda context: create_acls(context, many))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert held(controller) == []
    controller.run(lambda context: create_acls(context, many[:10_000]))
    controller.run(lambda context: create_acls(context, many[10_000:]))
    with pytest.raises(KafkaError, match="Cannot remove more than 10000 acls") as too_many:
        controller.run(lambda context: delete_acls(context, [EVERYTHING]))
    assert too_many.value.code is ErrorCode.INVALID_REQUEST
    assert len(held(controller)) == 10_001


def test_what_a_client_may_do_ends_with_its_operation() -> None:
    controller = Controller()
    context = controller.core.context
    with context.on_behalf_of(lambda operation, resource, name: name == "mine"):
        assert context.allows(Operation.DELETE, ResourceType.TOPIC, "mine")
        assert not context.allows(Operation.DELETE, ResourceType.TOPIC, "yours")
    assert context.allows(Operation.DELETE, ResourceType.TOPIC, "yours")
