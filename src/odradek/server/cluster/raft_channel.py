"""Raft requests to other nodes by `network.peers`, and descriptions of the problems that keep this node from its quorum.

Fetches have a separate connection: the leader delays them most of the time, and a vote must not wait behind them. Each problem is logged
once for each node and reason, not with each of the many attempts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.network.peers import Address, Peers
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from odradek.protocol.schema import Message

logger = logging.getLogger(__name__)

_FETCHES = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})

_MEANINGS: dict[ErrorCode, str] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster: INCONSISTENT_CLUSTER_ID",
    ErrorCode.INVALID_VOTER_KEY: "it has another node id or metadata directory than the voter set has: INVALID_VOTER_KEY",
    ErrorCode.INCONSISTENT_VOTER_SET: "it has a different voter set; compare controller.quorum.voters of the two: INCONSISTENT_VOTER_SET",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "it does not authorize this node: CLUSTER_AUTHORIZATION_FAILED",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support the request: UNSUPPORTED_VERSION",
    ErrorCode.INVALID_REQUEST: "it considers the request invalid: INVALID_REQUEST",
}
"""Error that retries do not fix -> its meaning for the log's reader."""


class PeerRaftChannel:
    """Implementation of `controller.kraft.wire.RaftChannel`."""

    def __init__(self, peers: Peers, *, request_timeout_s: float, listener: str = "") -> None:
        """`request_timeout_s`: controller.quorum.request.timeout.ms. `listener`: name of the listener at which controllers are reached."""
        self._peers = peers
        self._request_timeout_s = request_timeout_s
        self._listener = listener
        self.problems: dict[tuple[str, int], str] = {}
        """Address (host, port) -> problem with the last request to it; without an entry when the last request succeeded."""
        self._said: set[tuple[str, int, str]] = set()

    def send(self, node_id: int, host: str, port: int, api_key: ApiKey, request: Message) -> Deferred[Message]:
        """See `RaftChannel`."""
        node = Address(node_id, host, port, self._listener)
        purpose = "raft-fetch" if api_key in _FETCHES else "raft"
        answer = self._peers.send(node, purpose, request, timeout_s=self._request_timeout_s)
        answer.add_callback(lambda done: self._answered(node, done))
        return answer

    def _answered(self, node: Address, done: Deferred[Message]) -> None:
        error, place = done.error, node.place
        if error is not None:
            # `Peers` logs that a node cannot be reached.
            self.problems[place] = error.message or str(error) if isinstance(error, KafkaError) else str(error)
            return
        meaning = next((_MEANINGS[code] for code in _errors(done.result()) if code in _MEANINGS), None)
        if meaning is None:
            self.problems.pop(place, None)
            self._said = {said for said in self._said if said[:2] != place}
            return
        self.problems[place] = f"{node}: {meaning}"
        if (*place, meaning) not in self._said:
            self._said.add((*place, meaning))
            logger.warning("%s does not take part in a metadata quorum with this node: %s", node, meaning)


def _errors(response: Message) -> list[ErrorCode]:
    """Return the error codes of the response and of its partitions."""
    codes = [code_of(getattr(response, "error_code", 0))]
    for topic in getattr(response, "responses" if isinstance(response, FetchResponse) else "topics", []):
        codes += [code_of(partition.error_code) for partition in topic.partitions]
    return codes
