"""Parts of the metadata image that consumer groups need: topics, their hashes, and the groups' configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.coordinator.group.consumer.metadata_hash import TopicHashes
from odradek.metadata import image as images
from odradek.metadata.image import MetadataImage

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta


class TopicView:
    """View of one shard, updated with each new image."""

    __slots__ = ("hashes", "image", "version_with_new_topics")

    def __init__(self) -> None:
        self.image: MetadataImage = images.EMPTY
        self.hashes = TopicHashes()
        self.version_with_new_topics = -1
        """Offset of the last image with a new topic; patterns evaluated before may miss the topic."""

    def loaded(self, image: MetadataImage) -> None:
        self.image = image
        self.hashes.clear()
        self.version_with_new_topics = image.offset

    def update(self, delta: MetadataDelta, image: MetadataImage) -> set[str]:
        """Apply a new image; return the names of changed and deleted topics."""
        self.image = image
        if delta.topics.created_topics:
            self.version_with_new_topics = image.offset
        changed = {name for topic_id in delta.topics.changed_topics if (name := image.topics.topic_name(topic_id)) is not None}
        before = delta.image.topics
        changed |= {name for topic_id in delta.topics.deleted_topic_ids if (name := before.topic_name(topic_id)) is not None}
        self.hashes.forget(changed)
        return changed

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """Return the group's dynamic configuration."""
        return self.image.configs.of(images.RESOURCE_GROUP, group_id)

    def topic_id(self, name: str) -> UUID | None:
        return self.image.topics.topic_id(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.image.topics.topic_name(topic_id)

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Return the ids of the existing topics among `names`."""
        by_name = self.image.topics.by_name
        return frozenset([by_name[name].topic_id for name in names if name in by_name])

    def partition_counts(self, topic_ids: Iterable[UUID]) -> dict[UUID, int]:
        by_id = self.image.topics.by_id
        return {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids if topic_id in by_id}

    def named(self, partitions: Partitions | Mapping[UUID, Mapping[int, int]]) -> list[tuple[str, UUID, list[int]]]:
        """Return (name, id, sorted partitions) of the existing topics, sorted."""
        by_id = self.image.topics.by_id
        found = [(by_id[topic_id].name, topic_id, sorted(numbers)) for topic_id, numbers in partitions.items() if topic_id in by_id]
        return sorted(found)
