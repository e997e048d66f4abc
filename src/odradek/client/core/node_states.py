"""State of each node between connections: when to dial again, the time limit of an attempt, and how long the node throttles the client.

Java's ClusterConnectionStates. Times are monotonic milliseconds.
"""

from __future__ import annotations

from odradek.base.timing import Backoff
from odradek.protocol.api_keys import ApiKey


class NodeStates:
    """States of all nodes. `reconnect` is the pause before a node is dialled again, `setup` the time limit of an attempt (KIP-601)."""

    __slots__ = ("_failures", "_reconnect", "_retry_ms", "_setup", "_setup_failures", "_throttled_ms")

    def __init__(self, reconnect: Backoff, setup: Backoff) -> None:
        self._reconnect = reconnect
        self._setup = setup
        self._failures: dict[int, int] = {}
        self._setup_failures: dict[int, int] = {}
        self._retry_ms: dict[int, int] = {}
        self._throttled_ms: dict[int, int] = {}

    def failed(self, node_id: int, now_ms: int, *, reached: bool) -> None:
        """Note a failed attempt to connect. `reached`: a connection was made, but it did not become ready."""
        self._failures[node_id] = failures = self._failures.get(node_id, 0) + 1
        self._retry_ms[node_id] = now_ms + self._reconnect.delay_ms(failures)
        self._setup_failures[node_id] = 0 if reached else self._setup_failures.get(node_id, 0) + 1

    def connected(self, node_id: int) -> None:
        """Forget earlier failures, as the node is ready."""
        for memory in (self._failures, self._setup_failures, self._retry_ms):
            memory.pop(node_id, None)

    def connect_in_ms(self, node_id: int, now_ms: int) -> int:
        """Return the milliseconds until the node may be dialled; 0 when it may be dialled now."""
        return max(0, self._retry_ms.get(node_id, now_ms) - now_ms)

    def setup_timeout_ms(self, node_id: int) -> int:
        """Return the time limit of the next attempt in milliseconds; it doubles with each attempt that did not reach the node."""
        return self._setup.delay_ms(self._setup_failures.get(node_id, 0) + 1)

    def throttle(self, node_id: int, now_ms: int, throttle_time_ms: int) -> None:
        """Note that the node throttles the client for `throttle_time_ms` from now on."""
        self._throttled_ms[node_id] = max(self._throttled_ms.get(node_id, 0), now_ms + throttle_time_ms)

    def throttled_for_ms(self, node_id: int, now_ms: int) -> int:
        """Return the milliseconds for which no request may be sent to the node; 0 when a request may be sent."""
        return max(0, self._throttled_ms.get(node_id, now_ms) - now_ms)


THROTTLED_SINCE: dict[ApiKey, int] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.DELETE_GROUPS: 1,
    ApiKey.ELECT_LEADERS: 0,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 0,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""First version of each API for which the client itself waits for throttle_time_ms, as the broker no longer waits (KIP-219).

The table is `shouldClientThrottle` of Java's responses. As in Java, the client never waits for an API that is missing here.
"""


def held_back_ms(api_key: ApiKey, version: int, throttle_time_ms: int) -> int:
    """Return the milliseconds for which no request may be sent to the node after this response."""
    since = THROTTLED_SINCE.get(api_key)
    return throttle_time_ms if since is not None and version >= since else 0
