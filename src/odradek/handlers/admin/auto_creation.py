"""Automatic creation of topics that clients request (kafka.server.DefaultAutoTopicCreationManager)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, code_of
from odradek.config.definition import Key
from odradek.config.keys.groups import OFFSETS_TOPIC_NUM_PARTITIONS, OFFSETS_TOPIC_REPLICATION_FACTOR, OFFSETS_TOPIC_SEGMENT_BYTES
from odradek.config.keys.network import REQUEST_TIMEOUT_MS
from odradek.config.keys.share import (
    SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
    SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
    SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
    SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
)
from odradek.config.keys.transactions import (
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_NUM_PARTITIONS,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_SEGMENT_BYTES,
)
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts
    from odradek.protocol.schema import Message
    from odradek.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_being_created: WeakKeyDictionary[ReplicaManager, dict[str, Deferred[bool]]] = WeakKeyDictionary()
"""Topics whose automatic creation is under way, by broker. A second request must not create them again."""

_VERSION = 7
_REFUSED_KNOWN = 1000
_refused: WeakKeyDictionary[ReplicaManager, dict[str, str]] = WeakKeyDictionary()
"""Last reason why a topic could not be created, by broker and topic. Clients ask repeatedly; the log has each reason only once."""


def create_topics(
    broker: BrokerParts, names: Iterable[str], client_id: str | None, on_behalf_of: RequestContext | None = None
) -> dict[str, Deferred[bool]]:
    """Request the missing topics of client `client_id` from the controller, and return by name whether the controller has the topic.

    The Deferreds complete when the controller has responded. The topic may reach this broker's metadata later, and the client asks again.
    With `on_behalf_of` the request counts towards that client's quota of controller mutations, and may be refused.
    """
    under_way = _being_created.setdefault(broker.replica_manager, {})
    asked = list(names)
    wanted: dict[str, Deferred[bool]] = {name: Deferred() for name in asked if name not in under_way}
    answers = {name: under_way.get(name) or wanted[name] for name in asked}
    if not wanted:
        return answers
    under_way.update(wanted)
    refused = _refused.setdefault(broker.replica_manager, {})
    if not refused.keys() >= wanted.keys():
        logger.info("creating topics %s, which %s requested", ", ".join(wanted), client_id)

    def created(done: Deferred[Message]) -> None:
        for name in wanted:
            del under_way[name]
        errors: dict[str, str] = dict.fromkeys(wanted, str(done.error)) if done.error is not None else _errors(done.result())
        for name, answer in wanted.items():
            why = errors.get(name)
            if why is None:
                refused.pop(name, None)
            elif refused.get(name) != why:
                logger.warning("topic %s could not be created: %s", name, why)
                if len(refused) >= _REFUSED_KNOWN:
                    refused.clear()
                refused[name] = why
            answer.complete(why is None)

    request = creation_request(broker.replica_manager.config, wanted)
    if on_behalf_of is None:
        broker.channel.send(TO_CONTROLLER, ApiKey.CREATE_TOPICS, request, _VERSION).add_callback(created)
    else:
        broker.forwarder.ask(on_behalf_of.of(ApiKey.CREATE_TOPICS, _VERSION), request).add_callback(created)
    return answers


def _errors(response: Message) -> dict[str, str]:
    """Return the errors by topic. An existing topic counts as success."""
    assert isinstance(response, CreateTopicsResponse)
    fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    refused = [topic for topic in response.topics if topic.error_code not in fine]
    return {topic.name: f"{code_of(topic.error_code).name}: {topic.error_message}" for topic in refused}


def creation_request(config: BrokerConfig, names: Iterable[str]) -> CreateTopicsRequest:
    """Return a request with the broker's num.partitions and default.replication.factor, or with the values for a coordinator's topic."""
    topics = [_creatable(config, name) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=config[REQUEST_TIMEOUT_MS])


def _creatable(config: BrokerConfig, name: str) -> CreateTopicsRequest.CreatableTopic:
    keys = _COORDINATOR_KEYS.get(name)
    if keys is None:
        return CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=config.num_partitions, replication_factor=config.default_replication_factor
        )
    partitions, factor, segment_bytes, min_isr = keys
    configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": str(config[segment_bytes])}
    if name == "__transaction_state":
        configs["compression.type"] = "uncompressed"
        configs["unclean.leader.election.enable"] = "false"
    if name == "__share_group_state":
        configs["cleanup.policy"] = "delete"
        configs["retention.ms"] = "-1"
    if min_isr is not None:
        configs["min.insync.replicas"] = str(config[min_isr])
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=config[partitions],
        replication_factor=config[factor],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


_COORDINATOR_KEYS: dict[str, tuple[Key[int], Key[int], Key[int], Key[int] | None]] = {
    "__consumer_offsets": (
        OFFSETS_TOPIC_NUM_PARTITIONS,
        OFFSETS_TOPIC_REPLICATION_FACTOR,
        OFFSETS_TOPIC_SEGMENT_BYTES,
        None,
    ),
    "__transaction_state": (
        TRANSACTION_STATE_LOG_NUM_PARTITIONS,
        TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
        TRANSACTION_STATE_LOG_SEGMENT_BYTES,
        TRANSACTION_STATE_LOG_MIN_ISR,
    ),
    "__share_group_state": (
        SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
        SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
        SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
    ),
}
"""Keys for partitions, replication factor, segment size and min.insync.replicas, by topic."""
