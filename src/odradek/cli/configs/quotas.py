"""Quotas of users, clients and addresses, and SCRAM credentials of users, for `odradek configs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.configs.config_text import MECHANISMS, credential, no_credential
from odradek.cli.configs.entities import DEFAULT, Entities
from odradek.cli.shared.output import Row
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.security import ClientQuotaAlteration, ClientQuotaEntity, ClientQuotaFilterComponent

_OF_CLIENTS: Final = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
_OF_ADDRESSES: Final = ("connection_creation_rate",)
_COMPONENTS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}


def quota_rows(admin: Admin, wanted: Entities) -> list[Row]:
    """Return the quotas of exactly these kinds of entities. If only users are wanted, return their SCRAM credentials, too."""
    components = [ClientQuotaFilterComponent(_COMPONENTS[of], name) for of, name in wanted.items()]
    rows: list[Row] = []
    for entity, quotas in admin.describe_client_quotas(components, strict=True).items():
        rows += [_row(entity, name, _number(value)) for name, value in sorted(quotas.items())]
    if list(wanted) == ["users"] and wanted["users"] != DEFAULT:
        rows += _credentials(admin, wanted["users"])
    return rows


def _credentials(admin: Admin, user: str | None) -> Iterable[Row]:
    for each, found in admin.try_describe_user_scram_credentials(None if user is None else [user]).items():
        if isinstance(found, KafkaError):
            if found.code is ErrorCode.RESOURCE_NOT_FOUND:
                continue
            raise found
        # Brokers return mechanisms in any order.
        for info in sorted(found, key=lambda each: each.mechanism.name):
            yield _row(ClientQuotaEntity(user=each), info.mechanism.name.replace("_", "-"), f"iterations={info.iterations}")


def _row(entity: ClientQuotaEntity, name: str, value: object) -> Row:
    return {
        "user": _label(entity.user),
        "client_id": _label(entity.client_id),
        "ip": _label(entity.ip),
        "name": name,
        "value": value,
    }


def _label(name: str | None) -> str | None:
    return "<default>" if name == DEFAULT else name


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def check_quotas(wanted: Entities, to_set: Mapping[str, str], to_delete: Iterable[str], *, validate_only: bool) -> None:
    """Raise UsageError for keys or values that the entities cannot have, and for combinations that a request cannot express."""
    keys = [*to_set, *to_delete]
    known = _OF_ADDRESSES if "ips" in wanted else _OF_CLIENTS
    secrets = [key for key in keys if key in MECHANISMS]
    unknown = [key for key in keys if key not in known and key not in secrets]
    if unknown or (secrets and "users" not in wanted):
        others = f", {' and '.join(MECHANISMS)}" if "users" in wanted else ""
        raise click.UsageError(f"{(unknown or secrets)[0]}: unknown key of {' and '.join(wanted)}; the keys are {', '.join(known)}{others}")
    if secrets:
        if len(secrets) != len(keys):
            raise click.UsageError("Cannot alter both quota and SCRAM credential configs simultaneously; use two commands")
        if "clients" in wanted or wanted["users"] == DEFAULT:
            raise click.UsageError("SCRAM credentials belong to one user; give only --user NAME")
        if validate_only:
            raise click.UsageError("--validate-only cannot be used with SCRAM credentials")
        try:
            _credentials_of("", to_set)
        except ValueError as problem:
            raise click.UsageError(f"--add-config {problem}") from None
        return
    for key, value in to_set.items():
        if not _is_number(value):
            raise click.UsageError(f"{key}={value}: expected a number")


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _credentials_of(user: str, to_set: Mapping[str, str]) -> list[object]:
    return [credential(user, mechanism, text) for mechanism, text in to_set.items()]


def alter_quotas(admin: Admin, wanted: Entities, to_set: Mapping[str, str], to_delete: list[str], *, validate_only: bool) -> None:
    """Set and remove quotas or credentials that `check_quotas` has accepted."""
    user = wanted.get("users")
    if any(key in MECHANISMS for key in (*to_set, *to_delete)):
        changes = [credential(str(user), mechanism, text) for mechanism, text in to_set.items()]
        admin.alter_user_scram_credentials([*changes, *(no_credential(str(user), mechanism) for mechanism in to_delete)])
        return
    entity = ClientQuotaEntity(user=user, client_id=wanted.get("clients"), ip=wanted.get("ips"))
    quotas: dict[str, float | None] = {key: float(value) for key, value in to_set.items()}
    admin.alter_client_quotas([ClientQuotaAlteration(entity, quotas | dict.fromkeys(to_delete))], validate_only=validate_only)
