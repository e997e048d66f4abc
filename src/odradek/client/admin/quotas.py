"""Admin calls for client quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import Outcomes, outcome
from odradek.client.admin.per_item import raising_only
from odradek.client.admin.types.security import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
)
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def describe_quotas_request(components: Iterable[ClientQuotaFilterComponent], strict: bool) -> DescribeClientQuotasRequest:
    """Build the request. Raises ValueError for an unknown type of entity."""
    wanted: list[DescribeClientQuotasRequest.ComponentData] = []
    for each in components:
        if each.entity_type not in _FIELDS:
            raise ValueError(f"an entity type must be one of {', '.join(_FIELDS)}, not {each.entity_type!r}")
        kind = _ANY if each.name is None else _DEFAULT if not each.name else _EXACT
        wanted.append(
            DescribeClientQuotasRequest.ComponentData(
                entity_type=each.entity_type, match_type=kind, match=each.name if kind == _EXACT else None
            )
        )
    return DescribeClientQuotasRequest(components=wanted, strict=strict)


def described_quotas(response: DescribeClientQuotasResponse) -> dict[ClientQuotaEntity, dict[str, float]]:
    """Return the quotas of every entity. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "client quotas")
    found: dict[ClientQuotaEntity, dict[str, float]] = {}
    for entry in response.entries or ():
        entity = _entity((each.entity_type, each.entity_name) for each in entry.entity)
        found[entity] = {each.key: each.value for each in entry.values}
    return found


def alter_quotas_request(alterations: Iterable[ClientQuotaAlteration], validate_only: bool) -> AlterClientQuotasRequest:
    """Build the request that sets quotas, and removes those with the value None."""
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[
                AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name or None)
                for kind, field in _FIELDS.items()
                if (name := getattr(each.entity, field)) is not None
            ],
            ops=[
                AlterClientQuotasRequest.OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                for key, value in each.quotas.items()
            ],
        )
        for each in alterations
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def altered_quotas(response: AlterClientQuotasResponse) -> Outcomes[ClientQuotaEntity, None]:
    """Return None or the error of every entity."""
    found: Outcomes[ClientQuotaEntity, None] = {}
    for entry in response.entries:
        entity = _entity((each.entity_type, each.entity_name) for each in entry.entity)
        found[entity] = outcome(entry.error_code, entry.error_message, entity_label(entity))
    return found


def _entity(parts: Iterable[tuple[str, str | None]]) -> ClientQuotaEntity:
    return ClientQuotaEntity(**{_FIELDS[kind]: name or "" for kind, name in parts if kind in _FIELDS})


def entity_label(entity: ClientQuotaEntity) -> str:
    """Return the name of the entity for messages."""
    parts = [f"{kind} {name or '(default)'}" for kind, field in _FIELDS.items() if (name := getattr(entity, field)) is not None]
    return f"quotas of {', '.join(parts)}"


class QuotaCalls(AdminBase):
    """Part of `AsyncAdmin` for client quotas."""

    async def describe_client_quotas(
        self, components: Iterable[ClientQuotaFilterComponent] = (), *, strict: bool = False
    ) -> Mapping[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match all of these components, by default of all.

        `strict` excludes entities with other components.
        """
        request = describe_quotas_request(components, strict)

        async def ask(peer: Peer) -> Mapping[ClientQuotaEntity, dict[str, float]]:
            return described_quotas(await peer.call(request, DescribeClientQuotasResponse))

        return await self._any_broker("describing client quotas", ask)

    async def try_alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> Outcomes[ClientQuotaEntity, None]:
        """Set and remove quotas of entities.

        Error of an entity: INVALID_REQUEST for a key that such entities do not have, or an invalid value.
        """
        wanted = {each.entity: each for each in alterations}

        async def ask(peer: Peer, entities: Sequence[ClientQuotaEntity]) -> Outcomes[ClientQuotaEntity, None]:
            request = alter_quotas_request([wanted[each] for each in entities], validate_only)
            return altered_quotas(await peer.call(request, AlterClientQuotasResponse))

        return await self._at_controller(wanted, ask, name=entity_label)

    alter_client_quotas = raising_only(try_alter_client_quotas)
