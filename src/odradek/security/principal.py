"""Principal of a request (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"
"""Kind of the principals that authentication creates."""


class Principal(NamedTuple):
    """Kind and name, in text "User:alice". Equality, hash and text use kind and name only, whatever the way of authentication."""

    kind: str
    name: str
    token_authenticated: bool = False
    """Whether a delegation token authenticated the principal (KIP-48); such a principal may not request further tokens."""

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
        """Return the principal of a text that `str` wrote. Kind and name may be empty, as in Kafka (SecurityUtils.parseKafkaPrincipal).

        Raises ValueError for a text without a colon. Use `stored` for text from the metadata.
        """
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(kind, name)

    @classmethod
    def stored(cls, text: str) -> Principal:
        """Return the principal of a metadata record. A text without a colon, which another implementation may have written, has an empty
        kind.
        """
        return cls.parse(text) if ":" in text else cls("", text)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Principal of a connection without authentication (KafkaPrincipal.ANONYMOUS)."""


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals of super.users ("User:alice;User:bob") as text. Raises ValueError for a part that is not KIND:NAME."""
    return frozenset(str(Principal.parse(part)) for part in map(str.strip, text.split(";")) if part)
