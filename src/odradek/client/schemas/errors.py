"""Errors of schemas, of encoded values, and of registries."""

from __future__ import annotations

from odradek.base.errors import OdradekError
from odradek.client.core.serialization import SerializationError


class SchemaError(SerializationError):
    """Error for a schema that cannot be used because of its text, its type, or its references."""


class WireFormatError(SerializationError):
    """Error for bytes that do not begin with a valid prefix of the wire format."""


class UnknownSchema(SchemaError):
    """Error for an unknown id, GUID, subject or version."""


class UndecodableValue(SerializationError):
    """Error for bytes that do not fit their schema."""


class UnencodableValue(SerializationError):
    """Error for a value that does not fit its schema."""


class RegistryError(OdradekError):
    """Error for a registry that cannot be reached, or that refuses a request.

    `status` is the HTTP status, `code` the registry's own; 0 if unknown.
    """

    def __init__(self, message: str, status: int = 0, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def one_line(error: object) -> str:
    """Return the text of an error, or of a registry's message, in one line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
