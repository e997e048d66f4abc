"""Creation and deletion of ACLs (org.apache.kafka.controller.AclControlManager), for the handlers in `handlers/security/acls.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import random_uuid
from odradek.base.repeats import MOST_REPEATS
from odradek.controller.core.context import MAX_RECORDS_PER_OPERATION, ControllerContext, check_size
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.protocol.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from odradek.security.acls import AccessControlEntry, AclFilter
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType

UNKNOWN = 0

E = TypeVar("E", ResourceType, PatternType, Operation, PermissionType)


class Removal(NamedTuple):
    """Result of one filter: the ACLs that it removed, or the error."""

    removed: list[AccessControlEntry]
    error: KafkaError | None = None


def create_acls(context: ControllerContext, entries: Sequence[AccessControlEntry]) -> ControllerResult[list[KafkaError | None]]:
    """Add ACLs. The response has an error for each invalid ACL, and None for each valid one, even if it exists already.

    Raises KafkaError POLICY_VIOLATION for all of them when more than 10,000 would be added.
    """
    results: list[KafkaError | None] = []
    records: list[VersionedRecord] = []
    added: set[AccessControlEntry] = set()
    for entry in entries:
        error = _problem(entry)
        results.append(error)
        if error is None and entry not in context.state.acl_ids and entry not in added:
            added.add(entry)
            records.append(VersionedRecord(_record(context, entry), 0))
            check_size(len(records))
    return ControllerResult(records, results, atomic=True)


def delete_acls(context: ControllerContext, filters: Sequence[AclFilter]) -> ControllerResult[list[Removal]]:
    """Remove the ACLs that match the filters. An ACL that matches several filters appears in the result of each.

    Raises KafkaError INVALID_REQUEST when more than 10,000 would be removed.
    """
    results: list[Removal] = []
    gone: dict[object, VersionedRecord] = {}
    former: dict[AclFilter, Removal] = {}
    left = MOST_REPEATS
    for wanted in filters:
        if wanted in former:
            # Results stand in the order of the filters, so a repeated filter has a result too; after MOST_REPEATS repetitions it is empty.
            left -= 1
            results.append(former[wanted] if left >= 0 else Removal([]))
            continue
        error = _filter_problem(wanted)
        if error is not None:
            results.append(Removal([], error))
            continue
        removed: list[AccessControlEntry] = []
        for acl_id, entry in context.state.acls.items():
            if wanted.matches(entry):
                if len(gone) >= MAX_RECORDS_PER_OPERATION:
                    text = f"Cannot remove more than {MAX_RECORDS_PER_OPERATION} acls in a single delete operation."
                    raise KafkaError(ErrorCode.INVALID_REQUEST, text)
                removed.append(entry)
                gone[acl_id] = VersionedRecord(RemoveAccessControlEntryRecord(id=acl_id), 0)
        former[wanted] = Removal(removed)
        results.append(former[wanted])
    return ControllerResult(list(gone.values()), results, atomic=True)


def _record(context: ControllerContext, entry: AccessControlEntry) -> AccessControlEntryRecord:
    acl_id = random_uuid(context.rng)
    while acl_id in context.state.acls:
        acl_id = random_uuid(context.rng)
    return AccessControlEntryRecord(id=acl_id, **entry._asdict())


def _problem(entry: AccessControlEntry) -> KafkaError | None:
    """Return the error of an invalid ACL, or None."""
    kind, pattern = known(ResourceType, entry.resource_type), known(PatternType, entry.pattern_type)
    operation, permission = known(Operation, entry.operation), known(PermissionType, entry.permission_type)
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        why = f"Invalid resourceType {kind.name}"
    elif pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        why = f"Invalid patternType {pattern.name}"
    elif operation in (Operation.UNKNOWN, Operation.ANY):
        why = f"Invalid operation {operation.name}"
    elif permission not in (PermissionType.DENY, PermissionType.ALLOW):
        why = f"Invalid permissionType {permission.name}"
    elif not entry.resource_name:
        why = "Resource name should not be empty"
    elif ":" not in entry.principal:
        why = (
            f"Could not parse principal from `{entry.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    else:
        return None
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def _filter_problem(wanted: AclFilter) -> KafkaError | None:
    if UNKNOWN in (known(ResourceType, wanted.resource_type), known(PatternType, wanted.pattern_type)):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if UNKNOWN in (known(Operation, wanted.operation), known(PermissionType, wanted.permission_type)):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return None


def known(kind: type[E], code: int) -> E:
    """Return the member for `code`, or UNKNOWN for a code of a later release."""
    try:
        return kind(code)
    except ValueError:
        return kind(UNKNOWN)
