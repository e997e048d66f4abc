"""Client quotas of a node, updated from the metadata (kafka.server.QuotaFactory, kafka.server.metadata.ClientQuotaMetadataManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.base.addresses import address_of
from odradek.quotas.clients import ClientRates, Usages
from odradek.quotas.entities import CLIENT_ID, CONNECTION_RATE, DEFAULT, IP, USER, Name, QuotaKind
from odradek.quotas.mutations import MutationRates
from odradek.quotas.samples import SampledRate, TokenBucket, Window

Entity = tuple[tuple[str, str | None], ...]
"""(kind, name) pairs as in the cluster image; the name None stands for the default entity."""
Changes = Mapping[Entity, Mapping[str, float | None]]
"""Entity -> key -> value; None for a removed quota."""


class ClientQuotas:
    """Client quotas of one broker or controller. Each node enforces the quotas separately."""

    __slots__ = ("fetch", "mutation", "produce", "request")

    def __init__(self, window: Window, mutation_window: Window) -> None:
        self.produce = ClientRates(QuotaKind.PRODUCE, window)
        self.fetch = ClientRates(QuotaKind.FETCH, window)
        self.request = ClientRates(QuotaKind.REQUEST, window)
        self.mutation = MutationRates(mutation_window)

    @property
    def enabled(self) -> bool:
        """Return whether any client quota exists."""
        return self.produce.enabled or self.fetch.enabled or self.request.enabled or self.mutation.enabled

    def apply(self, changes: Changes) -> None:
        """Apply changed quotas. Unknown keys, and entities without a user or client id, are ignored."""
        usages: dict[str, Usages[SampledRate] | Usages[TokenBucket]] = {
            QuotaKind.PRODUCE.value: self.produce.usages,
            QuotaKind.FETCH.value: self.fetch.usages,
            QuotaKind.REQUEST.value: self.request.usages,
            QuotaKind.MUTATION.value: self.mutation.usages,
        }
        for entity, values in changes.items():
            parts = dict(entity)
            if IP in parts or not parts.keys() <= {USER, CLIENT_ID}:
                continue
            user, client_id = _name(parts, USER), _name(parts, CLIENT_ID)
            if user is None and client_id is None:
                continue
            for key, limit in values.items():
                if key in usages:
                    usages[key].table.update(user, client_id, limit)
        for each in usages.values():
            each.settle()


def address_changes(changes: Changes) -> Iterable[tuple[str | None, int | None]]:
    """Yield (address, connections per second) for each changed connection rate.

    The address None stands for the default quota, the rate None for a removed quota. Names that cannot be parsed as addresses are skipped.
    """
    for entity, values in changes.items():
        parts = dict(entity)
        if parts.keys() != {IP} or CONNECTION_RATE not in values:
            continue
        name, rate = parts[IP], values[CONNECTION_RATE]
        address = None if name is None else address_of(name)
        if name is None or address is not None:
            yield address, None if rate is None else int(rate)


def _name(parts: Mapping[str, str | None], kind: str) -> Name:
    if kind not in parts:
        return None
    name = parts[kind]
    return DEFAULT if name is None else name
