"""Kafka clients for Python: producer, consumer and admin, each blocking and asyncio, on one core.

from odradek.client import Producer, Consumer, Admin
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.base.errors import ConfigError as ConfigError
    from odradek.base.errors import KafkaError as KafkaError
    from odradek.base.ids import TopicPartition as TopicPartition
    from odradek.client.admin.aio import AsyncAdmin as AsyncAdmin
    from odradek.client.admin.blocking import Admin as Admin
    from odradek.client.consumer.aio import AsyncConsumer as AsyncConsumer
    from odradek.client.consumer.blocking import Consumer as Consumer
    from odradek.client.consumer.deserializers import RecordDeserializationError as RecordDeserializationError
    from odradek.client.consumer.listeners import RebalanceListener as RebalanceListener
    from odradek.client.core.offsets import CommitFailed as CommitFailed
    from odradek.client.core.partitioner import Partitioner as Partitioner
    from odradek.client.core.positions import LogTruncation as LogTruncation
    from odradek.client.core.positions import OffsetOutOfRange as OffsetOutOfRange
    from odradek.client.core.positions import TopicRecreated as TopicRecreated
    from odradek.client.core.serialization import SerializationError as SerializationError
    from odradek.client.core.subscription import SubscriptionPattern as SubscriptionPattern
    from odradek.client.core.transactions import IllegalTransactionState as IllegalTransactionState
    from odradek.client.core.transactions import PreparedTransaction as PreparedTransaction
    from odradek.client.core.transactions import TransactionAborted as TransactionAborted
    from odradek.client.core.transactions import TransactionError as TransactionError
    from odradek.client.failures import AuthenticationFailed as AuthenticationFailed
    from odradek.client.failures import ClientClosed as ClientClosed
    from odradek.client.failures import WakeupError as WakeupError
    from odradek.client.metrics import MetricName as MetricName
    from odradek.client.producer.aio import AsyncProducer as AsyncProducer
    from odradek.client.producer.blocking import Producer as Producer
    from odradek.client.producer.futures import RecordFuture as RecordFuture
    from odradek.client.producer.futures import sent_before as sent_before
    from odradek.client.types import ConfigChange as ConfigChange
    from odradek.client.types import ConfigResource as ConfigResource
    from odradek.client.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from odradek.client.types import ConsumerRecord as ConsumerRecord
    from odradek.client.types import NewTopic as NewTopic
    from odradek.client.types import OffsetAndMetadata as OffsetAndMetadata
    from odradek.client.types import ProducerRecord as ProducerRecord
    from odradek.client.types import RecordMetadata as RecordMetadata
    from odradek.security.sasl.client import OAuthToken as OAuthToken

_HOMES = {
    "Admin": "odradek.client.admin.blocking",
    "AsyncAdmin": "odradek.client.admin.aio",
    "AsyncConsumer": "odradek.client.consumer.aio",
    "AsyncProducer": "odradek.client.producer.aio",
    "AuthenticationFailed": "odradek.client.failures",
    "ClientClosed": "odradek.client.failures",
    "CommitFailed": "odradek.client.core.offsets",
    "ConfigChange": "odradek.client.types",
    "ConfigError": "odradek.base.errors",
    "ConfigResource": "odradek.client.types",
    "Consumer": "odradek.client.consumer.blocking",
    "ConsumerGroupMetadata": "odradek.client.types",
    "ConsumerRecord": "odradek.client.types",
    "IllegalTransactionState": "odradek.client.core.transactions",
    "KafkaError": "odradek.base.errors",
    "LogTruncation": "odradek.client.core.positions",
    "MetricName": "odradek.client.metrics",
    "NewTopic": "odradek.client.types",
    "OAuthToken": "odradek.security.sasl.client",
    "OffsetAndMetadata": "odradek.client.types",
    "Partitioner": "odradek.client.core.partitioner",
    "PreparedTransaction": "odradek.client.core.transactions",
    "Producer": "odradek.client.producer.blocking",
    "ProducerRecord": "odradek.client.types",
    "RebalanceListener": "odradek.client.consumer.listeners",
    "OffsetOutOfRange": "odradek.client.core.positions",
    "RecordDeserializationError": "odradek.client.consumer.deserializers",
    "RecordFuture": "odradek.client.producer.futures",
    "RecordMetadata": "odradek.client.types",
    "SerializationError": "odradek.client.core.serialization",
    "SubscriptionPattern": "odradek.client.core.subscription",
    "TopicPartition": "odradek.base.ids",
    "TopicRecreated": "odradek.client.core.positions",
    "TransactionAborted": "odradek.client.core.transactions",
    "TransactionError": "odradek.client.core.transactions",
    "WakeupError": "odradek.client.failures",
    "sent_before": "odradek.client.producer.futures",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "ClientClosed",
    "CommitFailed",
    "ConfigChange",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "IllegalTransactionState",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "Partitioner",
    "PreparedTransaction",
    "Producer",
    "ProducerRecord",
    "RebalanceListener",
    "RecordDeserializationError",
    "RecordFuture",
    "RecordMetadata",
    "SerializationError",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicRecreated",
    "TransactionAborted",
    "TransactionError",
    "WakeupError",
    "sent_before",
]


def __getattr__(name: str) -> object:
    """Import a name of the package when it is first used. Raises AttributeError for an unknown name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
