"""How large a schema may be that becomes a type of Spark."""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 50
"""Types within types."""
MAX_FIELDS: Final = 10_000
"""In all; a schema that uses a type in many places has its fields as often."""
