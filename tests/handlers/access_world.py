"""A whole node with an authorizer, on virtual time, that clients of all kinds ask: see `interop.differential.access_samples`.

Here clients are told apart by their principals. What is looked at of an answer is who is refused what, and how much is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from interop.differential.access_samples import (
    CONSUMERS,
    G1,
    G2,
    GONE1,
    GONE2,
    MEMBER,
    NOT_ASKED,
    OVERRULED,
    SAMPLES,
    SAMPLES_OF,
    T1,
    T2,
    UNSAMPLED,
    X1,
    Facts,
    entries_for,
)
from interop.differential.batches import batch
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.handlers import access
from odradek.handlers.access import ACCESS, ERRORS, Check
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.network.chunks import join_chunks
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import decode_response, request_class
from odradek.protocol.schema import Message, Struct
from odradek.security.principal import ANONYMOUS, Principal
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.loop import SimulatedLoop, run

T = TypeVar("T")

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
LISTENERS = {BROKER: "PLAINTEXT", CONTROLLER: "CONTROLLER"}
REFUSALS = frozenset(ERRORS.values())

Signature = tuple[tuple[str, int], ...]


class AccessWorld:
    """The node, and what its clients know."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.node = SimulatedBroker(loop, seed=11, settings=SETTINGS)
        self.topic_ids: dict[str, Any] = {}
        self._clients = 0

    async def ask(self, api_key: ApiKey, version: int, request: Message, principal: Principal = ANONYMOUS, scope: str = BROKER) -> Any:
        """The answer that whoever has authenticated so gets on a listener of the scope."""
        assert self.node.broker is not None
        frame = encode_request_header(api_key, version, 1, "world") + request.encode(version)
        dispatcher = self.node.broker.node.dispatcher
        _, answer = dispatcher.handle_embedded(
            frame, scope=scope, listener_name=LISTENERS[scope], peer_host="10.0.0.7", principal=principal
        )
        chunks = await answer if isinstance(answer, Deferred) else answer
        return decode_response(join_chunks(chunks or ())[4:], api_key, version)

    async def until(self, ask: Callable[[], Awaitable[T]], holds: Callable[[T], object]) -> T:
        import asyncio

        for _ in range(600):
            answer = await ask()
            if holds(answer):
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError(f"this never became true: {answer}")

    async def fill(self) -> None:
        """What the samples are about."""
        await self.node.start()
        for topic in (T1, T2):
            await self.create(topic)
            produce: Any = request_class(ApiKey.PRODUCE)
            data = produce.TopicProduceData(name=topic, partition_data=[produce.PartitionProduceData(index=0, records=batch(2))])
            request = produce(acks=-1, timeout_ms=1000, transactional_id=None, topic_data=[data])
            answer = await self.ask(ApiKey.PRODUCE, 12, request)
            assert not answer.responses[0].partition_responses[0].error_code, answer
        for kind, name in ((0, G1), (1, X1)):
            await self._find(kind, name)
        for group in (G1, G2):
            await self._commit(group)
        await self._join()
        await self._begin()

    async def _find(self, kind: int, name: str) -> None:
        request = request_class(ApiKey.FIND_COORDINATOR)(key_type=kind, coordinator_keys=[name])
        await self.until(lambda: self.ask(ApiKey.FIND_COORDINATOR, 4, request), lambda answer: not answer.coordinators[0].error_code)

    async def _commit(self, group: str) -> None:
        message: Any = request_class(ApiKey.OFFSET_COMMIT)
        partition = message.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [message.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (T1, T2)]
        request = message(group_id=group, topics=topics)
        await self.until(lambda: self.ask(ApiKey.OFFSET_COMMIT, 9, request), lambda a: not a.topics[0].partitions[0].error_code)

    async def _join(self) -> None:
        def beat(epoch: int, **fields: Any) -> Awaitable[Any]:
            request = request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT)(group_id=CONSUMERS, member_id=MEMBER, member_epoch=epoch, **fields)
            return self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

        first = await self.until(
            lambda: beat(0, rebalance_timeout_ms=300_000, subscribed_topic_names=[T1, T2], topic_partitions=[]),
            lambda answer: not answer.error_code,
        )
        if first.assignment is None:
            await self.until(lambda: beat(first.member_epoch), lambda answer: answer.assignment is not None)

    async def _begin(self) -> None:
        request = request_class(ApiKey.INIT_PRODUCER_ID)(transactional_id=X1, transaction_timeout_ms=900_000)
        producer = await self.until(lambda: self.ask(ApiKey.INIT_PRODUCER_ID, 5, request), lambda answer: not answer.error_code)
        message: Any = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
        addition = message(
            v3_and_below_transactional_id=X1,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[message.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (T1, T2)],
        )
        answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, addition)
        assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, answer

    async def create(self, topic: str) -> None:
        """The topic is there afterwards, however often it was deleted."""
        message: Any = request_class(ApiKey.CREATE_TOPICS)
        request = message(topics=[message.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)])
        answer = await self.ask(ApiKey.CREATE_TOPICS, 7, request)
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), answer
        metadata: Any = request_class(ApiKey.METADATA)
        asked = metadata(topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        found = await self.until(lambda: self.ask(ApiKey.METADATA, 12, asked), lambda answer: not answer.topics[0].error_code)
        self.topic_ids[topic] = found.topics[0].topic_id

    async def client(self, checks: list[Check], denied: list[Check]) -> Principal:
        """Somebody new, who may do just what the checks ask for."""
        self._clients += 1
        principal = Principal("User", f"client{self._clients}")
        message: Any = request_class(ApiKey.CREATE_ACLS)
        creations = [
            message.AclCreation(
                resource_type=entry.resource_type,
                resource_name=entry.resource_name,
                resource_pattern_type=entry.pattern_type,
                principal=str(principal),
                host="*",
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
            for wanted, deny in ((checks, False), (denied, True))
            for check in wanted
            for entry in entries_for(check, "prefixed", deny=deny)
        ]
        answer = await self.ask(ApiKey.CREATE_ACLS, 3, message(creations=creations))
        assert not any(result.error_code for result in answer.results), answer
        return principal

    async def signatures(
        self, scope: str, api_key: ApiKey, checks: list[Check], denied: list[Check], only: tuple[str, ...] = ()
    ) -> dict[str, Signature]:
        """What somebody who may do just that is told: by version and sample."""
        principal = await self.client(checks, denied)
        api = next(api for api in APIS if api.api_key is api_key)
        found: dict[str, Signature] = {}
        for version in range(api.min_version, api.max_version + 1):
            if api_key is ApiKey.DELETE_TOPICS:
                await self.create(GONE1)
                await self.create(GONE2)
            facts = Facts(self.topic_ids, principal=principal.name)
            for name, request in SAMPLES[scope][api_key](version, facts):
                if not only or name in only:
                    answer = await self.ask(api_key, version, request, principal, scope)
                    found[f"v{version} {name}"] = tuple(_signature(answer, ""))
        return found


def _signature(value: Any, path: str) -> Iterator[tuple[str, int]]:
    """Refusals, lengths, and whether it is said what may be done to the cluster."""
    if isinstance(value, list):
        yield path, len(value)
        for entry in value:
            yield from _signature(entry, path)
    elif isinstance(value, Struct):
        for member in type(value).FIELDS:
            yield from _signature(getattr(value, member.name), f"{path}.{member.name}")
    elif path.endswith("error_code") and value in REFUSALS:
        yield path, value
    elif path.endswith("cluster_authorized_operations"):
        yield path, bool(value)


def refused(signature: Signature) -> bool:
    return any(path.endswith("error_code") for path, _ in signature)


def asked_checks() -> Iterator[tuple[str, ApiKey, Check]]:
    """Every check that a sample makes, on the listener scope where it is decided."""
    for scope, apis in ACCESS.items():
        for api_key, declared in apis.items():
            if api_key in SAMPLES[scope] and api_key not in NOT_ASKED:
                for check in declared.checks:
                    if id(check) not in UNSAMPLED:
                        yield scope, api_key, check


async def problem_of(world: AccessWorld, scope: str, api_key: ApiKey, check: Check) -> str | None:
    """Why the check is not made as it is declared, None when it is."""
    checks = list(ACCESS[scope][api_key].checks)
    same = [each for each in checks if (each.operation, each.resource) == (check.operation, check.resource)]
    group = [each for each in checks if check.alternative and each.alternative == check.alternative]
    others = [each for each in checks if each not in same and each not in group and each is not OVERRULED.get(id(check))]
    if check is access.CLUSTER_DESCRIPTION:
        others.append(access.ALTER_CLUSTER_CONFIGS)  # something to be shown among what may be done
    only = SAMPLES_OF.get(id(check), ())
    allowed = await world.signatures(scope, api_key, [*others, check], [], only)
    denied = await world.signatures(scope, api_key, others, [check], only)
    wrong = [name for name, signature in allowed.items() if refused(signature) and api_key is not ApiKey.ADD_PARTITIONS_TO_TXN]
    if wrong:
        return f"whoever may do all of it is refused: {wrong[0]}"
    differing = [name for name in allowed if allowed[name] != denied[name]]
    if not differing:
        return "nobody is refused anything"
    told = {code for name in differing for path, code in denied[name] if path.endswith("error_code")}
    if check.error is not ErrorCode.NONE and check.error not in told:
        return f"nobody is told {check.error.name}"
    return None


def in_world(story: Callable[[AccessWorld], Awaitable[T]]) -> T:
    """Runs the story in a world of its own, filled."""

    async def main(loop: SimulatedLoop) -> T:
        world = AccessWorld(loop)
        await world.fill()
        try:
            return await story(world)
        finally:
            await world.node.stop()

    return run(main)
