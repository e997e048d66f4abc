"""Random member of a consumer group."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from tests.coordinator.group.consumer.support import ConsumerWorld, Owned

FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)


RETRIED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNRELEASED_INSTANCE_ID)


class Client:
    """What a consumer does: it gives up before it takes, and says what it has when that has changed or an answer got lost."""

    def __init__(self, world: ConsumerWorld, member_id: str, instance: str | None, topics: list[str] | None, regex: str | None) -> None:
        self.world = world
        self.member_id = member_id
        self.instance = instance
        self.topics = topics
        self.regex = regex
        self.epoch = 0
        self.owned: Owned = {}
        self.says_all = True

    def beat(self, *, lost: bool = False) -> None:
        full = self.says_all or self.epoch == 0
        known = {name: partitions for name, partitions in self.owned.items() if name in self.world.cluster.image.topics.by_name}
        answer = self.world.beat(
            self.member_id,
            self.epoch,
            instance=self.instance,
            topics=(self.topics or []) if full else None,
            regex=(self.regex or "") if full else None,
            owned=known if full else None,
            rebalance_timeout_ms=30_000 if full else -1,
        )
        self.says_all = full
        code = ErrorCode(answer.error_code)
        if lost or code in RETRIED:
            self.says_all = True
            return
        if code in FENCED:
            self.epoch, self.owned, self.says_all = 0, {}, True
            return
        assert code is ErrorCode.NONE, answer
        assert answer.member_epoch >= self.epoch, "the member's epoch went back"
        self.epoch = answer.member_epoch
        self.says_all = False
        assigned = self.world.assigned(answer)
        if assigned is not None and assigned != self.owned:
            self.owned = assigned
            self.says_all = True

    def leave(self, epoch: int = -1) -> None:
        if self.epoch > 0:
            self.world.beat(self.member_id, epoch, instance=self.instance)
