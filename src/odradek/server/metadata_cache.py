"""The broker's view of the cluster: the last image that was published to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage


class MetadataCache:
    """Holds the current immutable image. Read `image` once per request, so that one answer comes from one state of the cluster."""

    __slots__ = ("image",)

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
