"""What both kinds of group membership have in common: what they want done, and what they are told.

A membership is a state machine without IO. Its methods are events: an answer, an error, the time, a call of poll, another subscription,
work that the application has done. It leaves behind what has to be done:

- `take_requests()`: requests for the coordinator. Each has a ticket, under which its answer or error comes back; answers to tickets that
  mean nothing any more are dropped.
- `work`: what the application has to do next, within poll: give up partitions, or take an assignment. Only one piece at a time. It may
  become another until `begin` is called with it; `done` ends it.
- `take_error()`: what the application has to be told.

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
from odradek.client.assignors.spec import Topics
from odradek.client.core.backoff import Backoff
from odradek.client.core.metadata import FOREVER
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.schema import Message


class Loss(Enum):
    """Why partitions are given up."""

    REVOKED = "revoked"
    """Somebody else may get them, once they are given up: what was read can be committed."""
    LOST = "lost"
    """Somebody else may have them already: it is too late to commit."""


class GiveUp(NamedTuple):
    """The application has to stop reading `partitions`."""

    partitions: tuple[TopicPartition, ...]
    loss: Loss


class Take(NamedTuple):
    """The application has `partitions`, of which `added` are new."""

    partitions: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


Work = GiveUp | Take


class Send(NamedTuple):
    """A request for the coordinator; None as ticket where nobody waits for the answer."""

    ticket: int | None
    request: Message
    response: type[Message]
    timeout_ms: int


class LookUp(NamedTuple):
    """The partitions of these topics, and the racks of their replicas, have to be looked up."""

    ticket: int
    topics: tuple[str, ...]


class LookUpNames(NamedTuple):
    """The names of topics of which only the id is known."""

    ticket: int
    ids: tuple[UUID, ...]


Request = Send | LookUp | LookUpNames


class GroupSettings(NamedTuple):
    """What a membership needs to know of the configuration; times are milliseconds."""

    group_id: str
    instance_id: str | None
    rack: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    request_timeout_ms: int


class Subscribed(NamedTuple):
    """What a member wants to read: topics, and for KIP-848 a regular expression that the broker applies."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


class Membership(Protocol):
    """The events that both memberships know."""

    @property
    def work(self) -> Work | None:
        """What the application has to do next."""
        ...

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What the application has."""
        ...

    @property
    def has_error(self) -> bool:
        """Whether the application has to be told something."""
        ...

    @property
    def is_member(self) -> bool:
        """Whether the coordinator counts it as a member, as far as it knows."""
        ...

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance is under way."""
        ...

    @property
    def state(self) -> str:
        """A word for people."""
        ...

    @property
    def watched(self) -> frozenset[str]:
        """The topics whose partitions `topics_changed` is to tell."""
        ...

    def metadata(self) -> ConsumerGroupMetadata:
        """Who it is, to the coordinator."""
        ...

    def subscribe(self, wanted: Subscribed, now_ms: int) -> None:
        """The subscription is this from now on."""
        ...

    def topics_changed(self, topics: Topics, now_ms: int) -> None:
        """What the metadata says of the topics that it watches."""
        ...

    def poll_began(self, now_ms: int) -> None:
        """The application is in poll."""
        ...

    def poll_ended(self, now_ms: int) -> None:
        """The application has left poll; it has max.poll.interval.ms to come back."""
        ...

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        ...

    def wake_at_ms(self) -> int:
        """When `tick` has to be called, FOREVER for never."""
        ...

    def answered(self, ticket: int, response: Message, now_ms: int) -> None:
        """The coordinator answered."""
        ...

    def looked_up(self, ticket: int, topics: Topics, now_ms: int) -> None:
        """The topics that a LookUp asked for."""
        ...

    def named(self, ticket: int, names: Mapping[UUID, str], now_ms: int) -> None:
        """The names that a LookUpNames asked for, as far as there are any."""
        ...

    def failed(self, ticket: int, error: KafkaError, now_ms: int) -> None:
        """No answer came: the connection is gone, or the request could not be sent."""
        ...

    def commit_refused(self, error: ErrorCode, sent_as: ConsumerGroupMetadata, now_ms: int) -> None:
        """The coordinator refused a commit of this member."""
        ...

    def begin(self, work: Work) -> None:
        """The application begins with the work, which must be `work`."""
        ...

    def done(self, work: Work, now_ms: int) -> None:
        """The application has done the work."""
        ...

    def request_rejoin(self, reason: str, now_ms: int) -> None:
        """The application wants a rebalance."""
        ...

    def leave(self, now_ms: int, *, reason: str, stay: bool | None) -> Send | None:
        """Ends the membership; the request to be sent, if one is due. `stay`: True lets the session run out, False leaves also where a
        static member would stay, None as the kind of member wants it.
        """
        ...

    def take_requests(self) -> list[Request]:
        """What has to be sent, once."""
        ...

    def take_error(self) -> BaseException | None:
        """What the application has to be told, once."""
        ...

    def forgets_coordinator(self) -> bool:
        """Whether the coordinator has to be found anew; once."""
        ...


class Outbox:
    """Requests, errors and tickets: the part of a membership without decisions."""

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
        """What has to be sent, once."""
        taken, self._requests = self._requests, []
        return taken

    @property
    def has_error(self) -> bool:
        """Whether the application has to be told something."""
        return bool(self._errors)

    def take_error(self) -> BaseException | None:
        """What the application has to be told, once."""
        return self._errors.popleft() if self._errors else None

    def forgets_coordinator(self) -> bool:
        """Whether the coordinator has to be found anew; once."""
        forgets, self._forget_coordinator = self._forget_coordinator, False
        return forgets

    def poll_ended(self, now_ms: int) -> None:
        """The application has left poll; it has max.poll.interval.ms to come back."""
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
    """Partitions by topic and number."""
    return tuple(sorted(partitions))
