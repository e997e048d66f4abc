"""Tickets and contexts of Kerberos, by the system's library (python-gssapi over MIT's libgssapi_krb5).

The realm and where its KDC is come from the library's own configuration (/etc/krb5.conf, or KRB5_CONFIG). Every call may wait for a disk or
a KDC: none belongs on an event loop. A ticket that was got with a keytab is got anew, by the library, at the first use after half of its
life.
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
    """The package `gssapi`; ConfigError where it is not."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "gssapi":
            raise ConfigError("GSSAPI needs the package gssapi: pip install 'odradek[kerberos]'") from None
        raise ConfigError(f"GSSAPI needs Kerberos's library (libgssapi-krb5-2 on Debian): {error}") from None
    return gssapi


def default_realm() -> str:
    """Of the library's configuration; "" where it has none."""
    gssapi = library()
    try:
        name = str(gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos))
    except gssapi.exceptions.GSSError:
        return ""
    return name.partition("@")[2]


class Service:
    """The server's side: a principal and its key."""

    def __init__(self, principal: str, keytab: str) -> None:
        """ConfigError, which names both, when the keytab has no key for it. The keys are read anew for each context."""
        self._gssapi = gssapi = library()
        _check_keytab(keytab)
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            self._credentials = gssapi.Credentials(
                name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store={"keytab": f"FILE:{keytab}"}
            )
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(f"the keytab {keytab} does not do for {principal}: {_words(error)}") from None

    def context(self) -> SecurityContext:
        """A new one, of a client that comes."""
        return _Context(self._gssapi, self._gssapi.SecurityContext(creds=self._credentials, usage="accept"))


class Tickets:
    """The client's side: tickets of one principal, from its keytab or from a cache that `kinit` fills."""

    def __init__(self, principal: str = "", keytab: str = "", cache: str = "") -> None:
        """Without a keytab those of the cache, "" for the library's. ConfigError for a keytab that cannot be read."""
        self._gssapi = library()
        self._principal = principal
        self._store: dict[str, str] = {}
        self._whose = f"{principal or 'anybody'} in {cache or 'the cache of tickets'}"
        if keytab:
            _check_keytab(keytab)
            self._whose = f"{principal} with the keytab {keytab}"
            # One cache in memory for each principal of a keytab: however many clients there are, there are no more caches.
            which = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:32]
            self._store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:odradek-{which}"}
        elif cache:
            self._store = {"ccache": cache if ":" in cache else f"FILE:{cache}"}
        self._lock = threading.Lock()

    def context(self, service: str, host: str) -> SecurityContext:
        """A new one with service/host; SaslError where no ticket is to be had."""
        gssapi = self._gssapi
        try:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
            with self._lock:  # else each of many connections asks the KDC for the same first ticket
                credentials = gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store or None)
            target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            made = gssapi.SecurityContext(name=target, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags)
        except gssapi.exceptions.GSSError as error:
            raise SaslError(f"no ticket for {self._whose}: {_words(error)}") from None
        return _Context(gssapi, made)


class _Context:
    """`security.sasl.gssapi.SecurityContext`."""

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
            # An error of the step may show only now; its token for the other side is not sent, as in Java.
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
        raise ConfigError(f"{keytab} is no keytab")


def _words(error: Any) -> str:
    """What Kerberos says of it, else what GSSAPI says: one line."""
    try:
        minor = [each for each in error.get_all_statuses(error.min_code, False) if each not in ("Success", "Unknown error")]
        found = minor or error.get_all_statuses(error.maj_code, True)
    except Exception:
        return type(error).__name__
    return " ".join(" ".join(str(each) for each in found).split())
