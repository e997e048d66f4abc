"""Asyncio admin client.

async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
    await admin.create_topics([NewTopic("topic", 3)])
"""

from __future__ import annotations

from odradek.client.admin.acls import AclCalls
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.delegation_tokens import DelegationTokenCalls
from odradek.client.admin.other_groups import OtherGroupCalls
from odradek.client.admin.quorum import QuorumCalls
from odradek.client.admin.quotas import QuotaCalls
from odradek.client.admin.replicas import ReplicaCalls
from odradek.client.admin.scram_users import ScramUserCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.admin.transactions import TransactionCalls


class AsyncAdmin(
    TopicCalls,
    ConfigCalls,
    OtherGroupCalls,
    ReplicaCalls,
    TransactionCalls,
    QuorumCalls,
    AclCalls,
    ScramUserCalls,
    DelegationTokenCalls,
    QuotaCalls,
):
    """Admin client for asyncio: all calls of Kafka's Admin, by subject in the modules of this package.

    A call for several items has two forms. `x` returns the results and raises the KafkaError of the first item that failed. `try_x` returns
    a result or a KafkaError per item.

    Both forms settle every item: retriable errors are retried, item by item, until default.api.timeout.ms is over. An item that fails does
    not stop the others.
    """
