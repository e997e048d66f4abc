# Neither has complete types:
# pyright: reportMissingTypeStubs=false, reportUnusedImport=false, reportMissingModuleSource=false
"""Checks for the optional libraries fastavro and protobuf."""

from __future__ import annotations

from odradek.base.errors import OdradekError


def need_fastavro() -> None:
    """Raise OdradekError, which tells what to install, if fastavro is missing."""
    try:
        import fastavro as fastavro
    except ImportError:
        raise OdradekError("Avro needs fastavro: pip install 'odradek[schemas]'") from None


def need_protobuf() -> None:
    """Raise OdradekError, which tells what to install, if protobuf is missing."""
    try:
        from google.protobuf import descriptor_pool as descriptor_pool
    except ImportError:
        raise OdradekError("Protobuf needs protobuf: pip install 'odradek[schemas]'") from None
