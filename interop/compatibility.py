"""Generator of docs/compatibility.md: `python -m interop.compatibility > docs/compatibility.md`.

The APIs come from `odradek.handlers.table`, the versions of clients from pyproject.toml and the pom files, the names of tests from the
files that `SUITES` names.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from interop.peers import REPOSITORY
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS, Api
from odradek.protocol.api_keys import API_INFO, ApiKey

PAGE: Final = REPOSITORY / "docs" / "compatibility.md"
TESTS: Final = REPOSITORY / "tests" / "interop"


class Suite(NamedTuple):
    """Client, tool or node that tests run against Odradek without a change to it."""

    name: str
    version: str
    """Requirement in pyproject.toml ("aiokafka"), path of a pom file, or a version in words."""
    shows: str
    modules: tuple[str, ...]
    """Names of test modules in tests/interop, without "test_"."""


SUITES: Final = (
    Suite(
        "librdkafka (confluent-kafka)",
        "confluent-kafka",
        "every codec, idempotence, groups of both protocols, transactions, configurations, quotas, TLS, SASL, pushed metrics, the nearest "
        "replica",
        (
            "python_clients",
            "client_expectations",
            "groups",
            "consumer_groups",
            "transactions",
            "configuration",
            "log_directories",
            "quotas",
            "nearest_replica",
            "metrics",
            "sasl_clients",
            "tls_listeners",
            "logins",
        ),
    ),
    Suite(
        "aiokafka",
        "aiokafka",
        "every codec, idempotence, groups, transactions, TLS, SASL, Kerberos",
        ("python_clients", "client_expectations", "groups", "transactions", "sasl_clients", "tls_listeners", "kerberos_clients", "logins"),
    ),
    Suite(
        "kafka-python",
        "kafka-python",
        "every codec, idempotence, groups, transactions, configurations, log directories, TLS, SASL, Kerberos",
        (
            "python_clients",
            "client_expectations",
            "groups",
            "transactions",
            "configuration",
            "log_directories",
            "sasl_clients",
            "tls_listeners",
            "kerberos_clients",
            "logins",
        ),
    ),
    Suite("kcat", "Debian's package", "every codec, headers", ("command_line_clients",)),
    Suite(
        "Kafka's Java clients and scripts",
        "interop/jvm/pom.xml",
        "console, verifiable and performance clients; the scripts for topics, groups, offsets, transactions, configurations, quotas, "
        "features, ACLs, log directories and elections; TLS, SASL, Kerberos",
        (
            "command_line_clients",
            "verifiable_clients",
            "group_tools",
            "transaction_tools",
            "transactions",
            "configuration",
            "quotas",
            "features",
            "acls",
            "log_directories",
            "metrics",
            "nearest_replica",
            "sasl_clients",
            "tls_listeners",
            "kerberos_clients",
            "logins",
        ),
    ),
    Suite(
        "Spark's Kafka connector",
        "interop/official_connector/pom.xml",
        "batch and streaming queries beside those of Odradek's source and sink, on the same topics",
        ("spark_connector", "spark_connector_streams"),
    ),
    Suite(
        "JVM Kafka nodes",
        "interop/jvm/pom.xml",
        "nodes of both kinds in one quorum and in one cluster; log directories that change hands, with groups and transactions",
        (
            "quorum_mixed",
            "brokers_mixed",
            "swaps",
            "directories",
            "group_directories",
            "transaction_directories",
            "coordinator_directories",
            "log_directories",
            "features",
            "acls",
            "quotas",
        ),
    ),
    Suite(
        "JVM Kafka's answers",
        "interop/jvm/pom.xml",
        "the same bytes to both brokers, each version of each API; differences that stay are in [Differences](differences.md)",
        ("differential", "sasl_differential"),
    ),
)

_UNUSED: Final = (ApiKey.CONTROLLED_SHUTDOWN,)
"""APIs that Kafka 4.3 defines and its nodes do not serve."""

_HEAD = """# Compatibility

