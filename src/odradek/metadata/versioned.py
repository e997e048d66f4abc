"""A metadata record on its way to the log."""

from __future__ import annotations

from typing import NamedTuple


class VersionedRecord(NamedTuple):
    """A message of `protocol.messages.metadata_records` and the version to write it in (ApiMessageAndVersion)."""

    message: object
    version: int
