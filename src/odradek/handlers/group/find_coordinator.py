"""FindCoordinator (10): the broker that coordinates a group, a transactional id or a share partition.

- The coordinator is the leader of the key's partition of the coordinator's topic. The first request creates the topic, and its response
  waits until the topic exists. (Kafka answers COORDINATOR_NOT_AVAILABLE at once, and clients ask again half a second or a second later.)
- Key types that the version does not know are answered INVALID_REQUEST (share partitions need version 6, KIP-932).
- The lowest version must stay 0, because librdkafka takes version 0 as the sign that LZ4 frames are correct.

ACL: DESCRIBE on the group or transactional id. Quota: request time.
Known gaps: this broker has no share coordinator yet. Keys of share partitions are answered COORDINATOR_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.repeats import answered
from odradek.coordinator.partitioning import partition_of
from odradek.handlers.access import FIND_GROUP_COORDINATOR, FIND_SHARE_COORDINATOR, FIND_TRANSACTION_COORDINATOR
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts

Coordinator = FindCoordinatorResponse.Coordinator

GROUP, TRANSACTION, SHARE = 0, 1, 2
_TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
_CHECKS = {GROUP: FIND_GROUP_COORDINATOR, TRANSACTION: FIND_TRANSACTION_COORDINATOR}
_NOBODY = -1
_BATCHED_SINCE = 4
_NO_MESSAGE = "NONE"
"""Message that Kafka sends with error code NONE."""
_CREATION_S = 1.0
"""Seconds that the creation of the coordinator's topic may take before the client must try again."""


def handle(
    context: RequestContext, request: FindCoordinatorRequest, broker: BrokerParts
) -> Entries[FindCoordinatorResponse] | FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    if context.api_version >= _BATCHED_SINCE:
        return _batched(context, request, broker)
    created = _created(context, request, broker)
    if created is None:
        return _single(context, request, broker)
    return created.then(lambda _: _single(context, request, broker))


def _created(context: RequestContext, request: FindCoordinatorRequest, broker: BrokerParts) -> Deferred[None] | None:
    """Create the coordinator's topic if it is missing. The Deferred completes when the response can be sent; None means at once."""
    topic = _TOPICS.get(request.key_type)
    if topic is None or topic in context.services.metadata.image.topics.by_name or not _may_find_any(context, request):
        return None
    from odradek.handlers.admin.auto_creation import create_topics

    created: Deferred[None] = Deferred()
    broker.coordinators.await_topic(topic, _CREATION_S).into(created)
    create_topics(broker, [topic], context.client_id)[topic].add_callback(lambda done: None if done.result() else created.complete(None))
    return created


def _may_find_any(context: RequestContext, request: FindCoordinatorRequest) -> bool:
    """Return whether the client may ask for any of the keys. Only such a client causes the creation of the coordinator's topic."""
    check = _CHECKS[request.key_type]
    keys = request.coordinator_keys if context.api_version >= _BATCHED_SINCE else [request.key]
    return len(context.denied(check, keys)) < len(set(keys))


def error_response(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    if request.coordinator_keys:
        return FindCoordinatorResponse(coordinators=[_nobody(key, error) for key in request.coordinator_keys])
    return FindCoordinatorResponse(error_code=error.code, error_message=error.message, node_id=_NOBODY, host="", port=_NOBODY)


def _batched(context: RequestContext, request: FindCoordinatorRequest, broker: BrokerParts) -> Entries[FindCoordinatorResponse]:
    created = _created(context, request, broker)
    if created is not None:
        yield created
    for key in answered(request.coordinator_keys):
        yield _find(context, request.key_type, key, broker)
    return FindCoordinatorResponse()


def _single(context: RequestContext, request: FindCoordinatorRequest, broker: BrokerParts) -> FindCoordinatorResponse:
    found = _find(context, request.key_type, request.key, broker)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or _NO_MESSAGE,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(context: RequestContext, key_type: int, key: str, broker: BrokerParts) -> FindCoordinatorResponse.Coordinator:
    try:
        return _coordinator(context, key_type, key, broker)
    except KafkaError as error:
        return _nobody(key, error)


def _coordinator(context: RequestContext, key_type: int, key: str, broker: BrokerParts) -> FindCoordinatorResponse.Coordinator:
    check = _CHECKS.get(key_type)
    if check is not None:
        context.require(check, key)
    known = (GROUP, TRANSACTION, SHARE) if context.api_version >= 6 else (GROUP, TRANSACTION)
    if key_type not in known:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the key type {key_type} does not exist in version {context.api_version}")
    if key_type == SHARE:
        context.require(FIND_SHARE_COORDINATOR)
    name = _TOPICS.get(key_type)
    if name is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker has no share coordinator yet")
    image = context.services.metadata.image
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} does not exist yet")
    partition = topic.partitions.get(partition_of(key, len(topic.partitions)))
    leader = None if partition is None else image.cluster.brokers.get(partition.leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(context.listener_name)
    if leader is None or endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {name} for {key} has no leader at the moment")
    return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port, error_code=ErrorCode.NONE)


def _nobody(key: str, error: KafkaError) -> FindCoordinatorResponse.Coordinator:
    return Coordinator(key=key, node_id=_NOBODY, host="", port=_NOBODY, error_code=error.code, error_message=error.message or "")