Which APIs Odradek serves, and which clients and tools its tests run against it. `python -m interop.compatibility > docs/compatibility.md`
writes this page.

## APIs

Odradek serves {served} of the {known} APIs of Kafka 4.3, in the versions of Kafka 4.3. A version in brackets is served only with
`unstable.api.versions.enable=true`. A request for another API or version ends the connection, as in Kafka; ApiVersions is answered with
UNSUPPORTED_VERSION.

"Listeners" are those for clients and brokers (broker) and those of controllers (controller). "Decided by" names the node that makes the
response. A broker forwards a request that the active controller decides.

| API | Key | Versions | Listeners | Decided by |
|---|---|---|---|---|
"""

_MISSING = """
Not supported yet: {missing}.

## Clients, tools and nodes

Each of these runs unmodified. JVM Kafka is the peer for comparisons.

| Client | Version | Tried | Tests |
|---|---|---|---|
"""

_PASSED = """
## Tests that must pass

`make test` and `make interop` run these tests, and fail when one of them fails. None is skipped, and none is expected to fail. No suite of
another project is run: the tests are Odradek's own. Odradek's clients run against JVM Kafka in the same way (`tests/client`,
`test_python_clients`, `test_admin_client`, `test_secured_clients`).

"""


def document() -> str:
    """Return the whole page, in Markdown."""
    return "".join((*_apis(), *_suites(), *_passed()))


def _apis() -> Iterator[str]:
    known = [key for key, info in API_INFO.items() if {"broker", "controller"} & set(info.listeners) and key not in _UNUSED]
    yield _HEAD.format(served=len(APIS), known=len(known))
    for api in APIS:
        listeners = ", ".join(scope for scope in (BROKER, CONTROLLER) if api.is_served_on(scope))
        yield f"| {API_INFO[api.api_key].name} | {int(api.api_key)} | {_versions(api)} | {listeners} | {_decided_by(api)} |\n"
    served = {api.api_key for api in APIS}
    yield _MISSING.format(missing=", ".join(f"{API_INFO[key].name} ({int(key)})" for key in known if key not in served))


def _versions(api: Api) -> str:
    first, last = api.min_version, api.max_version
    if API_INFO[api.api_key].latest_version_unstable:
        return f"{first}-{last - 1} ({last})"
    return str(first) if first == last else f"{first}-{last}"


def _decided_by(api: Api) -> str:
    names = {scope: scope for scope in api.deciders}
    if api.forwarded or any(each.on_active_controller for each in api.deciders.values()):
        names[CONTROLLER] = "active controller"
    return ", ".join(names[scope] for scope in (BROKER, CONTROLLER) if scope in names)


def _suites() -> Iterator[str]:
    for suite in SUITES:
        modules = ", ".join(f"`{module}`" for module in suite.modules)
        yield f"| {suite.name} | {_version(suite.version)} | {suite.shows} | {modules} |\n"


def _version(source: str) -> str:
    if source.endswith("pom.xml"):
        text = (REPOSITORY / source).read_text()
        pinned = re.search(r"<kafka\.version>(.+?)<", text) or re.search(r"<dependency>.*?<version>(.+?)<", text, re.DOTALL)
        assert pinned, source
        return pinned[1]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for requirement in project["optional-dependencies"]["dev"]:
        name, equals, version = requirement.partition("==")
        if equals and name.partition("[")[0] == source:
            return str(version)
    return source


def _passed() -> Iterator[str]:
    yield _PASSED
    for module in dict.fromkeys(module for suite in SUITES for module in suite.modules):
        names = ", ".join(f"`{name}`" for name in names_of_tests(TESTS / f"test_{module}.py"))
        yield f"- `{module}`: {names}\n"


def names_of_tests(path: Path) -> list[str]:
    """Return the names of a module's test functions without "test_", in their order."""
    functions = (node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [node.name.removeprefix("test_") for node in functions if node.name.startswith("test_")]


if __name__ == "__main__":
    sys.stdout.write(document())
