"""Parser of configurations in the notation of Kafka's scripts: `k1=v1,k2=[v1,v2]`, and SCRAM credentials in the values."""

from __future__ import annotations

import re
from typing import Final

from odradek.client.admin.types.security import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

MECHANISMS: Final = {mechanism.name.replace("_", "-"): mechanism for mechanism in ScramMechanism}
"""Mechanisms by name: SCRAM-SHA-256 and SCRAM-SHA-512."""
_CREDENTIAL: Final = re.compile(r"(?:iterations=([0-9]{1,9}),)?password=(.+)", re.DOTALL)


def pairs(text: str) -> dict[str, str]:
    """Return the pairs of `k1=v1,k2=[v1,v2]`. Commas between brackets belong to the value, brackets around the value do not.

    Raises ValueError for a malformed pair and for a key that occurs twice.
    """
    found: dict[str, str] = {}
    for part in _parts(text):
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key:
            raise ValueError(f"{part.strip()}: expected KEY=VALUE; put a value with commas in [ ]")
        if key in found:
            raise ValueError(f"{key} is given twice")
        found[key] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def _parts(text: str) -> list[str]:
    parts: list[str] = []
    depth = begin = 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth = max(depth - 1, 0)  # A ] without its [ belongs to a value.
        elif character == "," and not depth:
            parts.append(text[begin:position])
            begin = position + 1
    return [*parts, text[begin:]]


def names(text: str) -> list[str]:
    """Return the names of `k1,k2`. Raises ValueError for an empty name."""
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise ValueError(f"{text}: expected KEY,KEY")
    return found


def credential(user: str, mechanism: str, text: str) -> UserScramCredentialUpsertion:
    """Return the user's credential from `iterations=8192,password=secret`. Without iterations: 4096.

    The password is the whole text after `password=`. Raises ValueError for a malformed text.
    """
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{mechanism}: expected {mechanism}=[iterations=N,password=PASSWORD]")
    return UserScramCredentialUpsertion(user, MECHANISMS[mechanism], found[2], int(found[1] or 4096))


def no_credential(user: str, mechanism: str) -> UserScramCredentialDeletion:
    """Return the deletion of the user's credential."""
    return UserScramCredentialDeletion(user, MECHANISMS[mechanism])
