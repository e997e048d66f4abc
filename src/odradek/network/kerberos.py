"""Kerberos tickets and contexts from the system's library (python-gssapi over MIT's libgssapi_krb5).

The library's own configuration (/etc/krb5.conf, or KRB5_CONFIG) names the realm and its KDC. Every call may wait for a disk or a KDC, so no
call may run on an event loop. The library renews a ticket from a keytab at the first use after half of the ticket's lifetime.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any

from odradek.base.errors import ConfigError
from odradek.network.files import read_file
from odradek.security.sasl.errors import SaslError

if TYPE_CHECKING:
    from odradek.security.sasl.gssapi import SecurityContext


def library() -> Any:
    """Return the package `gssapi`. Raises ConfigError when the package or the library is missing."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "gssapi":
            raise ConfigError("GSSAPI needs the package gssapi: pip install 'odradek[kerberos]'") from None
        raise ConfigError(f"GSSAPI needs the Kerberos library (libgssapi-krb5-2 on Debian): {error}") from None
    return gssapi


def default_realm() -> str:
    """Return the default realm of the library's configuration, or "" without one."""
    gssapi = library()
    try:
        name = str(gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos))
    except gssapi.exceptions.GSSError:
        return ""
    return name.partition("@")[2]


class Service:
    """Server side of Kerberos: a principal and its key."""

    def __init__(self, principal: str, keytab: str) -> None:
        """Create the service of `principal` with its key in `keytab`; the keys are read again for each context.

        Raises ConfigError, which names both, when the keytab has no key for the principal or cannot be read.
        """
        self._gssapi = gssapi = library()
        _check_keytab(keytab)
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            self._credentials = gssapi.Credentials(
                name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store={"keytab": f"FILE:{keytab}"}
            )
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(f"the keytab {keytab} cannot be used for {principal}: {_words(error)}") from None

    def context(self) -> SecurityContext:
        """Return a new context for a client that connects."""
        return _Context(self._gssapi, self._gssapi.SecurityContext(creds=self._credentials, usage="accept"))


class Tickets:
    """Client side of Kerberos: tickets of one principal, from a keytab or from a cache that `kinit` fills."""

    def __init__(self, principal: str = "", keytab: str = "", cache: str = "") -> None:
        """Create the tickets of `principal` from `keytab`, or without a keytab from `cache` ("" for the library's default cache).

        Raises ConfigError for a keytab that cannot be read.
        """
        self._gssapi = library()
        self._principal = principal
        self._store: dict[str, str] = {}
        self._whose = f"{principal or 'anybody'} in {cache or 'the cache of tickets'}"
        if keytab:
            _check_keytab(keytab)
            self._whose = f"{principal} with the keytab {keytab}"
            # Each principal of a keytab has one cache in memory, so that many clients do not create many caches.
            which = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:32]
            self._store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:odradek-{which}"}
        elif cache:
            self._store = {"ccache": cache if ":" in cache else f"FILE:{cache}"}
        self._lock = threading.Lock()

    def context(self, service: str, host: str) -> SecurityContext:
        """Return a new context with the service service/host. Raises SaslError when no ticket can be obtained."""
        gssapi = self._gssapi
        try:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
            with self._lock:  # otherwise each of many connections would ask the KDC for the same first ticket
                credentials = gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store or None)
            target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            made = gssapi.SecurityContext(name=target, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags)
        except gssapi.exceptions.GSSError as error:
            raise SaslError(f"no ticket for {self._whose}: {_words(error)}") from None
        return _Context(gssapi, made)


class _Context:
    """Implementation of `security.sasl.gssapi.SecurityContext`."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        self._errors: type[Exception] = gssapi.exceptions.GSSError
        self._context = context
        self.complete = False

    @property
    def initiator(self) -> str:
        try:
            return str(self._context.initiator_name)
        except self._errors as error:
            raise SaslError(_words(error)) from None

    def step(self, token: bytes) -> bytes:
        try:
            answer = self._context.step(token or None)
            # A failure of the step may show only here. Its token for the other side is then not sent, as in Java.
            self.complete = bool(self._context.complete)
        except self._errors as error:
            raise SaslError(_words(error)) from None
        return bytes(answer or b"")

    def wrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._errors as error:
            raise SaslError(_words(error)) from None

    def unwrap(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(token).message)
        except self._errors as error:
            raise SaslError(_words(error)) from None


def _check_keytab(keytab: str) -> None:
    try:
        first = read_file(keytab)[:2]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"the keytab {keytab} cannot be read: {reason or error}") from None
    if first[:1] != b"\x05":
        raise ConfigError(f"{keytab} is not a keytab")


def _words(error: Any) -> str:
    """Return Kerberos's text of an error, or GSSAPI's when Kerberos gives no text, on one line."""
    try:
        minor = [each for each in error.get_all_statuses(error.min_code, False) if each not in ("Success", "Unknown error")]
        found = minor or error.get_all_statuses(error.maj_code, True)
    except Exception:
        return type(error).__name__
    return " ".join(" ".join(str(each) for each in found).split())
