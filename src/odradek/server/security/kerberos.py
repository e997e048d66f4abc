"""Kerberos of a node: its key for clients' tickets, and its own tickets for other nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError
from odradek.config.listener_settings import listener_key
from odradek.network.kerberos import Service, Tickets, default_realm
from odradek.security.kerberos_names import KerberosShortNamer
from odradek.security.sasl.gssapi import GSSAPI, GssapiClient, GssapiServer

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred
    from odradek.config.kerberos import KerberosSettings
    from odradek.config.sasl import NodeLogin
    from odradek.server.upkeep.jobs import Jobs


class KerberosAcceptor:
    """Server's side of a listener with GSSAPI. Everything runs on the loop, except for reading the key and for the steps of exchanges."""

    def __init__(self, listener: str, settings: KerberosSettings, jobs: Jobs) -> None:
        self._key = listener_key(listener, "sasl.jaas.config", GSSAPI)
        self._settings = settings
        self._jobs = jobs
        self._service: Service | None = None
        self._namer: KerberosShortNamer | None = None

    def load(self) -> Deferred[tuple[Service, KerberosShortNamer]]:
        """Read the key. The Deferred fails with ConfigError."""
        loading = self._jobs.run(self._read)

        def loaded(done: Deferred[tuple[Service, KerberosShortNamer]]) -> None:
            if done.error is None:
                self._service, self._namer = done.result()

        loading.add_callback(loaded)
        return loading

    def exchange(self) -> GssapiServer:
        """Return a new exchange; `load` must have completed."""
        assert self._service is not None
        assert self._namer is not None
        return GssapiServer(self._service.context, self._namer.name)

    def _read(self) -> tuple[Service, KerberosShortNamer]:
        try:
            service = Service(self._settings.principal, self._settings.keytab)
        except ConfigError as error:
            raise ConfigError(f"{self._key}: {error}") from None
        return service, KerberosShortNamer(self._settings.rules, default_realm())


class KerberosLogin:
    """Login of a node at other nodes."""

    def __init__(self, login: NodeLogin) -> None:
        """Read the keytab and derive the node's name. Raises ConfigError when the keytab cannot be read, or when the rules have no name for
        the principal.
        """
        settings = login.kerberos
        assert settings is not None
        self._service = login.service
        self._tickets = Tickets(settings.principal, settings.keytab)
        realm = default_realm()
        whole = settings.principal if "@" in settings.principal else f"{settings.principal}@{realm}"
        try:
            self.name = KerberosShortNamer(settings.rules, realm).name(whole)
        except ValueError as error:
            raise ConfigError(
                f"sasl.kerberos.principal.to.local.rules: the rules do not apply to this node's own principal: {error}"
            ) from None

    def client(self, host: str) -> GssapiClient:
        """Return the client's side of a new exchange with the node at `host`."""
        return GssapiClient(partial(self._tickets.context, self._service, host))
