"""Which of several quotas holds for a client, and who shares it."""

from __future__ import annotations

import itertools
import random
from math import inf, nan

import pytest

from odradek.base.addresses import address_of
from odradek.quotas.entities import (
    ADDRESS_KEYS,
    CLIENT_KEYS,
    DEFAULT,
    Level,
    Name,
    Owner,
    QuotaTable,
    value_problem,
)

ORDER: list[tuple[Name, Name]] = [
    ("u", "c"),
    ("u", DEFAULT),
    ("u", None),
    (DEFAULT, "c"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "c"),
    (None, DEFAULT),
]
SHARED = {(True, True): Owner("u", "c"), (True, False): Owner("u", ""), (False, True): Owner("", "c")}


def table_of(*entities: tuple[Name, Name]) -> QuotaTable:
    table = QuotaTable()
    for entity in entities:
        table.update(*entity, limit=float(ORDER.index(entity) + 1))
    return table


@pytest.mark.parametrize("count", range(1, len(ORDER) + 1))
def test_the_first_that_there_is_holds(count: int) -> None:
    for entities in itertools.combinations(ORDER, count):
        table = table_of(*entities)
        owner = table.owner("u", "c")
        first = min(entities, key=ORDER.index)
        assert owner == SHARED[first[0] is not None, first[1] is not None], entities
        assert table.limit(owner) == ORDER.index(first) + 1, entities


def test_somebody_else_has_the_defaults_only() -> None:
    table = table_of(*ORDER)
    assert table.limit(table.owner("v", "d")) == ORDER.index((DEFAULT, DEFAULT)) + 1
    assert table.limit(table.owner("v", "c")) == ORDER.index((DEFAULT, "c")) + 1
    assert table.limit(table.owner("u", "d")) == ORDER.index(("u", DEFAULT)) + 1


def test_quotas_of_one_kind_are_looked_for_alone() -> None:
    table = table_of(("u", "c"))
    assert table.owner("v", "d") == Owner("v", "d")
    assert table.limit(Owner("v", "d")) is None
    table = table_of(("u", None))
    assert table.owner("v", "d") == Owner("v", "")
    table = table_of((None, "c"))
    assert table.owner("v", "d") == Owner("", "d")
    assert table_of().owner("v", "d") == Owner("", "d")


def test_a_client_without_an_id_has_no_quota_of_client_ids() -> None:
    table = table_of((None, DEFAULT), (DEFAULT, DEFAULT))
    assert table.limit(table.owner("u", "")) is None


def test_levels_follow_what_there_is() -> None:
    rng = random.Random(4)
    table, there = QuotaTable(), set[tuple[Name, Name]]()
    for _ in range(300):
        entity = rng.choice(ORDER)
        if rng.random() < 0.5:
            table.update(*entity, limit=rng.random())
            there.add(entity)
        else:
            table.update(*entity, limit=None)
            there.discard(entity)
        expected = Level.NONE
        for user, client in there:
            expected |= (
                Level.USER_CLIENT_ID if user is not None and client is not None else Level.USER if user is not None else Level.CLIENT_ID
            )
        assert table.levels == expected


@pytest.mark.parametrize(
    ("keys", "key", "value", "problem"),
    [
        (CLIENT_KEYS, "producer_byte_rate", 1.0, None),
        (CLIENT_KEYS, "request_percentage", 0.25, None),
        (CLIENT_KEYS, "request_percentage", inf, None),
        (CLIENT_KEYS, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (CLIENT_KEYS, "producer_byte_rate", 1e300, "Proposed value for producer_byte_rate is too large for a LONG."),
        (CLIENT_KEYS, "consumer_byte_rate", 0.0, "Quota consumer_byte_rate must be greater than 0"),
        (CLIENT_KEYS, "controller_mutation_rate", -1.0, "Quota controller_mutation_rate must be greater than 0"),
        (CLIENT_KEYS, "controller_mutation_rate", nan, "Quota controller_mutation_rate must be greater than 0"),
        (CLIENT_KEYS, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (ADDRESS_KEYS, "connection_creation_rate", 2.0**31, "Proposed value for connection_creation_rate is too large for an INT."),
        (ADDRESS_KEYS, "connection_creation_rate", 5.0, None),
        (ADDRESS_KEYS, "producer_byte_rate", 5.0, "Invalid configuration key producer_byte_rate"),
    ],
)
def test_values_that_a_quota_may_have(keys: dict[str, str], key: str, value: float, problem: str | None) -> None:
    assert value_problem(keys, key, value) == problem


def test_addresses_are_known_by_one_name() -> None:
    assert address_of("::ffff:10.0.0.1") == address_of("10.0.0.1") == "10.0.0.1"
    assert address_of("0:0::1") == address_of("::1") == "0:0:0:0:0:0:0:1"
    assert address_of("fe80::1%eth0") == "fe80:0:0:0:0:0:0:1"
    assert address_of("no.such.host") is None
