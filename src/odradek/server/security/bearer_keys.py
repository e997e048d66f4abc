"""Public keys that sign bearer tokens, from a file or an address (sasl.oauthbearer.jwks.endpoint.url), refreshed while the node runs.

A failed read at the start ends the start; after a later failure the known keys stay. A token that names an unknown key starts a refresh, at
most once a minute for each key name. A separate thread reads the keys, within the sum of connect timeout and read timeout.
(org.apache.kafka.common.security.oauthbearer.internals.secured.RefreshingHttpsJwks, JwksFileVerificationKeyResolver)
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from odradek.base.addresses import without_password
from odradek.base.errors import ConfigError
from odradek.base.timing import Alarm, Backoff
from odradek.security.sasl.bearer_tokens import PublicKeys, Rules, validate_signed

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.deferred import Deferred
    from odradek.config.sasl import BearerSettings
    from odradek.security.sasl.oauthbearer import BearerToken
    from odradek.server.upkeep.jobs import Jobs

logger = logging.getLogger(__name__)

_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
_LARGEST: Final = 1 << 20
_FILE_LOOK_S: Final = 5.0
_MISSING_KEPT: Final = 16
_MISSING_S: Final = 60.0
_LONGEST_KEY_ID: Final = 1000


class BearerKeys:
    """Keys of one provider, and the validation of tokens with them. Everything runs on the loop, except for reading the keys."""

    def __init__(self, settings: BearerSettings, clock: Clock, jobs: Jobs) -> None:
        self._settings = settings
        self._clock = clock
        self._jobs = jobs
        self._rules = Rules(settings.issuer, settings.audiences, settings.skew_s, settings.scope_claim, settings.subject_claim)
        self._keys: PublicKeys | None = None
        self._missing: OrderedDict[str, float] = OrderedDict()
        self.reading = False
        self._backoff = Backoff(settings.retry_s * 1000, settings.retry_max_s * 1000)
        self._alarm = Alarm(clock, self.refresh)
        self._closed = False

    def validate(self, token: str) -> BearerToken:
        """See `oauthbearer.Validate`."""
        assert self._keys is not None
        return validate_signed(token, self._keys, self._rules, self._clock.time_ms() / 1000, self._key_missing)

    def load(self) -> Deferred[PublicKeys]:
        """Read the keys for the first time. The Deferred fails with ConfigError."""
        loading = self._jobs.apart(self._read)

        def loaded(done: Deferred[PublicKeys]) -> None:
            if done.error is None:
                self._keys = done.result()
                self._alarm.set(self._interval_s)

        loading.add_callback(loaded)
        return loading

    def close(self) -> None:
        """Begin no further read."""
        self._closed = True
        self._alarm.close()

    @property
    def _interval_s(self) -> float:
        return min(_FILE_LOOK_S, self._settings.refresh_s) if self._settings.url.startswith("file:") else self._settings.refresh_s

    def _key_missing(self, key_id: str) -> None:
        now_s = self._clock.monotonic()
        if len(key_id) > _LONGEST_KEY_ID or now_s < self._missing.get(key_id, now_s):
            return
        self._missing[key_id] = now_s + _MISSING_S
        if len(self._missing) > _MISSING_KEPT:
            self._missing.popitem(last=False)
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again, unless a read is under way or the keys are closed."""
        if self.reading or self._closed:
            return
        self.reading = True
        self._jobs.apart(self._read).add_callback(self._refreshed)

    def _refreshed(self, done: Deferred[PublicKeys]) -> None:
        self.reading = False
        if done.error is not None:
            logger.warning("%s; the known keys are kept", done.error)
            self._alarm.set(self._backoff.next_s())
        else:
            self._keys = done.result()
            self._backoff.reset()
            self._alarm.set(self._interval_s)

    def _read(self) -> PublicKeys:
        url = self._settings.url
        is_file = url.startswith("file:")
        shown = url if is_file else without_password(url)
        try:
            text = _of_file(url) if is_file else _of_address(self._settings)
            return PublicKeys(text)
        except ConfigError as error:
            raise ConfigError(f"{_KEY}={shown}: {error}") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise ConfigError(f"{_KEY}={shown}: the keys cannot be read: {reason or error}") from None


def _of_file(url: str) -> bytes:
    from odradek.network.files import read_file

    return read_file(unquote(urlsplit(url).path), _LARGEST)


def _of_address(settings: BearerSettings) -> bytes:
    from odradek.network.web import exchange

    answer = exchange("GET", settings.url, largest=_LARGEST, connect_s=settings.connect_s, answer_s=settings.read_s)
    if answer.status != 200:
        raise ConfigError(f"it responds with status {answer.status}")
    return _bounded(answer.body)


def _bounded(data: bytes) -> bytes:
    if len(data) > _LARGEST:
        raise ConfigError(f"it has more than {_LARGEST} bytes")
    return data
