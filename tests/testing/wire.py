"""One request and its answer on a socket of its own, in any version; and requests of any API that name a topic."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from odradek.protocol.framing import frame
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.registry import request_class, response_class
from odradek.protocol.schema import Array, Message, String, Struct


class Wire:
    """A connection that asks one thing after the other."""

    def __init__(self, port: int, client_id: str = "wire", timeout_s: float = 20.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._client_id = client_id
        self._number = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Message, version: int) -> None:
        self._number += 1
        head = encode_request_header(request.API_KEY, version, self._number, self._client_id)
        self._socket.sendall(frame(head, request.encode(version)))

    def receive(self, api_key: int, version: int) -> Any:
        """ConnectionError when the broker has closed the connection."""
        body = self._read(int.from_bytes(self._read(4), "big"))
        correlation_id, offset = decode_response_header(body, api_key, version)
        assert correlation_id == self._number
        return response_class(api_key).decode(body[offset:], version)

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive(request.API_KEY, version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data


def sample(api_key: int, version: int, topic: str, topic_id: object = None) -> Message:
    """A request of the API that names partition 0 of the topic wherever it can name one."""
    message: Message = _filled(request_class(api_key), version, topic, topic_id)
    return message


def _filled(kind: type[Struct], version: int, topic: str, topic_id: object) -> Any:
    values: dict[str, object] = {}
    for each in kind.FIELDS:
        if not each.versions.includes(version) or each.tag is not None:
            continue
        if isinstance(each.type, Array) and isinstance(each.type.element, str):
            values[each.name] = [_filled(kind.struct(each.type.element), version, topic, topic_id)]
        elif each.name in ("partitions", "partition_indexes"):
            values[each.name] = [0]
        elif each.name == "topic_names":
            values[each.name] = [topic]
        elif isinstance(each.type, Array) and each.type.element is String:
            values[each.name] = ["an-id"]
        elif each.name in ("name", "topic", "topic_name"):
            values[each.name] = topic
        elif each.name == "topic_id" and topic_id is not None:
            values[each.name] = topic_id
            values.pop("name", None)  # DeleteTopics and Metadata want one of the two
        elif each.type is String and each.name.endswith("_id"):
            values[each.name] = "an-id"
    return kind(**values)


def errors_in(struct: Any) -> Iterator[int]:
    """Every error code of an answer, wherever it stands."""
    for each in struct.FIELDS:
        value = getattr(struct, each.name)
        if each.name.endswith("error_code"):
            yield value
        elif isinstance(each.type, str) and value is not None:
            yield from errors_in(value)
        elif isinstance(each.type, Array) and isinstance(each.type.element, str):
            for entry in value or ():
                yield from errors_in(entry)
