"""Classic group: state, members, generation, and checks of requests (org.apache.kafka.coordinator.group.classic.ClassicGroup).

A group is stored as one record, its last completed generation. Everything else is soft state, which a new coordinator rebuilds from the
members' next requests. A member's parked requests are `awaiting_join` and `awaiting_sync`: code that removes or replaces a member has to
answer them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.member import ClassicMember, Protocols
from odradek.coordinator.group.classic.state import TRANSITIONS, ClassicState
from odradek.coordinator.group.classic.subscription import subscribed_topics
from odradek.coordinator.group.group import GroupType, OffsetExpiry
from odradek.coordinator.group.records import group_metadata, group_tombstone
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.group_records import GroupMetadataValue
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_LEADER = ""
NO_GENERATION = -1


class ClassicGroup:
    """Classic group, an implementation of `group.Group`. Members are kept in the order in which they joined."""

    __slots__ = (
        "_awaiting_join",
        "_state",
        "_static_members",
        "_support",
        "_time_ms",
        "generation_id",
        "group_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state_timestamp",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        *,
        time_ms: Callable[[], int],
        state: ClassicState = ClassicState.EMPTY,
        generation_id: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
        state_timestamp: int | None = None,
    ) -> None:
        self.group_id = group_id
        self._time_ms = time_ms
        self._state = state
        self.previous_state = ClassicState.DEAD
        self.state_timestamp = time_ms() if state_timestamp is None else (None if state_timestamp == -1 else state_timestamp)
        """Unix milliseconds at which the group entered its state; None for old records."""
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self._static_members: dict[str, str] = {}
        """group.instance.id -> member id."""
        self.pending_join: set[str] = set()
        """Member ids that were sent with MEMBER_ID_REQUIRED and have not joined yet."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self._support: dict[str, int] = {}
        """Protocol -> number of members that support it."""
        self._awaiting_join = 0
        self.new_member_added = False
        """Whether a member joined since the last start of the initial rebalance delay."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics of all members when the protocol type is "consumer" and all subscriptions are readable; None for unknown topics."""

    # -- state -------------------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state(self) -> ClassicState:
        return self._state

    @property
    def state_name(self) -> str:
        return self._state.value

    @property
    def protocol_type_name(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self._state is ClassicState.EMPTY

    def is_in(self, *states: ClassicState) -> bool:
        return self._state in states

    @property
    def can_rebalance(self) -> bool:
        return ClassicState.PREPARING_REBALANCE in TRANSITIONS[self._state]

    def transition_to(self, state: ClassicState) -> None:
        """Enter a state. Raises RuntimeError for a transition that TRANSITIONS does not allow."""
        if state not in TRANSITIONS[self._state]:
            raise RuntimeError(f"group {self.group_id} cannot change from {self._state.value} to {state.value}")
        self.previous_state = self._state
        self._state = state
        self.state_timestamp = self._time_ms()

    def begin_generation(self) -> None:
        """Begin the next generation with the members that have joined; without members the group becomes EMPTY."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.transition_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY)
        self.pending_sync.clear()

    # -- members -----------------------------------------------------------------------------------------------------------------

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def awaiting_join_count(self) -> int:
        return self._awaiting_join

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self._awaiting_join and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """Largest rebalance timeout of a member, in milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        return None if group_instance_id is None else self._static_members.get(group_instance_id)

    def not_yet_rejoined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.awaiting_join is None]

    def add(self, member: ClassicMember, response: Deferred[JoinGroupResponse] | None = None) -> None:
        """Add a member. The first member decides the protocol type and becomes the leader."""
        if member.group_instance_id is not None:
            self._static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_support(member.protocols, 1)
        self._park_join(member, response)
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, and answer its parked requests with UNKNOWN_MEMBER_ID. If the member led, the next member becomes the leader."""
        member = self.members.get(member_id)
        if member is not None:
            self.fail_parked(member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
            del self.members[member_id]
            self._count_support(member.protocols, -1)
            if member.group_instance_id is not None:
                self._static_members.pop(member.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        response: Deferred[JoinGroupResponse] | None,
    ) -> None:
        """Update a member from its JoinGroup. A JoinGroup that the member parked before is answered REBALANCE_IN_PROGRESS."""
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._park_join(member, response)

    def replace_static(self, group_instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member that rejoined without its id the id `new_id`, and fence users of the old id."""
        old = self.members[old_id]
        self.fail_parked(old, ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)
        del self.members[old_id]
        new = ClassicMember(
            new_id,
            group_instance_id=group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        self._static_members[group_instance_id] = new_id
        if self.is_leader(old_id):
            self.leader_id = new_id
        if old_id in self.pending_sync:
            # Otherwise the sync timeout would look for the removed member id, and rebalance.
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
        return new

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader has joined, by electing another joined member if necessary. Return False when no member has joined."""
        if self.leader_id is None:
            return False
        leader = self.members[self.leader_id]
        if leader.awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                logger.info("group %s: leader %s did not join in time, %s replaces it", self.group_id, leader.member_id, member.member_id)
                self.leader_id = member.member_id
                return True
        return False

    def validate_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Raise KafkaError with UNKNOWN_MEMBER_ID, or with FENCED_INSTANCE_ID when the instance id belongs to another member id."""
        if group_instance_id is not None:
            existing = self._static_members.get(group_instance_id)
            if existing is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    # -- parked requests ---------------------------------------------------------------------------------------------------------

    def _park_join(self, member: ClassicMember, response: Deferred[JoinGroupResponse] | None) -> None:
        overtaken = member.awaiting_join
        self._awaiting_join += (response is not None) - (overtaken is not None)
        member.awaiting_join = response
        if overtaken is not None and overtaken is not response:
            overtaken.complete(join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    def complete_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """Answer the member's parked JoinGroup. Return False when there was none."""
        parked = member.awaiting_join
        if parked is None:
            return False
        member.awaiting_join = None
        self._awaiting_join -= 1
        parked.complete(response)
        return True

    def park_sync(self, member: ClassicMember, response: Deferred[SyncGroupResponse]) -> None:
        """Park a SyncGroup. A SyncGroup that the member parked before is answered REBALANCE_IN_PROGRESS."""
        overtaken, member.awaiting_sync = member.awaiting_sync, response
        if overtaken is not None:
            overtaken.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def complete_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer the member's parked SyncGroup. Return False when there was none."""
        parked = member.awaiting_sync
        if parked is None:
            return False
        member.awaiting_sync = None
        parked.complete(response)
        return True

    def fail_parked(self, member: ClassicMember, code: ErrorCode, *, member_id: str) -> None:
        """Answer the member's parked JoinGroup and SyncGroup with `code`."""
        self.complete_join(member, join_error(member_id, code))
        self.complete_sync(member, SyncGroupResponse(error_code=code))

    # -- protocols ---------------------------------------------------------------------------------------------------------------

    def _count_support(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            count = self._support.get(name, 0) + change
            if count:
                self._support[name] = count
            else:
                self._support.pop(name, None)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols may join: same protocol type, and one protocol that all members support."""
        if self._state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        members = len(self.members)
        return self.protocol_type == protocol_type and any(self._support.get(name, 0) == members for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes; the earliest vote decides a tie.

        Each member votes for the first of its protocols that all members support.
        """
        count = len(self.members)
        candidates = {name for name, supporters in self._support.items() if supporters == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def settle_protocol(self) -> None:
        """Choose the protocol for the current members, without a new generation."""
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())
        except ValueError as error:
            logger.warning("group %s: the subscriptions of %s are malformed: %s", self.group_id, self.protocol_name, error)
            return None

    # -- offsets and deletion (group.Group) ----------------------------------------------------------------------------------------

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_or_epoch: int, *, transactional: bool, api_version: int
    ) -> None:
        if self._state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and self._state is ClassicState.EMPTY:
            # An admin client, or a consumer that assigns partitions to itself.
            return
        if generation_or_epoch >= 0 or member_id or group_instance_id is not None:
            self.validate_member(member_id, group_instance_id)
            if generation_or_epoch != self.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and self._state is not ClassicState.EMPTY:
            # Old producers do not name a member when they commit in a transaction; consumers do.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self._state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._check_alive()

    def validate_offset_delete(self) -> None:
        self._check_alive()
        if self._state is not ClassicState.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete_group(self) -> None:
        self._check_alive()
        if self._state is not ClassicState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _check_alive(self) -> None:
        if self._state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def offset_expiry(self) -> OffsetExpiry | None:
        if self.protocol_type is None:
            return OffsetExpiry(None)
        if self._state is ClassicState.EMPTY:
            return OffsetExpiry(self.state_timestamp)
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self._state is ClassicState.STABLE:
            return OffsetExpiry(None)
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [group_tombstone(self.group_id)]

    # -- records -----------------------------------------------------------------------------------------------------------------

    def record(self, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
        """Return the group's record with these assignments by member id."""
        protocol = self.protocol_name
        return group_metadata(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=protocol,
                leader=self.leader_id,
                current_state_timestamp=-1 if self.state_timestamp is None else self.state_timestamp,
                members=[member.stored(protocol, assignments[member.member_id]) for member in self.members.values()],
            ),
        )

    def empty_record(self) -> CoordinatorRecord:
        """Return the record of a new group that has no completed generation yet."""
        timestamp = -1 if self.state_timestamp is None else self.state_timestamp
        return group_metadata(
            self.group_id,
            GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=timestamp, members=[]),
        )

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, time_ms: Callable[[], int]) -> ClassicGroup:
        """Return the group of a loaded record: stable, or empty without members."""
        group = cls(
            group_id,
            time_ms=time_ms,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            generation_id=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_timestamp=value.current_state_timestamp,
        )
        for member in value.members:
            group.add(ClassicMember.from_stored(member, value))
        group.subscribed_topics = group._subscribed_topics()
        return group

    # -- responses ---------------------------------------------------------------------------------------------------------------

    def join_response(self, member_id: str, *, with_members: bool, leader: str | None = None, skip: bool = False) -> JoinGroupResponse:
        """Return the JoinGroup response for a member of the current generation; with `with_members` it lists all members and their
        metadata.
        """
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader or self.leader_id or NO_LEADER,
            skip_assignment=skip,
            member_id=member_id,
            members=self._join_members() if with_members else [],
        )

    def _join_members(self) -> list[JoinGroupResponse.JoinGroupResponseMember]:
        protocol = self.protocol_name
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata(protocol)
            )
            for member in self.members.values()
        ]

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id!r}, {self._state.value}, generation {self.generation_id}, {list(self.members)})"


def join_error(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    """Return a JoinGroup response with an error."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )
