# pyarrow has no types:
# pyright: reportMissingTypeStubs=false
"""Error message for the optional dependency pyarrow."""

from __future__ import annotations

from odradek.base.errors import OdradekError


def need_pyarrow() -> None:
    """Raise OdradekError, which says what to install, unless pyarrow is installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise OdradekError("Arrow batches need pyarrow: pip install 'odradek[arrow]'") from None
    del pa
