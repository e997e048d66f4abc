"""Schema registry for tests, in memory, over HTTP: for clients that speak Confluent's REST API.

with SchemaRegistryServer() as registry:
    SchemaRegistry(registry.url)
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from odradek.testing.kit.schema_store import SchemaStore, StoreError

_MAX_BODY: Final = 8 << 20
_IDLE_S: Final = 30


class RegistryRequest(NamedTuple):
    """Received request. `path` is undecoded and without the query."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class SchemaRegistryServer:
    """HTTP server of a schema registry on 127.0.0.1. The server runs from the constructor until `close`, or until the end of a `with`
    block.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        user_info: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        guids: bool = True,
    ) -> None:
        """Start the server. `port` 0 picks a free port.

        Each request must carry `user_info` (name:password) or `token`, when given. With `tls` the server speaks https. Without `guids` the
        server answers as older registries do, which have ids only.
        """
        self._lock = Lock()
        self._store = SchemaStore()
        self._failures: list[tuple[int, dict[str, str]]] = []
        self._guids = guids
        self._connections: set[socket.socket] = set()
        self.requests: list[RegistryRequest] = []
        """Requests received so far."""
        wanted = None if user_info is None else f"Basic {b64encode(user_info.encode()).decode()}"
        self._authorization = f"Bearer {token}" if token is not None else wanted
        owner = self

        class Handler(_Handler):
            server_of_schemas = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"{'https' if tls else 'http'}://localhost:{self._server.server_port}"
        """Value of schema.registry.url."""
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="schema-registry", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and accept no further connection."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def connected(self, connection: socket.socket, *, is_open: bool) -> None:
        """Note that a connection was opened or closed."""
        with self._lock:
            (self._connections.add if is_open else self._connections.discard)(connection)

    def fail(self, status: int, times: int = 1, *, headers: dict[str, str] | None = None) -> None:
        """Answer the next `times` requests with an HTTP status. Status 0 closes the connection without a response."""
        with self._lock:
            self._failures += [(status, headers or {})] * times

    def register(self, subject: str, schema: str, schema_type: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """Register a schema, as a request would, and return the schema's id. Raises StoreError for an invalid schema."""
        with self._lock:
            body = {"schema": schema, "schemaType": schema_type, "references": references or []}
            return int(self._store.register(subject, body)["id"])

    def answer(self, request: RegistryRequest, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON value of the response. Status 0 means no response."""
        with self._lock:
            self.requests.append(request)
            if self._failures:
                status, headers = self._failures.pop(0)
                return status, headers, {"error_code": status * 100 + 1, "message": f"failure {status} requested by the test"}
            if self._authorization is not None and request.headers.get("authorization") != self._authorization:
                return 401, {}, {"error_code": 401, "message": "Unauthorized"}
            try:
                return 200, {}, self._served(request, body)
            except StoreError as error:
                return error.status, {}, {"error_code": error.code, "message": error.message}

    def _served(self, request: RegistryRequest, body: bytes) -> Any:
        for method, pattern, serve in _ROUTES:
            found = re.fullmatch(pattern, request.path)
            if found is not None and method == request.method:
                parts = [unquote(each) for each in found.groups()]
                answer = serve(self._store, _json(body), parts)
                if not self._guids and "guids" in request.path:
                    break
                return answer if self._guids or not isinstance(answer, dict) else _older(request, cast(dict[str, Any], answer))
        raise StoreError(404, 404, "HTTP 404 Not Found")


def _older(request: RegistryRequest, answer: dict[str, Any]) -> dict[str, Any]:
    if request.method == "POST" and request.path.endswith("/versions"):
        return {"id": answer["id"]}
    return {name: value for name, value in answer.items() if name != "guid"}


def _json(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise StoreError(400, 400, "the body is not JSON") from None


_Serve = Callable[[SchemaStore, Any, list[str]], Any]
_PART: Final = "([^/]+)"
_NUMBER: Final = "([0-9]{1,10})"
_ROUTES: Final[tuple[tuple[str, str, _Serve], ...]] = (
    ("GET", "/subjects", lambda store, _, __: store.subjects()),
    ("GET", "/schemas/types", lambda _, __, ___: ["JSON", "PROTOBUF", "AVRO"]),
    ("GET", f"/schemas/ids/{_NUMBER}", lambda store, _, parts: store.by_id(int(parts[0]))),
    ("GET", f"/schemas/ids/{_NUMBER}/versions", lambda store, _, parts: store.places(int(parts[0]))),
    ("GET", f"/schemas/ids/{_NUMBER}/subjects", lambda store, _, parts: [each["subject"] for each in store.places(int(parts[0]))]),
    ("GET", f"/schemas/guids/{_PART}", lambda store, _, parts: store.by_guid(parts[0])),
    ("GET", f"/subjects/{_PART}/versions", lambda store, _, parts: store.versions(parts[0])),
    ("GET", f"/subjects/{_PART}/versions/{_PART}", lambda store, _, parts: store.version(parts[0], parts[1])),
    ("POST", f"/subjects/{_PART}/versions", lambda store, body, parts: store.register(parts[0], body)),
    ("POST", f"/subjects/{_PART}", lambda store, body, parts: store.lookup(parts[0], body)),
    ("DELETE", f"/subjects/{_PART}", lambda store, _, parts: store.delete(parts[0])),
    ("DELETE", f"/subjects/{_PART}/versions/{_PART}", lambda store, _, parts: store.delete(parts[0], parts[1])[0]),
    ("GET", "/config", lambda _, __, ___: {"compatibilityLevel": "NONE"}),
    ("GET", "/mode", lambda _, __, ___: {"mode": "READWRITE"}),
)


class _Handler(BaseHTTPRequestHandler):
    server_of_schemas: SchemaRegistryServer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server_of_schemas.connected(self.connection, is_open=True)

    def finish(self) -> None:
        self.server_of_schemas.connected(self.connection, is_open=False)
        super().finish()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, to keep tests quiet."""

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MAX_BODY:
            self.send_error(413)
            return
        body = self.rfile.read(size)
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RegistryRequest(self.command, parts.path, dict(parse_qsl(parts.query)), headers)
        status, more, answer = self.server_of_schemas.answer(request, body)
        if status == 0:
            self.close_connection = True
            return
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
