# pyarrow has no types:
# pyright: reportMissingTypeStubs=false
"""pyarrow is optional: what to say where it is not there."""

from __future__ import annotations

from odradek.base.errors import OdradekError


def need_pyarrow() -> None:
    """OdradekError, saying what to install, where there is no pyarrow."""
    try:
        import pyarrow as pa
    except ImportError:
        raise OdradekError("Arrow batches need pyarrow: pip install 'odradek[arrow]'") from None
    del pa
