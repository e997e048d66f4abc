"""Member of a classic group (org.apache.kafka.coordinator.group.classic.ClassicGroupMember)."""

from __future__ import annotations

from collections.abc import Container

from odradek.base.deferred import Deferred
from odradek.protocol.messages.group_records import GroupMetadataValue
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


class ClassicMember:
    """Member of a classic group. Only the fields of `GroupMetadataValue` are stored, the rest is soft state. Timeouts in milliseconds."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "replaces",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Deferred[JoinGroupResponse] | None = None
        """Parked JoinGroup."""
        self.awaiting_sync: Deferred[SyncGroupResponse] | None = None
        """Parked SyncGroup."""
        self.is_new = False
        """Whether the member waits for the response to its first JoinGroup; without its id the client cannot send heartbeats."""

        self.replaces: ClassicMember | None = None
        """Stored member that this static member replaces; None once the replacement is committed."""

    @classmethod
    def from_stored(cls, member: GroupMetadataValue.MemberMetadata, group: GroupMetadataValue) -> ClassicMember:
        """Return the member of a loaded record. Records before version 1 have no rebalance timeout; the session timeout replaces it."""
        return cls(
            member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            protocol_type=group.protocol_type,
            protocols=((group.protocol or "", member.subscription),),
            assignment=member.assignment,
        )

    def stored(self, protocol: str | None, assignment: bytes) -> GroupMetadataValue.MemberMetadata:
        """Return the member's part of the group's record. Raises KeyError for a protocol that the member does not support."""
        return GroupMetadataValue.MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Return whether a parked request proves that the member is alive. A new member may have disappeared while it waited."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol. Raises KeyError for a protocol that the member does not support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Return the first of the member's protocols that is in `candidates`."""
        return next(name for name, _ in self.protocols if name in candidates)

    def __repr__(self) -> str:
        return f"ClassicMember({self.member_id!r}, {self.group_instance_id!r})"
