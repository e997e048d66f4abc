"""Rebalances of classic groups: preparation, joining, beginning of a generation, and the timers.

1. A change makes the group prepare a rebalance. A group that was empty waits group.initial.rebalance.delay.ms for more members, and again
   while new members join, up to the rebalance timeout. Another group waits until all members have rejoined, or the rebalance timeout ends.
2. The generation begins. Members that did not rejoin are removed, but static members stay until their session ends. The parked JoinGroups
   are answered; the leader's response lists all members.
3. Members that have not sent SyncGroup within the rebalance timeout are removed, and the group prepares a rebalance again.

Rebalances change soft state directly; records only persist it (`replay` False). A failed append is reported to the waiting clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.group import ClassicGroup, join_error
from odradek.coordinator.group.classic.member import ClassicMember
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Outcome = CoordinatorResult[None]


def nothing() -> Outcome:
    """Return a result without records; the requests are answered through their Deferred."""
    return CoordinatorResult([], None)


def _heartbeat_key(group_id: str, member_id: str) -> str:
    # NUL separates the ids, which may contain any other character.
    return f"heartbeat\0{group_id}\0{member_id}"


def _join_key(group_id: str) -> str:
    return f"join\0{group_id}"


def _sync_key(group_id: str) -> str:
    return f"sync\0{group_id}"


class Rebalances:
    """Rebalances of one shard."""

    def __init__(self, groups: Groups, timers: Timers, settings: GroupSettings) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings

    # -- preparation -------------------------------------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Outcome:
        """Begin a rebalance, or complete the current one when all members have joined."""
        return self.prepare(group, reason) if group.can_rebalance else self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Outcome:
        if group.is_in(ClassicState.COMPLETING_REBALANCE):
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._timers.cancel(_sync_key(group.group_id))
        initial = group.is_in(ClassicState.EMPTY)
        if initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._schedule_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(ClassicState.PREPARING_REBALANCE)
        logger.info("group %s prepares to rebalance after generation %d: %s", group.group_id, group.generation_id, reason)
        if initial:
            return nothing()
        if group.all_members_joined:
            return self.complete(group)
        self._schedule_join(group)
        return nothing()

    def _schedule_join(self, group: ClassicGroup) -> None:
        self._schedule(_join_key(group.group_id), group.rebalance_timeout_ms, lambda: self._join_expired(group.group_id))

    def _join_expired(self, group_id: str) -> Outcome:
        group = self._groups.find_classic(group_id)
        return nothing() if group is None else self.complete(group)

    def _schedule_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._schedule(_join_key(group.group_id), delay_ms, lambda: self._initial_delay_over(group.group_id, delay_ms, remaining_ms))

    def _initial_delay_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Outcome:
        group = self._groups.find_classic(group_id)
        if group is None:
            return nothing()
        if not group.new_member_added or remaining_ms == 0:
            return self.complete(group)
        group.new_member_added = False
        self._schedule_initial(group, min(self._settings.initial_rebalance_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
        return nothing()

    def complete_if_joined(self, group: ClassicGroup) -> Outcome:
        """Complete the rebalance when all members have joined. An initial rebalance waits for its delay."""
        if group.is_in(ClassicState.PREPARING_REBALANCE) and group.previous_state is not ClassicState.EMPTY and group.all_members_joined:
            return self.complete(group)
        return nothing()

    # -- the generation ------------------------------------------------------------------------------------------------------------

    def complete(self, group: ClassicGroup) -> Outcome:
        """Begin the next generation with the members that have joined."""
        self._timers.cancel(_join_key(group.group_id))
        if not group.is_in(ClassicState.PREPARING_REBALANCE):
            return nothing()
        absent = [member for member in group.not_yet_rejoined() if not member.is_static]
        for member in absent:
            group.remove(member.member_id)
            self.forget(group, member.member_id)
        if absent:
            logger.info("group %s continues without %s, which did not join in time", group.group_id, absent)
        if group.members and not group.elect_joined_leader():
            # The group has static members only, and none has joined: wait until one joins or their sessions end.
            logger.warning("group %s cannot complete its rebalance: no member joined", group.group_id)
            self._schedule_join(group)
            return nothing()
        group.begin_generation()
        if group.is_in(ClassicState.EMPTY):
            logger.info("group %s is empty in generation %d", group.group_id, group.generation_id)
            # When this append fails, a restart loads the previous generation, whose members then miss their sessions.
            return CoordinatorResult([group.record({})], None, replay=False, on_committed=_warn(group, "the empty group"))
        self._settings.counts.classic_rebalances += 1
        logger.info("group %s begins generation %d with %d members", group.group_id, group.generation_id, len(group.members))
        for member in list(group.members.values()):
            group.complete_join(member, group.join_response(member.member_id, with_members=group.is_leader(member.member_id)))
            self.keep_alive(group, member)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        generation = group.generation_id
        self._schedule(_sync_key(group.group_id), group.rebalance_timeout_ms, lambda: self._sync_expired(group.group_id, generation))
        return nothing()

    # -- the assignment ------------------------------------------------------------------------------------------------------------

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Note that the member has sent SyncGroup."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._timers.cancel(_sync_key(group.group_id))

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Clear all assignments, and answer the parked SyncGroups with `code`."""
        for member in list(group.members.values()):
            member.assignment = b""
            if group.complete_sync(member, SyncGroupResponse(error_code=code)):
                self.keep_alive(group, member)

    def propagate(self, group: ClassicGroup) -> None:
        """Answer the parked SyncGroups with the stored assignment, and begin a full session timeout of each answered member."""
        for member in list(group.members.values()):
            response = SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            if group.complete_sync(member, response):
                self.keep_alive(group, member)

    def _sync_expired(self, group_id: str, generation: int) -> Outcome:
        group = self._groups.find_classic(group_id)
        if group is None or group.generation_id != generation or not group.is_in(ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return nothing()
        late = list(group.pending_sync)
        if not late:
            return nothing()
        for member_id in late:
            group.remove(member_id)
            self.forget(group, member_id)
        return self.prepare(group, f"{late} did not sync in time")

    # -- sessions ------------------------------------------------------------------------------------------------------------------

    def keep_alive(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Restart the member's session timeout, with `timeout_ms` milliseconds if given."""
        self.await_member(group.group_id, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def await_member(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start or restart the session timeout of a member id, which may still be pending (KIP-394)."""
        self._schedule(_heartbeat_key(group_id, member_id), timeout_ms, lambda: self._session_expired(group_id, member_id))

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """Cancel the member's session timeout."""
        self._timers.cancel(_heartbeat_key(group.group_id, member_id))

    def forget_group(self, group: ClassicGroup) -> None:
        """Cancel the timers of a group that could not be stored, unless another group has the same id now."""
        if self._groups.find(group.group_id) is None:
            self._timers.cancel(_join_key(group.group_id))
            self._timers.cancel(_sync_key(group.group_id))
        for member_id in group.pending_join:
            self.forget(group, member_id)

    def _session_expired(self, group_id: str, member_id: str) -> Outcome:
        group = self._groups.find_classic(group_id)
        if group is None or group.is_in(ClassicState.DEAD):
            return nothing()
        if member_id in group.pending_join:
            group.remove(member_id)
            return self._gone(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return nothing()
        logger.info("group %s: the session of %s has ended", group_id, member_id)
        # When the client of this parked JoinGroup is still alive, the error makes it join again.
        group.complete_join(member, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        if group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.prepare(group, f"the session of {member_id} has ended")
        return self._gone(group)

    def _gone(self, group: ClassicGroup) -> Outcome:
        """Complete the rebalance when the removed member was the last one to wait for."""
        if group.is_in(ClassicState.PREPARING_REBALANCE) and group.all_members_joined:
            return self.complete(group)
        return nothing()

    def _schedule(self, key: str, delay_ms: int, expire: Callable[[], Outcome]) -> None:
        self._timers.schedule(key, max(delay_ms, 0), expire, retry=False)


def _warn(group: ClassicGroup, what: str) -> Callable[[KafkaError | None], None]:
    def committed(error: KafkaError | None) -> None:
        if error is not None:
            logger.warning("group %s: %s could not be stored: %s", group.group_id, what, error)

    return committed
