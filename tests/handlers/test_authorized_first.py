"""Whoever has no right is refused before anybody looks at values: nothing is opened, compiled or followed, on either listener.

The requests are those of `interop.differential.access_samples`, each text in them replaced in turn, and changes of every key that can be
set at run time. What a value makes the node do is seen by an audit hook of the interpreter and by spies around what compiles and judges.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import re2

from interop.differential.access_samples import GONE1, GONE2, SAMPLES, Facts
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.config.dynamic import DYNAMIC_KEYS, NEVER_IN_A_FILE
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message, Struct
from odradek.providers.readers import EnvironmentReader
from odradek.security.principal import ANONYMOUS, Principal
from tests.handlers.access_world import AccessWorld, in_world
from tests.handlers.support import Broker
from tests.held_jobs import HeldJobs

MARK = "hostile-mark"
SECRET = "hush-hush"
HOSTILE = (f"/nowhere/{MARK}", f"({MARK})(a+)+$", f"${{env:{MARK}}}", f"${{file:/nowhere/{MARK}:key}}")
NOBODY = Principal("User", "nobody")
_PROVIDERS = "org.apache.kafka.common.config.provider"

Seen = list[str]
_watching: list[Seen] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Hooks stay for the life of the interpreter; this one does nothing unless somebody watches."""
    if _watching and event in ("open", "os.listdir", "os.scandir", "compile", "exec") and MARK in str(args[0]):
        _watching[-1].append(f"{event} {args[0]}")


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[Seen]:
    """What is done meanwhile about a text with the mark in it."""
    seen: Seen = []

    def spy(target: Any, name: str, of: Callable[..., object]) -> None:
        real = getattr(target, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            if MARK in repr(of(*args, **kwargs)):
                seen.append(f"{getattr(target, '__name__', target)}.{name}")
            return real(*args, **kwargs)

        patch.setattr(target, name, called)

    with pytest.MonkeyPatch.context() as patch:
        for module in (re, re2):
            spy(module, "compile", lambda pattern, *_, **__: pattern)
        for name in ("stat", "lstat", "access", "readlink"):
            spy(os, name, lambda path, *_, **__: path)
        spy(DynamicBrokerConfig, "check", lambda self, settings, **_: settings)
        spy(EnvironmentReader, "get", lambda *args: args)
        patch.setenv(MARK, SECRET)
        _watching.append(seen)
        try:
            yield seen
        finally:
            _watching.pop()


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there are texts in a message."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from texts(entry, (*path, index))
    elif isinstance(value, Struct):
        for member in type(value).FIELDS:
            yield from texts(getattr(value, member.name), (*path, member.name))


def replaced(request: Message, path: tuple[Any, ...], text: str) -> Message:
    changed = copy.deepcopy(request)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step] if isinstance(step, int) else getattr(holder, step)
    if isinstance(path[-1], int):
        holder[path[-1]] = text
    else:
        setattr(holder, path[-1], text)
    return changed


def mutated(scope: str, api_key: ApiKey, version: int, facts: Facts) -> Iterator[Message]:
    """Each request of the samples, with one text after the other replaced."""
    if api_key in SAMPLES[scope]:
        for _, request in SAMPLES[scope][api_key](version, facts):
            for path in texts(request):
                for text in HOSTILE:
                    yield replaced(request, path, text)


def with_patterns(api_key: ApiKey, version: int) -> Iterator[Message]:
    """Texts that no sample has."""
    pattern = HOSTILE[1]
    if api_key is ApiKey.LIST_TRANSACTIONS and version >= 2:
        yield request_class(api_key)(transactional_id_pattern=pattern)
    if api_key is ApiKey.CONSUMER_GROUP_HEARTBEAT and version >= 1:
        yield request_class(api_key)(
            group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_regex=pattern, topic_partitions=[]
        )


def settings() -> Iterator[tuple[int, str, dict[str, str]]]:
    """Resource type, name, and values that would have to be looked at."""
    keys = sorted({*DYNAMIC_KEYS, *NEVER_IN_A_FILE, "ssl.principal.mapping.rules", "sasl.kerberos.principal.to.local.rules"})
    stores = [f"listener.name.{name}.ssl.{key}" for name in ("plaintext", "x") for key in ("keystore.location", "truststore.location")]
    for node in ("1", "", "+1", "01"):
        for text in HOSTILE:
            yield RESOURCE_BROKER, node, dict.fromkeys([*keys, *stores], text)
        for name, kind in (("e", "EnvVarConfigProvider"), ("f", "FileConfigProvider"), ("d", "DirectoryConfigProvider")):
            of = {"e": "", "f": f"/nowhere/{MARK}:", "d": f"/nowhere/{MARK}:"}[name]
            yield (
                RESOURCE_BROKER,
                node,
                {
                    "config.providers": name,
                    f"config.providers.{name}.class": f"{_PROVIDERS}.{kind}",
                    f"config.providers.{name}.param.allowlist.pattern": HOSTILE[1],
                    f"config.providers.{name}.param.allowed.paths": HOSTILE[0],
                    "log.retention.ms": f"${{{name}:{of}{MARK}}}",
                },
            )
    yield RESOURCE_BROKER_LOGGER, "1", {"root": HOSTILE[1]}
    yield RESOURCE_CLIENT_METRICS, "subscription", {"match": f"client_id={HOSTILE[1]}"}
    yield RESOURCE_TOPIC, "acc.a", {"retention.ms": HOSTILE[2], "leader.replication.throttled.replicas": HOSTILE[1]}
    yield RESOURCE_GROUP, "acc.g1", {"consumer.session.timeout.ms": HOSTILE[2]}


