"""Timers of members: session, revocation of partitions, and for members of the classic protocol JoinGroup and SyncGroup."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import ConsumerMember
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers

logger = logging.getLogger(__name__)

Outcome = CoordinatorResult[None]
Fence = Callable[[ConsumerGroup, ConsumerMember], Outcome]
_KINDS = ("session", "rebalance", "consumer-join", "consumer-sync")


class Sessions:
    """Timers of one shard. A member whose timer expires is fenced: removed from its group. Times in milliseconds."""

    def __init__(self, groups: Groups, timers: Timers) -> None:
        self._groups = groups
        self._timers = timers
        self.fence: Fence | None = None

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start a full session timeout."""
        self._schedule("session", group_id, member_id, timeout_ms, "its session has ended")

    def is_alive(self, group_id: str, member_id: str) -> bool:
        """Return whether the member's session timeout is running."""
        return _key("session", group_id, member_id) in self._timers

    def keep_awaiting_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the revocation timeout unless it is already running."""
        if _key("rebalance", group_id, member.member_id) not in self._timers:
            self.await_revocation(group_id, member)

    def await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Give the member its rebalance timeout to give up partitions and leave its epoch."""
        epoch = member.member_epoch
        why = f"it did not leave epoch {epoch} within {member.rebalance_timeout_ms} ms"
        self._schedule("rebalance", group_id, member.member_id, member.rebalance_timeout_ms, why, epoch=epoch)

    def revoked(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key("rebalance", group_id, member_id))

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the timeout of a member that was told to rejoin, unless it is already running."""
        key = _key("consumer-join", group_id, member.member_id)
        if key not in self._timers:
            self._schedule("consumer-join", group_id, member.member_id, member.rebalance_timeout_ms, "it did not join again in time")

    def joined(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key("consumer-join", group_id, member_id))

    def await_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule("consumer-sync", group_id, member_id, timeout_ms, "it did not sync in time")

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key("consumer-sync", group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        for kind in _KINDS:
            self._timers.cancel(_key(kind, group_id, member_id))

    def _schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int, why: str, *, epoch: int | None = None) -> None:
        def expire() -> Outcome:
            group = self._groups.find(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if not isinstance(group, ConsumerGroup) or member is None or self.fence is None:
                return CoordinatorResult([], None)
            if epoch is not None and member.member_epoch != epoch:
                return CoordinatorResult([], None)
            logger.info("group %s: member %s is fenced: %s", group_id, member_id, why)
            return self.fence(group, member)

        self._timers.schedule(_key(kind, group_id, member_id), max(timeout_ms, 0), expire)


def _key(kind: str, group_id: str, member_id: str) -> str:
    # NUL separates the ids, which may contain any other character.
    return f"{kind}\0{group_id}\0{member_id}"
