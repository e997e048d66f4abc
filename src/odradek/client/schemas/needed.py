# Neither has complete types:
# pyright: reportMissingTypeStubs=false, reportUnusedImport=false, reportMissingModuleSource=false
"""fastavro and protobuf are optional: what to say where they are not there."""

from __future__ import annotations

from odradek.base.errors import OdradekError


def need_fastavro() -> None:
    """OdradekError, saying what to install, where there is no fastavro."""
    try:
        import fastavro as fastavro
    except ImportError:
        raise OdradekError("Avro needs fastavro: pip install 'odradek[schemas]'") from None


def need_protobuf() -> None:
    """OdradekError, saying what to install, where there is no protobuf."""
    try:
        from google.protobuf import descriptor_pool as descriptor_pool
    except ImportError:
        raise OdradekError("Protobuf needs protobuf: pip install 'odradek[schemas]'") from None
