"""No API forgets to ask: every line of the table of APIs has one in `handlers.access`, and every check there is made."""

from __future__ import annotations

import pytest

from interop.differential.access_samples import NOT_ASKED, SAMPLES, UNSAMPLED
from odradek.handlers.access import ACCESS, declared
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import ApiKey
from odradek.security.resources import Operation, ResourceType
from tests.handlers.access_world import World, asked_checks, in_world, problem_of


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
    async def story(world: World) -> list[str]:
        problems: list[str] = []
        for scope, api_key, check in asked_checks():
            problem = await problem_of(world, scope, api_key, check)
            if problem is not None:
                problems.append(f"{api_key.name} on {scope} listeners, {check.operation.name} on {check.resource.name}: {problem}")
        return problems

    assert in_world(story) == []
