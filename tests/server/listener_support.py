"""Probes of listeners: requests, and logins with PLAIN."""

from __future__ import annotations

import contextlib
import socket

API_VERSIONS, ANSWERED = bytes.fromhex("0000000b0012000000000007000178"), bytes.fromhex("00000007")
"""A request, and the correlation id of its answer."""


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
        return True
    return False


def login(port: int, name: str, password: str) -> bool:
    """Whether PLAIN lets one in: the answer to SaslAuthenticate has no error."""
    with socket.create_connection(("localhost", port), 5) as raw:
        raw.settimeout(5)
        for key, body in ((17, b"\0\5PLAIN"), (36, len(f"\0{name}\0{password}").to_bytes(4, "big") + f"\0{name}\0{password}".encode())):
            frame = key.to_bytes(2, "big") + (b"\0\1" if key == 17 else b"\0\0") + b"\0\0\0\7\0\1x" + body
            raw.sendall(len(frame).to_bytes(4, "big") + frame)
            answer = raw.recv(4096)
            if not answer or answer[8:10] != b"\0\0":
                return False
    return True
