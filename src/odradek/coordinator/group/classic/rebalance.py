"""Rebalances of classic groups: preparing, waiting for members, handing out a generation, and the timers around it.

1. Something changes: the group prepares. A group that was empty waits group.initial.rebalance.delay.ms for more members, as often as new
   ones come within the rebalance timeout; any other until all members have joined again, or the rebalance timeout has passed.
2. The generation begins: those who did not join are out (static members stay until their session ends), the parked JoinGroups are
   answered, the leader learns of all members.
3. Whoever has not sent SyncGroup when the rebalance timeout has passed is out, and the group prepares again.

Soft state changes here directly; records only persist it (`replay` False), and a failed append is told to whoever waits.
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
    """No records; what there is to answer has been, or will be, answered by itself."""
    return CoordinatorResult([], None)


def _heartbeat_key(group_id: str, member_id: str) -> str:
    # Ids may hold any other character.
    return f"heartbeat\0{group_id}\0{member_id}"


def _join_key(group_id: str) -> str:
    return f"join\0{group_id}"


def _sync_key(group_id: str) -> str:
    return f"sync\0{group_id}"


class Rebalances:
    """One shard's."""

    def __init__(self, groups: Groups, timers: Timers, settings: GroupSettings) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings

    # -- preparing ---------------------------------------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Outcome:
        """Begins a rebalance, or ends the joining of the one under way when this was what it waited for."""
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
        """Unless this is an initial rebalance, which takes its time."""
        if group.is_in(ClassicState.PREPARING_REBALANCE) and group.previous_state is not ClassicState.EMPTY and group.all_members_joined:
            return self.complete(group)
        return nothing()

    # -- the generation ------------------------------------------------------------------------------------------------------------

    def complete(self, group: ClassicGroup) -> Outcome:
        """Ends the joining with whoever has joined."""
        self._timers.cancel(_join_key(group.group_id))
        if not group.is_in(ClassicState.PREPARING_REBALANCE):
            return nothing()
        absent = [member for member in group.not_yet_rejoined() if not member.is_static]
        for member in absent:
            group.remove(member.member_id)
            self.forget(group, member.member_id)
        if absent:
            logger.info("group %s goes on without %s, who did not join in time", group.group_id, absent)
        if group.members and not group.elect_joined_leader():
            # Only static members, and none of them is here: until their sessions end there is nobody to begin with.
            logger.warning("group %s cannot complete its rebalance: no member joined", group.group_id)
            self._schedule_join(group)
            return nothing()
        group.begin_generation()
        if group.is_in(ClassicState.EMPTY):
            logger.info("group %s is empty in generation %d", group.group_id, group.generation_id)
            # Should the append fail, the generation before would come back after a restart and find that its members are gone.
            return CoordinatorResult([group.record({})], None, replay=False, on_committed=_warn(group, "that it is empty"))
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
        """The member has sent SyncGroup."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._timers.cancel(_sync_key(group.group_id))

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode) -> None:
        """The assignment will not come."""
        for member in list(group.members.values()):
            member.assignment = b""
            if group.complete_sync(member, SyncGroupResponse(error_code=code)):
                self.keep_alive(group, member)

    def propagate(self, group: ClassicGroup) -> None:
        """The assignment is stored: everybody who waits for it gets it, and a full session timeout from now on."""
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
        """The member's session (or what `timeout_ms` says) begins anew."""
        self.await_member(group.group_id, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def await_member(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Also for one who was only given an id so far."""
        self._schedule(_heartbeat_key(group_id, member_id), timeout_ms, lambda: self._session_expired(group_id, member_id))

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """No session to watch any more."""
        self._timers.cancel(_heartbeat_key(group.group_id, member_id))

    def forget_group(self, group: ClassicGroup) -> None:
        """The group could not be stored: its timers end, unless another group of that name has taken its place."""
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
        # One that waits for its first JoinGroup answer is told to come again, should it still be there.
        group.complete_join(member, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        if group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.prepare(group, f"the session of {member_id} has ended")
        return self._gone(group)

    def _gone(self, group: ClassicGroup) -> Outcome:
        """Somebody less to wait for."""
        if group.is_in(ClassicState.PREPARING_REBALANCE) and group.all_members_joined:
            return self.complete(group)
        return nothing()

    def _schedule(self, key: str, delay_ms: int, expire: Callable[[], Outcome]) -> None:
        self._timers.schedule(key, max(delay_ms, 0), expire, retry=False)


def _warn(group: ClassicGroup, what: str) -> Callable[[KafkaError | None], None]:
    def committed(error: KafkaError | None) -> None:
        if error is not None:
            logger.warning("group %s: it could not be stored %s: %s", group.group_id, what, error)

    return committed
