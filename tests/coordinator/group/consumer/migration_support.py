"""Groups that change between the classic and the consumer protocol."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.coordinator.group.consumer.embedded import read_assignment
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.join_group import JoinGroupResponse
from tests.coordinator.group.consumer.support import ConsumerWorld, Owned
from tests.coordinator.group.support import GROUP


def subscription(*topics: str, owned: Owned | None = None) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions) for topic, partitions in (owned or {}).items()
        ],
    )
    return b"\0\3" + message.encode(3)


def assignment(user_data: bytes | None = None, **topics: list[int]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=each) for topic, each in topics.items()],
        user_data=user_data,
    )
    return b"\0\3" + message.encode(3)


def partitions(data: bytes) -> Owned:
    return {each.topic: each.partitions for each in read_assignment(data).assigned_partitions}


class MigrationWorld(ConsumerWorld):
    def is_session_watched(self, member_id: str) -> bool:
        """As one of a member of a consumer group."""
        return f"session\0{GROUP}\0{member_id}" in self.timers[-1]

    def classic_group(self, **assigned: list[int]) -> tuple[str, int]:
        """A classic group with one member that has these partitions; its id and generation."""
        member, joined = self.join_dynamic(protocols=[("range", subscription("t"))])
        generation = joined.result().generation_id
        self.sync(member, generation, {member: assignment(**assigned)})
        return member, generation

    def rejoin(self, member: str, owned: Owned | None = None, **options: object) -> Deferred[JoinGroupResponse]:
        return self.join(member, protocols=[("range", subscription("t", owned=owned))], **options)  # type: ignore[arg-type]

    def synced(self, member: str, generation: int) -> Owned:
        answer = self.sync(member, generation).result()
        assert answer.error_code == 0
        return partitions(answer.assignment)
