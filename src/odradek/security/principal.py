"""Who sends a request (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"
"""The kind of principals that are made of authentication."""


class Principal(NamedTuple):
    """A kind and a name, in text "User:alice". Equality and text are those of kind and name, however it was authenticated."""

    kind: str
    name: str
    token_authenticated: bool = False
    """Whether it came with a delegation token (KIP-48): such a one may not ask for further tokens."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the reverse of `str`; kind and name may be empty, as in Kafka (SecurityUtils.parseKafkaPrincipal).

        Raises ValueError for a text without a colon. Text of the metadata goes through `stored`.
        """
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(kind, name)

    @classmethod
    def stored(cls, text: str) -> Principal:
        """Return the principal of a record in the metadata. Another implementation may have written a text without a colon: its kind
        is empty.
        """
        return cls.parse(text) if ":" in text else cls("", text)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A connection that has not authenticated (KafkaPrincipal.ANONYMOUS)."""


def parse_super_users(text: str) -> frozenset[str]:
    """Principals as text, of "User:alice;User:bob" (super.users); ValueError for what is not KIND:NAME."""
    return frozenset(str(Principal.parse(part)) for part in map(str.strip, text.split(";")) if part)
