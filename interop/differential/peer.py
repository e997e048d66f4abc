"""One listener of a node under comparison: a raw connection, and the names of what differs between two nodes by nature."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from typing import Any
from uuid import UUID

from interop.waiting import eventually, until
from odradek.base.ids import ZERO_UUID
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.registry import response_class

CORRELATION_ID = 0x0DAD
_MEMBER_ID = re.compile(r"(differential|static)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Member ids as a group's coordinator makes them from the client's or the instance's id."""
QUIET_SECONDS = 0.4
"""How long a broker that should answer nothing is listened to before its silence is taken as the answer."""

PATIENCE_SECONDS = 15.0
"""How long for any other answer."""


class Closed:
    """The broker closed the connection instead of answering."""

    def __repr__(self) -> str:
        return "connection closed"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closed)

    def __hash__(self) -> int:
        return 0


class Silent:
    """The broker answered nothing and kept the connection."""

    def __repr__(self) -> str:
        return "no answer, connection kept"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Silent)

    def __hash__(self) -> int:
        return 1


CLOSED, SILENT = Closed(), Silent()


class Peer:
    """A broker on a loopback port. `names` maps its topic ids, `spellings` its ports and folders to names that both sides share.

    Of a node's controller listener: `broker` is the listener for clients of the same node. Both share what they know.
    """

    def __init__(self, name: str, port: int, spellings: dict[str, str] | None = None, broker: Peer | None = None) -> None:
        self.name = name
        self.port = port
        self.broker = broker or self
        self.spellings: dict[str, str] = broker.spellings if broker else spellings or {}
        self.topic_ids: dict[str, UUID] = broker.topic_ids if broker else {}
        self.names: dict[object, str] = broker.names if broker else {ZERO_UUID: "zero"}
        self.broker_epochs: dict[int, int] = {}
        """Of the brokers that the cases have registered, the epoch of the last registration."""
        self.notes: dict[str, Any] = {}
        self.source = ""
        """The address that connections come from, where it matters."""
        """What else the cases remember of this peer."""
        self.session_id = 0
        self.producer_id = -1
        self._socket: socket.socket | None = None

    def spelled(self, text: str) -> str:
        """The text with this broker's ports, folders and the ids it gave to members under the names they share."""
        for own, shared in self.spellings.items():
            text = text.replace(own, shared)
        return _MEMBER_ID.sub(r"\1-(an id)", text)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def connection(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), 10, (self.source, 0) if self.source else None)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def raw(self, frame: bytes, timeout: float = PATIENCE_SECONDS) -> bytes | Closed | Silent:
        """Sends one frame (without its size) and returns the answer's frame."""
        return self.wire(struct.pack(">i", len(frame)) + frame, timeout)

    def wire(self, data: bytes, timeout: float = PATIENCE_SECONDS) -> bytes | Closed | Silent:
        """Sends bytes as they are and returns the answer's frame."""
        connection = self.connection()
        try:
            connection.sendall(data)
            connection.settimeout(timeout)
            (size,) = struct.unpack(">i", self._receive(4))
            return self._receive(size)
        except TimeoutError:
            self.close()
            return SILENT
        except (ConnectionError, EOFError):
            self.close()
            return CLOSED

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.connection().recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def exchange(self, api_key: int, version: int, body: bytes, *, patience: float = PATIENCE_SECONDS) -> Any:
        """The decoded answer, its undecodable bytes, `CLOSED` or `SILENT`."""
        header = encode_request_header(api_key, version, CORRELATION_ID, "differential")
        answer = self.raw(header + body, patience)
        if not isinstance(answer, bytes):
            return answer
        correlation_id, start = decode_response_header(answer, api_key, version)
        if correlation_id != CORRELATION_ID:
            return f"correlation id {correlation_id}"
        return self.decode(api_key, version, answer[start:])

    def decode(self, api_key: int, version: int, body: bytes) -> Any:
        """The message; a text that shows the bytes when encoding the message does not give exactly these."""
        decoder = response_class(ApiKey(api_key))
        # ApiVersions in a version that the broker does not know is answered in version 0.
        for each in (version, 0) if api_key == ApiKey.API_VERSIONS else (version,):
            with contextlib.suppress(Exception):
                message = decoder.decode(body, each)
                if message.encode(each) == body:
                    return message
        return f"no answer of version {version}: {body.hex()}"

    def call(self, api_key: ApiKey, version: int, message: Any) -> Any:
        return self.exchange(api_key, version, message.encode(version))

    def create_topic(self, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Creates a topic and waits until its partitions have leaders that answer."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
                )
            ],
            timeout_ms=30_000,
        )
        answer = self.call(ApiKey.CREATE_TOPICS, 7, request)
        if answer.topics[0].error_code:
            raise RuntimeError(f"{self.name}: {answer}")
        self.learn(topic)

    def wait_gone(self, topics: list[str]) -> None:
        """Waits until the broker has heard that the topics were deleted."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        until(
            lambda: all(entry.error_code for entry in self.broker.call(ApiKey.METADATA, 12, request).topics),
            f"{self.name} to forget {topics}",
            20,
        )

    def _leads(self, topic: str, partitions: int) -> bool:
        """Whether the broker's logs know what its metadata says: JVM Kafka shows a topic a moment before it serves it."""
        wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)])
        answer = self.broker.call(ApiKey.LIST_OFFSETS, 7, request)
        return all(entry.error_code == 0 for entry in answer.topics[0].partitions)

    def registered(self, broker_id: int, epoch: int) -> None:
        """Remembers a broker's epoch under its number among those that this broker has had."""
        self.broker_epochs[broker_id] = epoch
        had = sum(name.endswith(f" of broker {broker_id}") for name in self.names.values())
        self.names.setdefault(("broker epoch", epoch), f"epoch {had} of broker {broker_id}")

    def learn(self, topic: str) -> None:
        """Waits for the topic's leaders and remembers its id under the topic's name."""
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        def led() -> Any:
            entry = self.broker.call(ApiKey.METADATA, 12, request).topics[0]
            told = entry.error_code == 0 and entry.partitions and all(partition.error_code == 0 for partition in entry.partitions)
            return entry if told and self._leads(topic, len(entry.partitions)) else None

        entry = eventually(led, f"leaders for {topic} on {self.name}", 20)
        self.topic_ids[topic] = entry.topic_id
        self.names[entry.topic_id] = f"id of {topic}"
