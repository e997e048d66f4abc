"""Resolution of server names to the addresses that are dialled (client.dns.lookup)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from odradek.base.addresses import host_port
from odradek.network.transport import ConnectionLost


def is_literal(host: str) -> bool:
    """Return whether the host is an IP address, so that no resolver has to be asked."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def addresses_of(host: str, port: int) -> list[str]:
    """Return every address of a name, in the resolver's order. Raises ConnectionLost when the name cannot be resolved."""
    if is_literal(host):
        return [host]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConnectionLost(f"cannot connect to {host_port(host, port)}: the host name cannot be resolved ({reason})") from None
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


async def canonical_servers(servers: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return each address of each server under its canonical name in the resolver (resolve_canonical_bootstrap_servers_only).

    Servers that cannot be resolved are left out. Raises ConnectionLost when no server can be resolved.
    """
    loop = asyncio.get_running_loop()
    named: list[tuple[str, int]] = []
    trouble: ConnectionLost | None = None
    for host, port in servers:
        try:
            addresses = await addresses_of(host, port)
        except ConnectionLost as error:
            trouble = error
            continue
        for address in addresses:
            try:
                name = str((await loop.getnameinfo((address, port)))[0])
            except OSError:
                name = address
            named.append((name, port))
    if trouble is not None and not named:
        raise trouble
    return list(dict.fromkeys(named))
