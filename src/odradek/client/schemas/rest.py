"""HTTP requests to a registry with the standard library: several URLs, bounded retries and waits, bounded responses."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

from odradek.client.config import ClientConfig
from odradek.client.forks import renew_after_fork
from odradek.client.schemas.config import registry_access
from odradek.client.schemas.errors import RegistryError, one_line
from odradek.network.web import TimeLimit

_MAX_ANSWER: Final = 16 << 20
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
_TRANSIENT: Final = (408, 429)


class Rest:
    """HTTP client of one registry, for all threads. A request takes an idle connection or opens one, and returns it after use.

    A forked child opens new connections.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Check the configuration. Raises ConfigError."""
        self._access = registry_access(config)
        self._connect_s = config.integer("http.connect.timeout.ms") / 1000
        self._read_s = config.integer("http.read.timeout.ms") / 1000
        self._retries = config.integer("max.retries")
        self._wait_s = config.integer("retries.wait.ms") / 1000
        self._longest_s = config.integer("retries.max.wait.ms") / 1000
        self._sleep = sleep
        self._jitter = jitter
        self._lock = threading.Lock()
        self._idle: dict[str, list[HTTPConnection]] = {}
        self._closed = False
        renew_after_fork(self)

    def __del__(self) -> None:
        # The decoders of a process share a client, which is never closed explicitly.
        if hasattr(self, "_idle"):
            self.close()

    def after_fork(self) -> None:
        """Drop the parent's connections: parent and child would receive each other's responses."""
        self._lock = threading.Lock()
        idle = [each for kept in self._idle.values() for each in kept]
        self._idle = {}
        for connection in idle:
            connection.close()  # This closes only the child's descriptor; nothing is sent, not even by TLS.

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of the registry, without name and password."""
        return self._access.urls

    def ask(self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None) -> Any:
        """Send a request and return the response's JSON, or None for an empty response. `path` is already quoted. Raises RegistryError."""
        failure: RegistryError | None = None
        for url in self._access.urls:
            try:
                return self._ask_one(url, method, path, query, body)
            except RegistryError as error:
                if error.status and not _is_transient(error.status):
                    raise
                failure = error
        assert failure is not None
        raise failure

    def _ask_one(self, url: str, method: str, path: str, query: Mapping[str, str] | None, body: object) -> Any:
        for attempt in range(self._retries + 1):
            asked_for = 0.0
            try:
                status, headers, content = self._exchange(url, method, path, query, body)
            except (OSError, HTTPException) as error:
                failure = RegistryError(f"the schema registry at {url} cannot be asked: {_why(error)}")
            else:
                if 200 <= status < 300:
                    return _json(url, status, content)
                failure = _failure(url, status, content)
                if not _is_transient(status):
                    raise failure
                asked_for = _retry_after(headers.get("Retry-After"))
            if attempt < self._retries:
                wait = self._jitter() * min(self._wait_s * 2**attempt, self._longest_s)
                self._sleep(min(max(wait, asked_for), self._longest_s))
                continue
            raise failure
        raise AssertionError("unreachable")

    def _exchange(
        self, url: str, method: str, path: str, query: Mapping[str, str] | None, body: object
    ) -> tuple[int, Mapping[str, str], bytes]:
        target = f"{urlsplit(url).path}{path}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _ACCEPT, **self._access.headers}
        if data is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        connection, reused = self._connection(url)
        try:
            try:
                answer = self._answer(connection, method, target, data, headers)
            except (ConnectionError, HTTPException):
                # The registry may have closed an idle connection, which is not a failure of this request.
                if not reused:
                    raise
                connection.close()
                connection = self._dialled(url)
                answer = self._answer(connection, method, target, data, headers)
        except BaseException:
            connection.close()
            raise
        self._keep(url, connection)
        return answer

    def _answer(
        self, connection: HTTPConnection, method: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        with TimeLimit() as limit:
            limit.watch(connection.sock, self._read_s)
            return _answer(connection, method, target, data, headers)

    def _connection(self, url: str) -> tuple[HTTPConnection, bool]:
        with self._lock:
            idle = self._idle.get(url)
            if idle:
                return idle.pop(), True
        return self._dialled(url), False

    def _dialled(self, url: str) -> HTTPConnection:
        parts = urlsplit(url)
        assert parts.hostname is not None
        if self._access.tls is not None:
            connection: HTTPConnection = HTTPSConnection(parts.hostname, parts.port, timeout=self._connect_s, context=self._access.tls)
        else:
            connection = HTTPConnection(parts.hostname, parts.port, timeout=self._connect_s)
        connection.connect()
        connection.sock.settimeout(self._read_s)
        return connection

    def _keep(self, url: str, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._closed and connection.sock is not None:
                self._idle.setdefault(url, []).append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections. A connection in use is closed after its request."""
        with self._lock:
            self._closed = True
            idle = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()


def quoted(part: str) -> str:
    """Return a subject quoted for use in a path."""
    return quote(part, safe="")


def _answer(
    connection: HTTPConnection, method: str, target: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    connection.request(method, target, data, headers)
    response = connection.getresponse()
    content = response.read(_MAX_ANSWER + 1)
    if len(content) > _MAX_ANSWER:
        raise HTTPException(f"its answer has more than {_MAX_ANSWER} bytes")
    return response.status, cast(Mapping[str, str], response.headers), content


def _is_transient(status: int) -> bool:
    return status in _TRANSIENT or status >= 500


def _retry_after(text: str | None) -> float:
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 7 else 0.0


def _json(url: str, status: int, content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise RegistryError(f"what answers at {url} is no schema registry: its answer is no JSON", status) from None


def _failure(url: str, status: int, content: bytes) -> RegistryError:
    try:
        answer: Any = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    code, message = 0, ""
    if isinstance(answer, dict):
        found = cast(dict[str, Any], answer)
        code = found["error_code"] if isinstance(found.get("error_code"), int) else 0
        message = one_line(found.get("message") or "")
    said = message or f"HTTP {status}"
    if status == 401:
        said += "; basic.auth.user.info or bearer.auth.token is missing or wrong"
    return RegistryError(f"the schema registry at {url} refuses: {said}", status, code)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message} (ssl.truststore.location has to hold its certificate authority)"
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error)
