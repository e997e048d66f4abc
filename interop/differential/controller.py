"""The requests that are compared on the controller listener.

Those of `raft.py`, `registrations.py` and `envelopes.py`, and what clients ask of a controller directly. No broker checks changes of
configurations then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.case import Case
from interop.differential.cases import CASES
from interop.differential.envelopes import envelope
from interop.differential.peer import Peer
from interop.differential.raft import RAFT_CASES, snapshots
from interop.differential.registrations import REGISTRATION_CASES, clear, synced
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata import MetadataRequest

KEPT = ("plain", "three", "filled", "configured")
"""The topics that the cases use."""


def fill_controller(peer: Peer) -> None:
    """The topics that the cases use are there, and no others: those that clients have asked for are made again. There is a snapshot."""
    known = peer.broker.call(ApiKey.METADATA, 12, MetadataRequest(topics=None)).topics
    doomed = [topic.name for topic in known if topic.name not in KEPT and not topic.is_internal]
    clear(peer)
    peer.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=doomed, timeout_ms=30_000))
    peer.wait_gone(doomed)
    for topic in KEPT:
        if topic in [each.name for each in known]:
            peer.learn(topic)
        else:
            peer.create_topic(topic, 3 if topic == "three" else 1)
    deadline = time.monotonic() + 20
    while not snapshots(peer):
        assert time.monotonic() < deadline, f"{peer.name} has no snapshot of its metadata"
        make_changed(peer)


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
CHANGED = "changed"


def described(after: str, kind: int, name: str, *keys: str) -> Case:
    """What broker 1 says of the keys."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    return Case(ApiKey.DESCRIBE_CONFIGS, 4, f"after {after}", lambda _: request, before=synced, through_broker=True)


def make_changed(peer: Peer) -> None:
    """A topic to be changed, as new."""
    peer.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[CHANGED], timeout_ms=20_000))
    peer.wait_gone([CHANGED])
    peer.create_topic(CHANGED)


Settings = tuple[tuple[str, str | None], ...]

RESOURCES: dict[str, tuple[int, str, Settings]] = {
    "a topic": (TOPIC, CHANGED, (("retention.ms", "5000"), ("cleanup.policy", "compact"))),
    "a bad value": (TOPIC, CHANGED, (("retention.ms", "soon"),)),
    "an unknown key": (TOPIC, CHANGED, (("no.such.key", "1"),)),
    "one good and one bad": (TOPIC, CHANGED, (("segment.ms", "9999"), ("segment.bytes", "x"))),
    "an unknown topic": (TOPIC, "unknown", (("retention.ms", "1"),)),
    "a topic without a name": (TOPIC, "", (("retention.ms", "1"),)),
    "an unusable topic": (TOPIC, "with space", (("retention.ms", "1"),)),
    "nothing of a topic": (TOPIC, CHANGED, ()),
    "broker 1": (BROKER, "1", (("log.cleaner.threads", "2"),)),
    "all brokers": (BROKER, "", (("log.cleaner.threads", "1"),)),
    "a broker by a word": (BROKER, "one", (("log.cleaner.threads", "1"),)),
    "a group": (GROUP, "changed-group", (("consumer.session.timeout.ms", "50000"),)),
    "a group's bad value": (GROUP, "changed-group", (("consumer.session.timeout.ms", "-4"),)),
    "a group without a name": (GROUP, "", (("consumer.session.timeout.ms", "50000"),)),
    "a logger": (LOGGER, "1", (("kafka.server.KafkaApis", "INFO"),)),
    **{f"type {kind}": (kind, "x", (("retention.ms", "1"),)) for kind in (0, 1, 3, 64, -1)},
}
"""What is changed: a resource's type and name, and its settings."""


