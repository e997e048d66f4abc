"""Limits for schemas that become Spark types."""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 50
"""Maximum depth of nested types."""
MAX_FIELDS: Final = 10_000
"""Maximum number of fields in all. The fields of a type count at each of its uses."""
