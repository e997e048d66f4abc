"""A whole broker with every kind of listener, and sockets to it that say whatever a test likes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar, cast

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port
from odradek.protocol.headers import decode_response_header
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Message
from tests.client.certificates import Certificates
from tests.network.support import framed
from tests.server.support import request

DEADLINE_S: Final = 10.0
USER, PASSWORD = "alice", "secret"
WAYS: Final = ("plaintext", "TLS", "before a login", "before a login over TLS", "in a login", "in a login over TLS")
"""How bytes reach a broker: nobody is asked who he is; nothing has been said yet where somebody is; a mechanism has been agreed on."""
CAPPED: Final = "127.0.0.9"
"""An address that may have `MOST_CAPPED` connections."""
MOST_CAPPED: Final = 3
R = TypeVar("R", bound=Message)
_MODULES: Final = "org.apache.kafka.common.security"


def overrides(controller_port: int, made: Certificates, ports: dict[str, int]) -> dict[str, str]:
    """Of a broker with listeners PLAINTEXT (whose clients may do everything), TLS, SASL and SASLTLS (who may do nothing)."""
    listeners = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    jaas = {
        f"listener.name.{name}.{mechanism}.sasl.jaas.config": f"{_MODULES}.{module} required{users};"
        for name in ("sasl", "sasltls")
        for mechanism, module, users in (
            ("plain", "plain.PlainLoginModule", f' user_{USER}="{PASSWORD}"'),
            ("scram-sha-256", "scram.ScramLoginModule", ""),
        )
    }
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.broker),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "10",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "max.connections.per.ip.overrides": f"{CAPPED}:{MOST_CAPPED}",
        **jaas,
    }


class Hostile:
    """The broker and its ways in."""

    def __init__(self, broker: BrokerProcess, ports: dict[str, int], made: Certificates) -> None:
        self.broker = broker
        self.jvm = isinstance(broker, JvmBroker)
        self._ports = ports
        self._context = ssl.create_default_context(cafile=str(made.authority))

    def wire(self, way: str, source: str = "127.0.0.1") -> Wire:
        """A connection that has come as far as its way says."""
        name = ("SASL" if "login" in way else "") + ("TLS" if "TLS" in way else "") or "PLAINTEXT"
        raw = socket.create_connection(("127.0.0.1", self._ports[name]), DEADLINE_S, source_address=(source, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(self._context.wrap_socket(raw, server_hostname="localhost") if "TLS" in way else raw)
        if way.startswith("in a login"):
            wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        return wire

    def controller(self) -> Wire:
        return Wire(socket.create_connection(("127.0.0.1", self.broker.controller_port), DEADLINE_S))

    def client(self) -> Wire:
        """A connection of the user, who has logged in."""
        wire = self.wire("in a login")
        token = SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode())
        assert cast(SaslAuthenticateResponse, wire.ask(token, 2)).error_code == 0
        return wire

    def serves(self) -> None:
        """Somebody else is answered, and nothing inside has broken."""
        assert self.broker.running
        with self.wire("plaintext") as neighbour:
            assert neighbour.versions() == 0
        if not self.jvm:
            assert "Traceback" not in self.broker.log_path.read_text(errors="replace")


class Wire:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        self.socket = connection

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends as much as is taken: who is refused need not read to the end."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.socket.sendall(data)

    def rest(self) -> bytes:
        """What comes until the other side closes; TimeoutError when it does not."""
        received = b""
        try:
            while piece := self.socket.recv(65536):
                received += piece
        except (ConnectionError, ssl.SSLError):
            pass
        return received

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, message: Message, version: int) -> Message:
        key = message.API_KEY
        self.send(framed(request(key, version, message.encode(version))))
        frame = self.frame()
        return response_class(key).decode(frame[decode_response_header(frame, key, version)[1] :], version)

    def versions(self) -> int:
        """The error that ApiVersions is answered with."""
        self.send(framed(request(18, 0)))
        return int(struct.unpack(">ih", self.frame()[:6])[1])

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise ConnectionResetError("closed in the midst of an answer")
            received += piece
        return received


@contextlib.contextmanager
def hostile(kind: str, folder: Path) -> Iterator[Hostile]:
    """A broker of the kind, odradek or jvm, started."""
    made = Certificates(folder / "certificates")
    broker: BrokerProcess = OdradekBroker(folder / "broker") if kind == "odradek" else JvmBroker(folder / "broker", heap="1g")
    ports = {name: free_port() for name in ("TLS", "SASL", "SASLTLS")} | {"PLAINTEXT": broker.port}
    broker.overrides = overrides(broker.controller_port, made, ports)
    try:
        broker.start(120)
        yield Hostile(broker, ports, made)
    finally:
        broker.kill()
