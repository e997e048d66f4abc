"""A member of a classic group (org.apache.kafka.coordinator.group.classic.ClassicGroupMember)."""

from __future__ import annotations

from collections.abc import Container

from odradek.base.deferred import Deferred
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the order of the member's preference."""


class ClassicMember:
    """Soft state but for what `GroupMetadataValue` holds. Timeouts in ms."""

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
        """The parked JoinGroup."""
        self.awaiting_sync: Deferred[SyncGroupResponse] | None = None
        """The parked SyncGroup."""
        self.is_new = False
        """Waits for its first JoinGroup to be answered, and does not know its id: it cannot send heartbeats."""

        self.replaces: ClassicMember | None = None
        """Whom the log still has in its place, until it is stored that this static member has replaced it."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whoever waits for the coordinator is alive as far as it can be; but a new member may have gone while it waited."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """KeyError for a protocol that it does not support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Container[str]) -> str:
        """The first of its protocols that everybody supports."""
        return next(name for name, _ in self.protocols if name in candidates)

    def __repr__(self) -> str:
        return f"ClassicMember({self.member_id!r}, {self.group_instance_id!r})"
