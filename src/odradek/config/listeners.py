"""Listeners in the form `NAME://host:port` (org.apache.kafka.common.Endpoint, SocketServerConfigs.listenerListToEndPoints)."""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.base.addresses import host_port
from odradek.base.errors import ConfigError
from odradek.config.definition import invalid

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Wire id by name (org.apache.kafka.common.security.auth.SecurityProtocol)."""

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class Endpoint(NamedTuple):
    """Address of a listener. `host` is "" for all interfaces; IPv6 addresses have no brackets."""

    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{host_port(self.host, self.port)}"


def parse_security_protocol_map(name: str, text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,...` into protocol by listener name. Raises ConfigError naming the key."""
    found: dict[str, str] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        listener, colon, protocol = entry.strip().rpartition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        if not colon:
            raise invalid(name, text, f"{entry.strip()!r} must have the form LISTENER:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise invalid(name, text, f"the security protocol of {listener} must be one of {', '.join(SECURITY_PROTOCOLS)}, not {protocol}")
        found[listener] = protocol
    return found


def parse_listeners(name: str, entries: list[str], protocols: dict[str, str], *, distinct_ports: bool = True) -> list[Endpoint]:
    """Return the endpoints of a list of listeners. Raises ConfigError naming the key.

    Listener names must differ. With `distinct_ports` ports other than 0 must differ too, unless one port is bound once on IPv4 and once on
    IPv6.
    """
    endpoints: list[Endpoint] = []
    for entry in entries:
        match = _LISTENER.fullmatch(entry.strip())
        if match is None:
            raise invalid(name, entry, "a listener must have the form NAME://host:port, such as PLAINTEXT://localhost:9092")
        listener, host, port = match[1].upper(), match[2], int(match[3])
        if listener not in protocols:
            raise invalid(
                name,
                entry,
                f"No security protocol defined for listener {listener}; add {listener}:PLAINTEXT to listener.security.protocol.map",
            )
        if not -1 <= port <= 65535:
            raise invalid(name, entry, f"the port {port} is not in 0..65535")
        endpoints.append(Endpoint(listener, protocols[listener], host, port))
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"{name}: each listener must have a different name, listeners: {','.join(entries)}")
    if distinct_ports:
        _check_ports(name, entries, endpoints)
    return endpoints


def _check_ports(name: str, entries: list[str], endpoints: list[Endpoint]) -> None:
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints:
        if endpoint.port > 0:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) == 1:
            continue
        families = sorted("6" if ":" in host else "4" if re.fullmatch(r"[0-9.]+", host) else "?" for host in hosts)
        if families != ["4", "6"]:
            raise ConfigError(
                f"{name}: each listener must have a different port (or share one between an IPv4 and an IPv6 address); "
                f"{port} is used more than once in {','.join(entries)}"
            )
