"""No API forgets to ask: every line of the table of APIs has one in `handlers.access`, and every check there is made."""

from __future__ import annotations

from itertools import groupby

import pytest

from interop.differential.access_samples import NOT_ASKED, SAMPLES, UNSAMPLED
from odradek.base.errors import ErrorCode
from odradek.handlers.access import ACCESS, AUTHORIZED_OPERATIONS, Access, Check, declared
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import ApiKey
from odradek.security.resources import Operation, ResourceType
from tests.handlers import kafka_access
from tests.handlers.access_world import AccessWorld, asked_checks, in_world, problem_of


def test_every_api_says_what_it_checks() -> None:
    for api in APIS:
        for scope in api.deciders:
            assert api.api_key in ACCESS[scope], f"{api.api_key.name} on {scope} listeners has no line in handlers/access.py"


def test_a_line_has_checks_or_a_reason() -> None:
    for scope, apis in ACCESS.items():
        assert list(apis) == sorted(apis), f"the lines of {scope} listeners are not in order"
        for api_key, access in apis.items():
            assert bool(access.checks) != bool(access.free), f"{api_key.name} on {scope} listeners"


def test_every_check_has_a_sample_that_makes_it() -> None:
    served = {(scope, api.api_key) for api in APIS for scope in api.deciders}
    for scope, apis in ACCESS.items():
        for api_key, access in apis.items():
            if access.checks and (scope, api_key) in served and api_key not in NOT_ASKED:
                assert api_key in SAMPLES[scope], f"{api_key.name} on {scope} listeners"
    assert len(UNSAMPLED) == 3


def test_only_what_is_declared_can_be_asked() -> None:
    assert declared("controller", ApiKey.CREATE_TOPICS, Operation.CREATE, ResourceType.TOPIC)
    with pytest.raises(KeyError, match="CREATE_TOPICS does not declare DELETE on TOPIC"):
        declared("controller", ApiKey.CREATE_TOPICS, Operation.DELETE, ResourceType.TOPIC)


@pytest.mark.timeout(120)
def test_every_check_is_made_and_told_as_declared() -> None:
    async def story(world: AccessWorld) -> list[str]:
        problems: list[str] = []
        for scope, api_key, check in asked_checks():
            problem = await problem_of(world, scope, api_key, check)
            if problem is not None:
                problems.append(f"{api_key.name} on {scope} listeners, {check.operation.name} on {check.resource.name}: {problem}")
        return problems

    assert in_world(story) == []


# -- beside Kafka's own table ------------------------------------------------------------------------------------------------------------


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _told(check: Check) -> str:
    resource = _camel(check.resource.name)
    told = f"{_camel(check.operation.name)} {resource}"
    if check.error is ErrorCode.NONE:
        told += " hidden"
    elif check.error.name != kafka_access.ERRORS[resource]:
        told += f" {check.error.name}"
    return told + " unlogged" * check.quiet


def _line(access: Access) -> str:
    alternatives = groupby(enumerate(access.checks), lambda each: each[1].alternative or each[0])
    return "; ".join(" or ".join(_told(check) for _, check in checks) for _, checks in alternatives) or "nothing"


@pytest.mark.parametrize(("scope", "table"), [("broker", kafka_access.BROKER_LISTENER), ("controller", kafka_access.CONTROLLER_LISTENER)])
def test_what_is_asked_of_clients_is_what_kafka_asks(scope: str, table: str) -> None:
    kafkas = dict(line.split(": ", 1) for line in table.strip().splitlines())
    assert {api_key.name: _line(access) for api_key, access in ACCESS[scope].items()} == kafkas


def test_what_is_checked_for_the_whole_request_is_asked_of_nothing_that_it_names() -> None:
    """A check of a name cannot be made before the handler has seen the request."""
    for apis in ACCESS.values():
        for access in apis.values():
            assert {check.resource for check in access.required} <= {ResourceType.CLUSTER}


def test_operations_on_resources_are_kafkas() -> None:
    ours = {_camel(resource.name): {_camel(each.name) for each in operations} for resource, operations in AUTHORIZED_OPERATIONS.items()}
    assert ours == {resource: set(operations.split()) for resource, operations in kafka_access.OPERATIONS.items()}
