"""Round-robin assignor, which deals all partitions of all topics to the members in their order.

Source: org.apache.kafka.clients.consumer.RoundRobinAssignor.
"""

from __future__ import annotations

from odradek.base.ids import TopicPartition
from odradek.client.assignors.spec import Assignment, Members, Topics, in_order


def assign(topics: Topics, members: Members) -> Assignment:
    """Assign each partition to the next member that subscribes to its topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    order = in_order(members)
    subscribed = {topic for member in members.values() for topic in member.topics}
    turn = 0
    for topic in sorted(subscribed.intersection(topics)):
        for partition in range(len(topics[topic])):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            assignment[order[turn % len(order)]].append(TopicPartition(topic, partition))
            turn += 1
    return assignment
