"""Quotas are what the metadata says, whatever was set, changed and taken back before, in whatever order."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.config.broker import standalone_config
from odradek.consensus.messages import LeaderAndEpoch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.protocol.messages.metadata_records import ClientQuotaRecord
from odradek.quotas.managers import Changes
from odradek.server.requests.quota_publisher import QuotaPublisher
from odradek.server.requests.throttling import Throttling
from tests.clock import ManualClock

Entity = tuple[tuple[str, str | None], ...]
ENTITIES: tuple[Entity, ...] = (
    (("user", "alice"),),
    (("user", None),),
    (("client-id", "app"), ("user", "alice")),
    (("client-id", "app"),),
    (("ip", "10.0.0.1"),),
    (("ip", None),),
)
CLIENT_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
ADDRESS_KEYS = ("connection_creation_rate",)


def keys_of(entity: Entity) -> tuple[str, ...]:
    return ADDRESS_KEYS if entity[0][0] == "ip" else CLIENT_KEYS


QUOTAS = [(entity, key) for entity in ENTITIES for key in keys_of(entity)]


class Followed:
    """A publisher, and what it has told the two that keep quotas."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.image = EMPTY
        self.addresses: dict[Entity, dict[str, float]] = {}
        self.services: Any = SimpleNamespace(
            clock=self.clock,
            config=standalone_config({"node.id": "1", "log.dirs": "/data"}),
        )
        self.dispatcher: Any = SimpleNamespace(throttling=None)
        limits: Any = SimpleNamespace(addresses=lambda changes: take(self.addresses, changes))
        self.jobs: Any = SimpleNamespace(throttling=None)
        self.publisher = QuotaPublisher(self.services, self.dispatcher, limits, self.jobs)

    @property
    def throttling(self) -> Throttling | None:
        return cast("Throttling | None", self.dispatcher.throttling)

    def publish(self, *changes: tuple[Entity, str, float | None]) -> None:
        """An image in which these quotas have these values; None for those that are gone."""
        delta = MetadataDelta(self.image)
        for entity, key, value in changes:
            parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            delta.replay(ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None))
        self.image = delta.apply(MetadataProvenance(self.image.offset + 1, 1, 0))
        self.publisher.publish(delta, self.image, LeaderAndEpoch(None, 1))

    def limits(self, user: str, client_id: str, scope: str = "broker") -> dict[str, float | None]:
        """What holds for a client now, on listeners of brokers or of controllers."""
        if self.throttling is None:
            return dict.fromkeys(CLIENT_KEYS)
        quotas = self.throttling.quotas[scope]
        rates = (quotas.produce, quotas.fetch, quotas.request, quotas.mutation)
        tables = [rate.usages.table for rate in rates]
        return {key: each.limit(each.owner(user, client_id)) for key, each in zip(CLIENT_KEYS, tables, strict=True)}


def take(into: dict[Entity, dict[str, float]], changes: Changes) -> None:
    for entity, values in changes.items():
        kept = into.setdefault(entity, {})
        for key, value in values.items():
            if value is None:
                kept.pop(key)
            else:
                kept[key] = value
        if not kept:
            del into[entity]


def expected(quotas: Mapping[tuple[Entity, str], float], user: str, client_id: str, key: str) -> float | None:
    """The quota that Kafka's documentation gives the client: the first there is, the most particular first."""
    order: tuple[Entity, ...] = (
        (("client-id", client_id), ("user", user)),
        (("user", user),),
        (("user", None),),
        (("client-id", client_id),),
    )
    return next((quotas[entity, key] for entity in order if (entity, key) in quotas), None)


class Quotas(RuleBasedStateMachine):
    """Images that set and take back several quotas at once; each is checked for several clients."""

    def __init__(self) -> None:
        super().__init__()
        self.followed = Followed()
        self.quotas: dict[tuple[Entity, str], float] = {}

    @rule(
        changes=st.lists(st.tuples(st.sampled_from(QUOTAS), st.none() | st.sampled_from((1.0, 2.0))), max_size=4, unique_by=lambda c: c[0])
    )
    def image(self, changes: list[tuple[tuple[Entity, str], float | None]]) -> None:
        for where, value in changes:
            if value is None:
                self.quotas.pop(where, None)
            else:
                self.quotas[where] = value
        self.followed.publish(*((*where, value) for where, value in changes))

    @rule()
    def all_are_taken_back(self) -> None:
        self.followed.publish(*((*where, None) for where in self.quotas))
        self.quotas.clear()

    @rule(hours=st.sampled_from((0.5, 2)))
    def time_passes(self, hours: float) -> None:
        self.followed.clock.advance_s(hours * 3600)

    @invariant()
    def holds(self) -> None:
        for user in ("alice", "bob"):
            for client_id in ("app", "other"):
                wanted = {key: expected(self.quotas, user, client_id, key) for key in CLIENT_KEYS}
                for scope in ("broker", "controller"):
                    assert self.followed.limits(user, client_id, scope) == wanted
        of_addresses = {entity: {key: value} for (entity, key), value in self.quotas.items() if key in ADDRESS_KEYS}
        assert {entity: values for entity, values in self.followed.addresses.items() if entity[0][0] == "ip"} == of_addresses
        assert (self.followed.throttling is None) is not any(key in CLIENT_KEYS for _, key in self.quotas)
        assert self.followed.jobs.throttling is self.followed.throttling


TestQuotas = Quotas.TestCase
TestQuotas.settings = settings(max_examples=60, stateful_step_count=15)


ALICE: Entity = (("user", "alice"),)


def test_one_of_several_quotas_of_an_entity_is_taken_back() -> None:
    followed = Followed()
    followed.publish((ALICE, "producer_byte_rate", 1.0), (ALICE, "consumer_byte_rate", 2.0))
    followed.publish((ALICE, "consumer_byte_rate", None))
    assert followed.limits("alice", "app") == {**dict.fromkeys(CLIENT_KEYS), "producer_byte_rate": 1.0}


@pytest.mark.parametrize(("hours", "kept"), [(0.9, True), (1.1, False)])
def test_what_was_used_is_remembered_for_an_hour_without_quotas(hours: float, kept: bool) -> None:
    followed = Followed()
    followed.publish((ALICE, "producer_byte_rate", 1.0))
    first = followed.throttling
    followed.publish((ALICE, "producer_byte_rate", None))
    assert followed.throttling is None
    followed.clock.advance_s(hours * 3600)
    followed.publish((ALICE, "producer_byte_rate", 1.0))
    assert (followed.throttling is first) is kept
