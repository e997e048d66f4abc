"""The table of APIs names functions that exist and can answer, within what the protocol has; what listeners serve follows from it."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS, Api
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.registry import request_class, response_class
from odradek.server.requests.dispatch import build_routes

PARTS = {BROKER: "BrokerParts", CONTROLLER: "ControllerParts"}
by_name = pytest.mark.parametrize("api", APIS, ids=lambda api: api.api_key.name)


def test_an_api_is_declared_once_and_in_the_order_of_the_keys() -> None:
    keys = [int(api.api_key) for api in APIS]
    assert keys == sorted(set(keys))


@by_name
def test_what_answers_takes_the_message_of_its_api(api: Api) -> None:
    request, response = request_class(api.api_key).__name__, response_class(api.api_key).__name__
    assert api.deciders
    for decider in api.deciders.values():
        signature = inspect.signature(getattr(import_module(decider.module), decider.function))
        types = [parameter.annotation for parameter in signature.parameters.values()]
        if decider.on_active_controller:
            assert types == ["ControllerContext", request, "int"]
            assert signature.return_annotation == f"ControllerResult[{response}]"
        else:
            served = [scope for scope, each in api.deciders.items() if each == decider]
            assert types == ["RequestContext", request, PARTS[served[0]] if len(served) == 1 else "Parts"]
            assert response in signature.return_annotation


@by_name
def test_an_error_has_a_shape(api: Api) -> None:
    for decider in api.deciders.values():
        module = import_module(decider.module)
        assert hasattr(module, decider.error_function) or hasattr(response_class(api.api_key)(), "error_code")


@by_name
def test_an_api_stays_within_what_the_protocol_has(api: Api) -> None:
    info = API_INFO[api.api_key]
    assert info.min_version <= api.min_version <= api.max_version <= info.max_version
    assert {scope for scope in (BROKER, CONTROLLER) if api.is_served_on(scope)} <= set(info.listeners)
    assert not api.forwarded or CONTROLLER in api.deciders


def test_only_produce_is_advertised_below_what_is_served() -> None:
    assert [api.api_key for api in APIS if api.advertised_from != api.min_version] == [ApiKey.PRODUCE]


@pytest.mark.parametrize(
    ("key", "on_broker", "on_controller"),
    [
        (ApiKey.PRODUCE, "handle", None),
        (ApiKey.VOTE, None, "handle"),
        (ApiKey.CREATE_TOPICS, "forwarded", "create_topics"),
        (ApiKey.ALTER_CONFIGS, "handle", "alter_configs"),
        (ApiKey.ALTER_PARTITION, None, "alter_partition"),
        (ApiKey.API_VERSIONS, "handle", "handle"),
    ],
)
def test_listeners_serve_what_the_table_says(key: ApiKey, on_broker: str | None, on_controller: str | None) -> None:
    for scope, expected in ((BROKER, on_broker), (CONTROLLER, on_controller)):
        routes, ranges = build_routes(scope, unstable=False)
        route = routes.get(key)
        assert (route is not None) == (key in [line.api_key for line in ranges]) == (expected is not None)
        if route is not None:
            assert ("forwarded" if route.forward else route.decider.function) == expected


def test_an_unstable_version_is_only_served_when_asked_for() -> None:
    stable = {line.api_key: line for line in build_routes(BROKER, unstable=False)[1]}
    unstable = {line.api_key: line for line in build_routes(BROKER, unstable=True)[1]}
    assert stable[ApiKey.INIT_PRODUCER_ID].max_version == 5
    assert unstable[ApiKey.INIT_PRODUCER_ID].max_version == 6
    assert stable[ApiKey.PRODUCE].min_version == 0
