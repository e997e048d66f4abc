"""The blocking admin client.

with Admin(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("topic", 3)])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from odradek.base.ids import TopicPartition
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.config import Setting
from odradek.client.core.metadata import TopicInfo
from odradek.client.loop_thread import shared_loop
from odradek.client.metrics import MetricName
from odradek.client.types import ClusterDescription, ConfigChange, ConfigEntry, ConfigResource, CreatedTopic, FeatureLevels, NewTopic


class Admin:
    """As `AsyncAdmin`, for code without an event loop."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit."""
        self._admin = AsyncAdmin(config, **settings)
        self._thread = shared_loop()
        self._thread.run(self._admin.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Creates topics; raises the KafkaError of the first one that was refused (the others may exist then)."""
        return self._thread.run(lambda: self._admin.create_topics(topics, validate_only=validate_only))

    def try_create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """As `create_topics`, with the errors in the results."""
        return self._thread.run(lambda: self._admin.try_create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics; raises the KafkaError of the first one that was refused."""
        self._thread.run(lambda: self._admin.delete_topics(names))

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raises the number of partitions of topics to these totals."""
        self._thread.run(lambda: self._admin.create_partitions(counts, validate_only=validate_only))

    def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """All topics by name, Kafka's own only with `internal`."""
        return self._thread.run(lambda: self._admin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """Partitions and leadership of topics; KafkaError for a topic that does not exist."""
        return self._thread.run(lambda: self._admin.describe_topics(names))

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Sequence[str] | None = None, documentation: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """The configuration of topics and brokers, all keys or only `names`."""
        return self._thread.run(lambda: self._admin.describe_configs(resources, names=names, documentation=documentation))

    def incremental_alter_configs(self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False) -> None:
        """Changes single keys of topics and brokers; raises the KafkaError of the first resource that was refused."""
        self._thread.run(lambda: self._admin.incremental_alter_configs(changes, validate_only=validate_only))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets (-1: all that are there) and returns the new beginnings."""
        return self._thread.run(lambda: self._admin.delete_records(offsets))

    def describe_cluster(self) -> ClusterDescription:
        """Cluster id, controller and brokers."""
        return self._thread.run(self._admin.describe_cluster)

    def describe_features(self) -> list[FeatureLevels]:
        """All features that a broker knows, by name."""
        return self._thread.run(self._admin.describe_features)

    def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Finalizes these levels, all or none; raises the KafkaError of the first one that was refused. See `AsyncAdmin`."""
        self._thread.run(lambda: self._admin.update_features(levels, downgrade=downgrade, unsafe=unsafe, validate_only=validate_only))

    def metrics(self) -> dict[MetricName, float]:
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        metrics = self._admin.metrics

        async def call() -> dict[MetricName, float]:
            return metrics()

        return self._thread.run(call)

    def close(self) -> None:
        """Closes the connections."""
        self._thread.run(self._admin.close)