def changes(api_key: ApiKey) -> Iterator[Message]:
    message: Any = request_class(api_key)
    for kind, name, values in settings():
        for validate_only in (True, False):
            configs = [message.AlterableConfig(name=key, value=value) for key, value in values.items()]
            resource = message.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            yield message(resources=[resource], validate_only=validate_only)


_CHANGED = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def requests(scope: str, api_key: ApiKey, version: int, facts: Facts) -> Iterator[Message]:
    yield from mutated(scope, api_key, version, facts)
    yield from with_patterns(api_key, version)
    if api_key in _CHANGED:
        yield from changes(api_key)


async def looked_at(world: AccessWorld, scope: str, api_key: ApiKey, principal: Principal) -> tuple[set[str], set[int]]:
    """What the node does about the hostile texts of somebody, and the codes that changes of configurations are answered with."""
    api = next(api for api in APIS if api.api_key is api_key)
    found: set[str] = set()
    codes: set[int] = set()
    for version in {api.min_version, api.max_version}:
        for request in requests(scope, api_key, version, Facts(world.topic_ids, principal=principal.name)):
            with watched() as seen:
                try:
                    answer = await world.ask(api_key, version, request, principal, scope)
                except ProtocolError:
                    continue  # it closes the connection
            found |= {f"{each} for {request!r:.300}" for each in seen}
            if SECRET in repr(answer):
                found.add(f"the environment is in the answer to {request!r:.300}")
            if api_key in _CHANGED:
                codes |= {row.error_code for row in answer.responses}
    return found, codes


@pytest.mark.parametrize("scope", [BROKER, CONTROLLER])
@pytest.mark.timeout(120)
def test_nothing_is_looked_at_for_somebody_without_a_right(scope: str) -> None:
    async def story(world: AccessWorld) -> tuple[dict[str, set[str]], dict[str, set[int]]]:
        found: dict[str, set[str]] = {}
        codes: dict[str, set[int]] = {}
        for topic in (GONE1, GONE2):
            await world.create(topic)
        for api in APIS:
            if api.is_served_on(scope):
                found[api.api_key.name], codes[api.api_key.name] = await looked_at(world, scope, api.api_key, NOBODY)
        return {name: seen for name, seen in found.items() if seen}, codes

    found, codes = in_world(story)
    assert found == {}
    refusals = {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,  # of a resource type that is none
    }
    for api_key in _CHANGED:
        assert codes[api_key.name] <= refusals


def test_of_somebody_who_may_values_are_looked_at() -> None:
    """So that the spies are known to see something."""

    async def story(world: AccessWorld) -> dict[ApiKey, set[str]]:
        keys = (*_CHANGED, ApiKey.LIST_TRANSACTIONS)
        return {api_key: (await looked_at(world, BROKER, api_key, ANONYMOUS))[0] for api_key in keys}

    found = in_world(story)
    kinds = {each.split(" ")[0] for seen in found.values() for each in seen}
    assert {"DynamicBrokerConfig.check", "re2.compile", "os.stat"} <= kinds
    assert all(found.values())


@pytest.mark.parametrize("api_key", _CHANGED)
@pytest.mark.parametrize("name", ["1", ""])
def test_values_are_looked_at_in_a_thread(api_key: ApiKey, name: str) -> None:
    """The answer waits for it, and says what was found; another resource of the request is answered with it."""
    broker = Broker()
    jobs: Any = HeldJobs()
    broker.services.jobs = jobs
    message: Any = request_class(api_key)

    def resource(kind: int, name: str, **configs: str) -> Any:
        rows = [message.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        return message.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)

    request = message(resources=[resource(RESOURCE_BROKER, name, log_retention_ms=MARK), resource(99, "x", a="b")], validate_only=True)
    with watched() as seen:
        answer = broker.ask(request)
        assert isinstance(answer, Deferred)
        assert seen == []
        (job,) = jobs.held
        job()
        assert seen == ["DynamicBrokerConfig.check"]
    rows = answer.result().responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert "log.retention.ms" in rows[0].error_message
    assert rows[1].error_message == "Unknown resource type 99"


def test_a_check_that_fails_is_an_error_of_the_request() -> None:
    broker = Broker()

    def check(*_: object, **__: object) -> None:
        raise MemoryError

    config = IncrementalAlterConfigsRequest.AlterableConfig(name="log.retention.ms", value="1")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=RESOURCE_BROKER, resource_name="1", configs=[config])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamicBrokerConfig, "check", check)
        (row,) = broker.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
