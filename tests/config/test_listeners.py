"""Lists of listeners beside what Kafka's documentation says of them, for lists that nobody has thought of."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.config.listeners import Endpoint, parse_listeners, parse_security_protocol_map

HOSTS = {"": "", "broker.example": "", "127.0.0.1": "4", "10.1.2.3": "4", "[::1]": "6", "[fe80::1%eth0]": "6"}
"""Host as it is written -> the family of an address, "" for none."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLACES = st.tuples(st.sampled_from(sorted(HOSTS)), st.sampled_from((0, 9092, 9092, 9093)))
NAMES = st.permutations("ABCDE") | st.lists(st.sampled_from("ABCDE"), min_size=4, max_size=4)
ENTRIES = st.builds(
    lambda names, places: [(name, *place) for name, place in zip(names, places, strict=False)], NAMES, st.lists(PLACES, max_size=4)
)


def fits(entries: list[tuple[str, str, int]]) -> bool:
    """Names differ; a port is used once, or once for each of IPv4 and IPv6 (KIP-797); 0 as often as one likes."""
    names = [name for name, _, _ in entries]
    taken = sorted((port, HOSTS[host]) for _, host, port in entries if port)
    by_port = [[family for _, family in group] for _, group in groupby(taken, lambda each: each[0])]
    return len(set(names)) == len(names) and all(len(families) == 1 or families == ["4", "6"] for families in by_port)


@example([("A", "127.0.0.1", 9092), ("B", "10.1.2.3", 9092), ("C", "[::1]", 9092)], [*PROTOCOLS, "SSL"])
@given(ENTRIES, st.lists(st.sampled_from(PROTOCOLS), min_size=5, max_size=5))
def test_a_port_is_used_once_or_by_one_address_of_each_family(entries: list[tuple[str, str, int]], protocols: list[str]) -> None:
    served = dict(zip("ABCDE", protocols, strict=True))
    texts = [f" {name.lower()}://{host}:{port} " for name, host, port in entries]
    if fits(entries):
        expected = [Endpoint(name, served[name], host.strip("[]"), port) for name, host, port in entries]
        assert parse_listeners("listeners", texts, served) == expected
        assert [str(each) for each in expected] == [f"{name}://{host}:{port}" for name, host, port in entries]
    else:
        with pytest.raises(ConfigError, match=r"^listeners: each listener must have a different"):
            parse_listeners("listeners", texts, served)


@given(ENTRIES)
def test_behind_a_proxy_only_the_names_differ(entries: list[tuple[str, str, int]]) -> None:
    texts = [f"{name}://{host}:{port}" for name, host, port in entries]
    names = [name for name, _, _ in entries]
    try:
        found = parse_listeners("advertised.listeners", texts, dict.fromkeys("ABCDE", "SSL"), distinct_ports=False)
    except ConfigError:
        assert len(set(names)) < len(names)
    else:
        assert [each.listener for each in found] == names


@given(st.dictionaries(st.sampled_from("ABCDE"), st.sampled_from(PROTOCOLS)), st.booleans())
def test_the_map_of_protocols_is_read_as_it_is_written(protocols: dict[str, str], small: bool) -> None:
    text = " , ".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    assert parse_security_protocol_map("listener.security.protocol.map", text.lower() if small else text) == protocols


@pytest.mark.parametrize("text", ["A", "A:", "A:TLS", "A:SSL,B", "A:SSL:PLAIN"])
def test_what_is_no_protocol_is_refused_with_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        parse_security_protocol_map("listener.security.protocol.map", text)


@pytest.mark.parametrize("text", ["A", "A:9092", "A://host", "A://host:port", "A://ho st:1", "F://host:1", "A://host:65536", "A://host:-2"])
def test_what_is_no_listener_is_refused_with_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        parse_listeners("listeners", [text], {"A": "SSL"})
