"""What can be wrong with a schema, with the bytes that name it, and with who keeps it."""

from __future__ import annotations

from odradek.base.errors import OdradekError
from odradek.client.core.serialization import SerializationError


class SchemaError(SerializationError):
    """A schema that cannot be used: its text, its type, or what it refers to."""


class WireFormatError(SerializationError):
    """Bytes that do not begin as the wire format has it."""


class UnknownSchema(SchemaError):
    """There is no such id, GUID, subject or version."""


class UndecodableValue(SerializationError):
    """Bytes that are not what their schema says."""


class UnencodableValue(SerializationError):
    """A value that does not fit its schema."""


class RegistryError(OdradekError):
    """A registry that cannot be reached, or refuses. `status` is HTTP's, `code` the registry's own; 0 where there is none."""

    def __init__(self, message: str, status: int = 0, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def one_line(error: object) -> str:
    """The text of an error, or of another's answer, in one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
