"""Defaults that differ from Kafka's, with the reasons. DescribeConfigs and the documentation show this table.

A key that is given, in the file or on the command line, is never changed.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnDefault(NamedTuple):
    """Odradek's default for a key, Kafka's, and the reason for the difference."""

    default: str
    kafka: str
    reason: str


_SOCKETS = "the kernel sizes the buffers of each connection by itself; setting a size turns that off"

OWN_DEFAULTS: dict[str, OwnDefault] = {
    "listeners": OwnDefault(
        "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092", "a broker without security serves only its own host by default"
    ),
    "max.connections": OwnDefault("10000", "2147483647", "the number of connections is bounded, because each one needs a buffer"),
    "socket.receive.buffer.bytes": OwnDefault("-1", "102400", _SOCKETS),
    "socket.send.buffer.bytes": OwnDefault("-1", "102400", _SOCKETS),
    "queued.max.request.bytes": OwnDefault(
        "536870912",
        "-1",
        "requests that are being received and processed share a memory budget; responses that clients have not read yet share an "
        "eighth of it",
    ),
}
