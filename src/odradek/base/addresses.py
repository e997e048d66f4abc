"""IP addresses in the form that the broker compares, that of Java's InetAddress.getHostAddress.

An address has many texts (`::1`, `0:0:0:0:0:0:0:1`, `::ffff:10.0.0.1`). Texts in ACLs, quotas, connection limits and requests in envelopes
come from other programs. Each text is converted to this form before it is compared, never after.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def host_address(text: str) -> str:
    """Return `text` in the form of InetAddress.getHostAddress, or unchanged when it is not an address.

    IPv6 has eight groups without leading zeros, an IPv4-mapped address is written as IPv4, and a scope is kept.
    """
    if ":" not in text:
        return text
    try:
        address = ip_address(text)
    except ValueError:
        return text
    assert isinstance(address, IPv6Address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    groups = ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))
    return groups if address.scope_id is None else f"{groups}%{address.scope_id}"


def host_port(host: str, port: int) -> str:
    """Return the address in the form of settings and command lines: `HOST:PORT`, an IPv6 host in brackets.

    Messages, tables and settings show addresses in this form; tests/base/test_addresses.py finds code that builds them differently.
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def without_password(url: str) -> str:
    """Return a URL without name and password, for messages. The URL need not be valid: everything before the last "@" is left out."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def without_scope(host: str) -> str:
    """Return the address without its scope, as Java compares two InetAddress."""
    return host.partition("%")[0]


def address_of(text: str) -> str | None:
    """Return the address in `text` in the form of `host_address`, without its scope; None when `text` is not an address."""
    host = without_scope(text)
    try:
        ip_address(host)
    except ValueError:
        return None
    return host_address(host)
