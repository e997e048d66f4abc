"""Shared interface of both kinds of group membership: events, requests and work for the application.

A membership is a state machine without IO. Its methods are events: a response, an error, the time, a call of poll, another subscription,
work that the application has done. The results of an event are left in the membership:

- `take_requests()`: requests for the coordinator. Each has a ticket, under which its response or error comes back. Responses to outdated
  tickets are dropped.
- `work`: the next step of the application within poll: give up partitions, or take an assignment. There is one step at a time. The step may
  change until `begin` is called with it; `done` ends it.
- `take_error()`: an error for the application.

Times are monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.assignors.spec import Topics
from odradek.client.core.metadata import FOREVER
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.schema import Message


class Loss(Enum):
    """Reason why partitions are given up."""

    REVOKED = "revoked"
    """Another member may get the partitions once they are given up: consumed offsets can still be committed."""
    LOST = "lost"
    """Another member may already have the partitions: it is too late to commit."""


class GiveUp(NamedTuple):
    """Order to the application to stop reading `partitions`."""

    partitions: tuple[TopicPartition, ...]
    loss: Loss


class Take(NamedTuple):
    """Order to the application to read `partitions`, of which `added` are new."""

    partitions: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


Work = GiveUp | Take


class Send(NamedTuple):
    """Request for the coordinator; its response is ignored if it has no ticket."""

    ticket: int | None
    request: Message
    response: type[Message]
    timeout_ms: int


class LookUp(NamedTuple):
    """Order to look up the partitions of these topics, and the racks of their replicas."""

    ticket: int
    topics: tuple[str, ...]


class LookUpNames(NamedTuple):
    """Order to look up the names of topics of which only the id is known."""

    ticket: int
    ids: tuple[UUID, ...]


Request = Send | LookUp | LookUpNames


class GroupSettings(NamedTuple):
    """Settings of a membership; times are milliseconds."""

    group_id: str
    instance_id: str | None
    rack: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    request_timeout_ms: int


class Subscribed(NamedTuple):
    """Subscription of a member: topics, and for KIP-848 a regular expression that the broker applies."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


class Membership(Protocol):
    """Interface of both memberships."""

    @property
    def work(self) -> Work | None:
        """Next step of the application, or None."""
        ...

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """Partitions that the application has."""
        ...

    @property
    def has_error(self) -> bool:
        """Return whether an error for the application is waiting."""
        ...

    @property
    def is_member(self) -> bool:
        """Return whether the coordinator counts the consumer as a member, as far as the consumer knows."""
        ...

    @property
    def rebalancing(self) -> bool:
        """Return whether a rebalance is under way that forbids commits."""
        ...

    @property
    def state(self) -> str:
        """Word for the state, for people."""
        ...

    @property
    def watched(self) -> frozenset[str]:
        """Topics whose partitions have to be passed to `topics_changed`."""
        ...

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the identity of the member towards the coordinator."""
        ...

    def subscribe(self, wanted: Subscribed, now_ms: int) -> None:
        """Replace the subscription."""
        ...

    def topics_changed(self, topics: Topics, now_ms: int) -> None:
        """Process the metadata of the topics in `watched`."""
        ...

    def poll_began(self, now_ms: int) -> None:
        """Note that the application is in poll."""
        ...

    def poll_ended(self, now_ms: int) -> None:
        """Note that the application has left poll; it has max.poll.interval.ms to call poll again."""
        ...

    def tick(self, now_ms: int) -> None:
        """Do whatever is due at `now_ms`."""
        ...

    def wake_at_ms(self) -> int:
        """Return the time at which `tick` has to be called, FOREVER for never."""
        ...

    def answered(self, ticket: int, response: Message, now_ms: int) -> None:
        """Process the coordinator's response."""
        ...

    def looked_up(self, ticket: int, topics: Topics, now_ms: int) -> None:
        """Process the topics that a LookUp asked for."""
        ...

    def named(self, ticket: int, names: Mapping[UUID, str], now_ms: int) -> None:
        """Process the names that a LookUpNames asked for; unknown names are missing."""
        ...

    def failed(self, ticket: int, error: KafkaError, now_ms: int) -> None:
        """Note that no response came: the connection is lost, or the request could not be sent."""
        ...

    def commit_refused(self, error: ErrorCode, sent_as: ConsumerGroupMetadata, now_ms: int) -> None:
        """Note that the coordinator refused a commit of this member."""
        ...

    def begin(self, work: Work) -> None:
        """Note that the application begins `work`, which must be the property `work`."""
        ...

    def done(self, work: Work, now_ms: int) -> None:
        """Note that the application has done the work."""
        ...

    def request_rejoin(self, reason: str, now_ms: int) -> None:
        """Ask for a rebalance on behalf of the application."""
        ...

    def leave(self, now_ms: int, *, reason: str, stay: bool | None) -> Send | None:
        """End the membership; return the request to send, None without a request.

        `stay`: True lets the session run out, False leaves even where a static member would stay, None does as the kind of member prefers.
        """
        ...

    def take_requests(self) -> list[Request]:
        """Remove and return the requests to send."""
        ...

    def take_error(self) -> BaseException | None:
        """Remove and return the next error for the application, None without an error."""
        ...

    def forgets_coordinator(self) -> bool:
        """Return whether the coordinator has to be looked up again; the answer is True once."""
        ...


class Outbox:
    """Requests, errors and tickets of a membership: the part without decisions."""

    def __init__(self, settings: GroupSettings, backoff: Backoff) -> None:
        self.settings = settings
        self._backoff = backoff
        self._requests: list[Request] = []
        self._errors: deque[BaseException] = deque()
        self._tickets = 0
        self._forget_coordinator = False
        self._in_poll = False
        self._poll_deadline_ms = FOREVER

    def take_requests(self) -> list[Request]:
        """Remove and return the requests to send."""
        taken, self._requests = self._requests, []
        return taken

    @property
    def has_error(self) -> bool:
        """Return whether an error for the application is waiting."""
        return bool(self._errors)

    def take_error(self) -> BaseException | None:
        """Remove and return the next error for the application, None without an error."""
        return self._errors.popleft() if self._errors else None

    def forgets_coordinator(self) -> bool:
        """Return whether the coordinator has to be looked up again; the answer is True once."""
        forgets, self._forget_coordinator = self._forget_coordinator, False
        return forgets

    def poll_ended(self, now_ms: int) -> None:
        """Note that the application has left poll; it has max.poll.interval.ms to call poll again."""
        self._in_poll = False
        self._poll_deadline_ms = now_ms + self.settings.max_poll_interval_ms

    def _send(self, request: Message, response: type[Message], timeout_ms: int | None = None) -> int:
        ticket = self._ticket()
        self._requests.append(Send(ticket, request, response, timeout_ms or self.settings.request_timeout_ms))
        return ticket

    def _look_up(self, topics: Sequence[str]) -> int:
        ticket = self._ticket()
        self._requests.append(LookUp(ticket, tuple(topics)))
        return ticket

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def in_order(partitions: frozenset[TopicPartition] | set[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return the partitions sorted by topic and number."""
    return tuple(sorted(partitions))
