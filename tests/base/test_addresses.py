"""Addresses in Java's form. The table was recorded of InetAddress.getByName(...).getHostAddress() (JDK 21)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odradek
from odradek.base.addresses import address_of, host_address, host_port

RECORDED = {
    "::1": "0:0:0:0:0:0:0:1",
    "0:0:0:0:0:0:0:1": "0:0:0:0:0:0:0:1",
    "::ffff:10.0.0.1": "10.0.0.1",
    "::ffff:a00:1": "10.0.0.1",
    "::10.0.0.1": "0:0:0:0:0:0:a00:1",
    "2001:DB8::00ff:0": "2001:db8:0:0:0:0:ff:0",
    "fe80::1%2": "fe80:0:0:0:0:0:0:1%2",
    "::": "0:0:0:0:0:0:0:0",
    "10.0.0.1": "10.0.0.1",
    "64:ff9b::1.2.3.4": "64:ff9b:0:0:0:0:102:304",
}


@pytest.mark.parametrize(("text", "java"), RECORDED.items())
def test_addresses_are_written_as_java_writes_them(text: str, java: str) -> None:
    assert host_address(text) == host_address(java) == java
    assert address_of(text) == java.partition("%")[0]


@pytest.mark.parametrize("text", ["*", "", "localhost", "a:b", "::1::", "[::1]", "10.0.0.1:9092", "1::%"])
def test_what_is_no_address_stays_as_it_is(text: str) -> None:
    assert host_address(text) == text


@pytest.mark.parametrize(
    ("host", "written"),
    [("::1", "[::1]:9"), ("fe80::1%2", "[fe80::1%2]:9"), ("10.0.0.1", "10.0.0.1:9"), ("a.example", "a.example:9"), ("", ":9")],
)
def test_a_host_of_ipv6_has_brackets_before_a_port(host: str, written: str) -> None:
    assert host_port(host, 9) == written


def test_nobody_else_puts_host_and_port_together() -> None:
    """The id of a connection has Kafka's form, without brackets."""
    source = Path(odradek.__file__).parent
    together = re.compile(r"\{[^{}]*(host|name)\b[^{}]*\}:\{[^{}]*port\b")
    found = {
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        if not path.is_relative_to(source / "testing")
        for line in path.read_text().splitlines()
        if together.search(line) and "connection_id =" not in line
    }
    assert {each.partition(":")[0] for each in found} == {"base/addresses.py"}, found