def alter_configs(version: int) -> Iterator[Case]:
    def case(name: str, *wanted: tuple[int, str, Settings], validate_only: bool = False, **options: Any) -> Case:
        resources = [
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in settings],
            )
            for kind, resource, settings in wanted
        ]
        request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
        return Case(ApiKey.ALTER_CONFIGS, version, name, lambda _: request, **options)

    yield case("nothing", before=make_changed)
    for name, wanted in RESOURCES.items():
        yield case(f"{name}, tried", wanted, validate_only=True)
        yield case(name, wanted)
    yield described(f"AlterConfigs v{version}", TOPIC, CHANGED, "retention.ms", "cleanup.policy", "segment.ms")
    yield described(f"AlterConfigs v{version} of broker 1", BROKER, "1", "log.cleaner.threads")
    yield described(f"AlterConfigs v{version} of a group", GROUP, "changed-group", "consumer.session.timeout.ms")
    yield case("a resource twice", RESOURCES["a topic"], RESOURCES["a topic"])
    yield case("a resource twice, otherwise", RESOURCES["a topic"], RESOURCES["a bad value"])
    for name, back in {"broker 1": (BROKER, "1", ()), "all brokers": (BROKER, "", ()), "a group": (GROUP, "changed-group", ())}.items():
        yield case(f"{name} back", back)


def incremental_alter_configs(version: int) -> Iterator[Case]:
    of = IncrementalAlterConfigsRequest

    def case(name: str, *wanted: tuple[int, str, Settings], operation: int = SET, validate_only: bool = False, **options: Any) -> Case:
        resources = [
            of.AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[of.AlterableConfig(name=key, value=value, config_operation=operation) for key, value in settings],
            )
            for kind, resource, settings in wanted
        ]
        request = of(resources=resources, validate_only=validate_only)
        return Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, name, lambda _: request, **options)

    yield case("nothing", before=make_changed)
    for name, wanted in RESOURCES.items():
        yield case(f"{name}, tried", wanted, validate_only=True)
        yield case(name, wanted)
    policy = (TOPIC, CHANGED, (("cleanup.policy", "delete"),))
    number = (TOPIC, CHANGED, (("retention.ms", "7"),))
    for operation, word in {APPEND: "appended", SUBTRACT: "subtracted", DELETE: "deleted"}.items():
        yield case(f"a policy {word}", policy, operation=operation)
        yield case(f"a number {word}", number, operation=operation)
        yield described(f"IncrementalAlterConfigs v{version} {word}", TOPIC, CHANGED, "retention.ms", "cleanup.policy", "segment.ms")
    yield case("what is not set deleted", (TOPIC, CHANGED, (("flush.ms", None),)), operation=DELETE)
    yield described(f"IncrementalAlterConfigs v{version} of broker 1", BROKER, "1", "log.cleaner.threads")
    yield described(f"IncrementalAlterConfigs v{version} of a group", GROUP, "changed-group", "consumer.session.timeout.ms")
    yield case("a resource twice", RESOURCES["a topic"], RESOURCES["a topic"])
    yield case("a resource twice, otherwise", RESOURCES["a topic"], RESOURCES["a bad value"])
    for name in ("broker 1", "all brokers", "a group"):
        yield case(f"{name} back", RESOURCES[name], operation=DELETE)


def alter_user_scram_credentials(version: int) -> Iterator[Case]:
    """Without what brokers say of it in between, who hear of it later."""
    return (each for each in CASES[ApiKey.ALTER_USER_SCRAM_CREDENTIALS](version) if each.api_key is ApiKey.ALTER_USER_SCRAM_CREDENTIALS)


def alter_client_quotas(version: int) -> Iterator[Case]:
    """As with credentials."""
    return (each for each in CASES[ApiKey.ALTER_CLIENT_QUOTAS](version) if each.api_key is ApiKey.ALTER_CLIENT_QUOTAS)


AS_BROKERS = (
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.ELECT_LEADERS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UNREGISTER_BROKER,
)
"""What is asked of a controller as it is of a broker."""

CONTROLLER_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    **{api_key: CASES[api_key] for api_key in AS_BROKERS},
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    **RAFT_CASES,
    **REGISTRATION_CASES,
    ApiKey.ENVELOPE: envelope,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
}
