"""Changes of quotas of users, client ids and addresses (org.apache.kafka.controller.ClientQuotaControlManager, KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.base.addresses import address_of
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext, check_size
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from odradek.protocol.messages.metadata_records import ClientQuotaRecord
from odradek.quotas.entities import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER, value_problem

Entry = AlterClientQuotasRequest.EntryData
Answer = AlterClientQuotasResponse.EntryData
Part = AlterClientQuotasResponse.EntityData

_Entity = tuple[tuple[str, str | None], ...]
_EMPTY = "Invalid empty client quota entity"


def alter_client_quotas(
    context: ControllerContext, request: AlterClientQuotasRequest, version: int
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas; each entity succeeds or fails independently (AlterClientQuotas, 49).

    An entity that is named twice is changed by its first entry, and fails.

    ACL: ALTER_CONFIGS on Cluster. Quota: request time.
    Known gaps: an IP entity must be an address; host names are not resolved.
    """
    records: list[VersionedRecord] = []
    problems: dict[_Entity, KafkaError | None] = {}
    for entry in request.entries:
        entity = _entity(entry)
        keys = [op.key for op in entry.ops]
        if entity in problems or len(set(keys)) < len(keys):
            problems[entity] = KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_entity_text(entity)}")
            continue
        try:
            its_records = _altered(context, entity, {op.key: None if op.remove else op.value for op in entry.ops})
        except KafkaError as error:
            problems[entity] = error
        else:
            problems[entity] = None
            records += its_records
            check_size(len(records))
    response = AlterClientQuotasResponse(entries=[_answer(entity, problem) for entity, problem in problems.items()])
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def alter_client_quotas_error(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Return a response with `error` for every entity of the request."""
    entities = dict.fromkeys(_entity(entry) for entry in request.entries)
    return AlterClientQuotasResponse(entries=[_answer(entity, error) for entity in entities])


def _entity(entry: Entry) -> _Entity:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    return tuple(sorted(parts.items(), key=lambda pair: pair[0]))


def _answer(entity: _Entity, problem: KafkaError | None) -> Answer:
    parts = [Part(entity_type=kind, entity_name=name) for kind, name in entity]
    if problem is None:
        return Answer(error_code=ErrorCode.NONE, error_message=None, entity=parts)
    return Answer(error_code=problem.code, error_message=problem.message, entity=parts)


def _entity_text(entity: _Entity) -> str:
    named = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{named}}})"


def _altered(context: ControllerContext, entity: _Entity, wanted: Mapping[str, float | None]) -> list[VersionedRecord]:
    """Return the records that set the entity's quotas as wanted. Raises KafkaError INVALID_REQUEST for an invalid entity, key or value."""
    keys = _keys(dict(entity))
    current = context.state.client_quotas.get(entity) or {}
    records: list[VersionedRecord] = []
    for key, value in wanted.items():
        parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        if value is None:
            if key in current:
                records.append(VersionedRecord(ClientQuotaRecord(entity=parts, key=key, remove=True), 0))
            continue
        problem = value_problem(keys, key, value)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        if current.get(key) != value:
            records.append(VersionedRecord(ClientQuotaRecord(entity=parts, key=key, value=value), 0))
    return records


def _keys(parts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the quota keys that the entity may have. Raises KafkaError INVALID_REQUEST for an invalid entity."""
    if not parts:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _EMPTY)
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    if IP not in parts:
        return CLIENT_KEYS
    if len(parts) > 1:
        text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    address = parts[IP]
    if address is not None and address_of(address) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")
    return ADDRESS_KEYS
