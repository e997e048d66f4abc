"""Raw SASL handshakes with both brokers."""

from __future__ import annotations

import base64
import re
import socket
import ssl
import struct
from pathlib import Path

from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

CLOSED = "closed"


class Wire:
    """A raw connection, over TLS where an authority is given; what it notes is compared."""

    def __init__(self, port: int, authority: Path | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        if authority is not None:
            self._socket = ssl.create_default_context(cafile=str(authority)).wrap_socket(self._socket, server_hostname="localhost")
        self.noted: list[object] = []

    def send(self, body: bytes) -> None:
        with_size = struct.pack(">i", len(body)) + body
        try:
            self._socket.sendall(with_size)
        except OSError:
            self.noted.append(CLOSED)

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frame(self) -> bytes | None:
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(struct.unpack(">i", head)[0])
        except ConnectionError:
            return None

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                return None
            data += more
        return data

    def ask(self, api_key: int, version: int, body: bytes) -> bytes | None:
        self.send(encode_request_header(api_key, version, 7, "test") + body)
        answer = self.frame()
        return None if answer is None else answer[4:]

    def handshake(self, mechanism: str, version: int = 1) -> None:
        body = self.ask(17, version, SaslHandshakeRequest(mechanism=mechanism).encode(version))
        if body is None:
            self.noted.append(CLOSED)
            return
        answer = SaslHandshakeResponse.decode(memoryview(body), version)
        self.noted.append((answer.error_code, sorted(answer.mechanisms)))

    def authenticate(self, message: bytes, version: int = 2) -> bytes:
        body = self.ask(36, version, SaslAuthenticateRequest(auth_bytes=message).encode(version))
        if body is None:
            self.noted.append(CLOSED)
            return b""
        answer = SaslAuthenticateResponse.decode(memoryview(body)[1:] if version >= 2 else memoryview(body), version)
        data = bytes(answer.auth_bytes)
        shown: object = data
        if data.startswith((b"r=", b"v=")):
            shown = re.sub(rb"(r|s|v)=[^,]*", rb"\1=", data)
        self.noted.append((answer.error_code, answer.error_message, shown, answer.session_lifetime_ms))
        return data

    def served(self) -> None:
        """Whether a request is answered now."""
        body = self.ask(3, 12, MetadataRequest(topics=[]).encode(12))
        self.noted.append("served" if body is not None else CLOSED)

    def closed(self) -> None:
        self._socket.settimeout(5)
        try:
            self.noted.append(CLOSED if self._socket.recv(1) == b"" else "more")
        except ConnectionError:
            self.noted.append(CLOSED)
        except TimeoutError:
            self.noted.append("open")

    def close(self) -> None:
        self._socket.close()


def other_nonce(final: bytes) -> bytes:
    return re.sub(rb"r=[^,]*", b"r=nonce-of-the-client", final)


def other_proof(final: bytes) -> bytes:
    """Of the same length: at another one the JVM fails with an exception of its own, and closes without an answer."""
    without, _, proof = final.rpartition(b",p=")
    return without + b",p=" + base64.b64encode(b"x" * len(base64.b64decode(proof)))


def bearer(token: bytes, header: bytes = b"n,,") -> bytes:
    return header + b"\x01auth=Bearer " + token + b"\x01\x01"
