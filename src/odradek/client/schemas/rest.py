"""HTTP requests to a registry: several URLs, bounded retries and waits, bounded responses."""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from odradek.base.timing import Backoff
from odradek.client.calls.forks import renew_after_fork
from odradek.client.schemas.config import registry_access
from odradek.client.schemas.errors import RegistryError, one_line
from odradek.client.schemas.registry_keys import (
    HTTP_CONNECT_TIMEOUT_MS,
    HTTP_READ_TIMEOUT_MS,
    MAX_RETRIES,
    RETRIES_MAX_WAIT_MS,
    RETRIES_WAIT_MS,
)
from odradek.client.settings.config import ClientConfig
from odradek.network.web import WebAnswer, WebClient

_MAX_ANSWER: Final = 16 << 20
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
_TRANSIENT: Final = (408, 429)


class Rest:
    """HTTP client of one registry, for all threads. A forked child opens new connections."""

    def __init__(self, config: ClientConfig, *, sleep: Callable[[float], None] = time.sleep, rng: random.Random | None = None) -> None:
        """Check the configuration. Raises ConfigError. The default `rng` has no state that forked children would share."""
        self._access = registry_access(config)
        self._connect_s = config[HTTP_CONNECT_TIMEOUT_MS] / 1000
        self._read_s = config[HTTP_READ_TIMEOUT_MS] / 1000
        self._retries = config[MAX_RETRIES]
        self._longest_s = config[RETRIES_MAX_WAIT_MS] / 1000
        self._backoff = Backoff(config[RETRIES_WAIT_MS], config[RETRIES_MAX_WAIT_MS], rng or random.SystemRandom(), spread=(0.0, 1.0))
        self._sleep = sleep
        self._web = WebClient(self._access.tls)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Drop the parent's connections."""
        self._web.after_fork()

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
                answer = self._exchange(url, method, path, query, body)
            except OSError as error:
                failure = RegistryError(f"the request to the schema registry at {url} failed: {_why(error)}")
            else:
                if 200 <= answer.status < 300:
                    return _json(url, answer.status, answer.body)
                failure = _failure(url, answer.status, answer.body)
                if not _is_transient(answer.status):
                    raise failure
                asked_for = _retry_after(answer.headers.get("Retry-After"))
            if attempt < self._retries:
                self._sleep(min(max(self._backoff.delay_s(attempt + 1), asked_for), self._longest_s))
                continue
            raise failure
        raise AssertionError("unreachable")

    def _exchange(self, url: str, method: str, path: str, query: Mapping[str, str] | None, body: object) -> WebAnswer:
        target = f"{url}{path}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _ACCEPT, **self._access.headers}
        if data is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        answer = self._web.ask(method, target, data, headers, largest=_MAX_ANSWER, connect_s=self._connect_s, answer_s=self._read_s)
        if len(answer.body) > _MAX_ANSWER:
            raise OSError(f"its response has more than {_MAX_ANSWER} bytes")
        return answer

    def close(self) -> None:
        """Close the idle connections. A connection in use is closed after its request; a later request opens a new one."""
        self._web.close()


def quoted(part: str) -> str:
    """Return a subject quoted for use in a path."""
    return quote(part, safe="")


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
        raise RegistryError(f"the server at {url} is not a schema registry: its response is not JSON", status) from None


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
    return RegistryError(f"the schema registry at {url} refuses the request: {said}", status, code)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message} (ssl.truststore.location must contain its certificate authority)"
    if isinstance(error, TimeoutError):
        return "it did not respond in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error)
