"""`--add-scram MECHANISM=[name=...,password=...]` of `storage format` (org.apache.kafka.metadata.storage.ScramParser)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable

from odradek.base.errors import OdradekError
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import UserScramCredentialRecord
from odradek.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, keys_of, salted_password

_CODES = {name: code for code, name in SCRAM_MECHANISMS.items()}
_SALT_BYTES = 16


class ScramArgumentError(OdradekError):
    """Error in an --add-scram argument. The text never contains the password."""


def scram_records(arguments: Iterable[str], random_bytes: Callable[[int], bytes]) -> list[VersionedRecord]:
    """Return one record per credential.

    `random_bytes` generates the salts that are not given. Raises ScramArgumentError for a bad argument.
    """
    return [VersionedRecord(_record(each.strip(), random_bytes), 0) for each in arguments]


def _record(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    mechanism, equals, rest = argument.partition("=")
    if not equals:
        raise ScramArgumentError("Failed to find equals sign in the argument of --add-scram; its form is MECHANISM=[name=...,password=...]")
    if mechanism not in _CODES:
        raise ScramArgumentError(f"The add-scram mechanism {mechanism} is not supported.")
    if not rest.startswith("["):
        raise ScramArgumentError("Expected configuration string to start with [")
    if not rest.endswith("]"):
        raise ScramArgumentError("Expected configuration string to end with ]")
    return _credential(mechanism, dict(_component(each) for each in rest[1:-1].split(",")), random_bytes)


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.strip().partition("=")
    if not equals:
        raise ScramArgumentError("No equals sign found in a SCRAM component; name and password must not contain a comma")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name, value


def _credential(mechanism: str, given: dict[str, str], random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    name = given.pop("name", None)
    if name is None:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    salt_text, iterations = given.pop("salt", None), _iterations(mechanism, given.pop("iterations", None))
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    if (password is None) == (salted_text is None):
        raise ScramArgumentError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if salted_text is not None and salt_text is None:
        raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
    if given:
        raise ScramArgumentError(f"Unknown SCRAM configurations: {','.join(sorted(given))}")
    salt = random_bytes(_SALT_BYTES) if salt_text is None else _decoded("salt", salt_text)
    if password is not None:
        salted = salted_password(mechanism, password, salt, iterations)
    else:
        salted = _decoded("saltedPassword", salted_text or "")
    keys = keys_of(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=_CODES[mechanism],
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


def _iterations(mechanism: str, text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ScramArgumentError(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < MIN_ITERATIONS:
        raise ScramArgumentError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {mechanism}")
    if iterations > MAX_ITERATIONS:
        raise ScramArgumentError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {mechanism}")
    return iterations


def _decoded(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramArgumentError(f"Failed to decode given {what}: it is not base64") from None
