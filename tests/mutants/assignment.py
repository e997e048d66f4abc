"""Bugs of the room assignment."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "range-remainder",
        "assignment/ranges.py",
        "(index < extra)",
        "(index <= extra)",
        "a partition is assigned to two members",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "range-loses-the-remainder",
        "assignment/ranges.py",
        "end = start + each + (index < extra)",
        "end = start + each",
        "partitions beyond an even share belong to nobody",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "range-orders-by-member",
        "assignment/ranges.py",
        '    return (member.instance_id is None, member.instance_id or "", member_id)',
        '    return (True, "", member_id)',
        "a static member that restarts under another member id moves everybody's partitions",
        "assignment/test_assignors.py -k test_ranges_are_the_same_in_all_topics_and_static_members_come_first",
    ),
    Mutant(
        "uniform-loses-an-extra",
        "assignment/uniform.py",
        "        if may_have_extra:\n            extras -= 1\n",
        "        if may_have_extra:\n            extras -= 2\n",
        "a partition belongs to nobody",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "uniform-gives-nothing-back",
        "assignment/uniform.py",
        "        free += given_back\n",
        "",
        "what a member has to give up belongs to nobody",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "uniform-ignores-the-new",
        "assignment/uniform.py",
        "if partition not in taken]",
        "if topic_id not in owned]",
        "partitions that are added to a topic belong to nobody",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "uniform-does-not-stick",
        "assignment/uniform.py",
        "        if room > 0 and may_have_extra and len(members) - index > extras:",
        "        if False:",
        "members that could keep all they have give a partition up",
        "assignment/test_assignors.py -k test_uniform_gives_the_extra_partition_to_who_has_it",
    ),
    Mutant(
        "uniform-unsubscribed",
        "assignment/uniform.py",
        "        quota -= min(quota, len(partitions))\n",
        "",
        "a member keeps more than its share when it has several topics",
        "assignment/test_assignors.py -k test_uniform_is_balanced_where_all_subscribe_to_the_same",
    ),
    Mutant(
        "heterogeneous-unsubscribed",
        "assignment/heterogeneous.py",
        "                if topic_id in member.topics:\n",
        "                if topic_id in self.owners:\n",
        "a member keeps partitions of a topic that it no longer subscribes to",
        "assignment/test_assignors.py -k test_every_partition_goes_to_one_subscriber",
    ),
    Mutant(
        "heterogeneous-one-round",
        "assignment/heterogeneous.py",
        "_MOST_ROUNDS = 16",
        "_MOST_ROUNDS = 1",
        "loads stay apart by more than they have to",
        "assignment/test_assignors.py -k test_uniform_is_as_balanced_as_subscriptions_permit",
    ),
    Mutant(
        "heterogeneous-load-is-not-counted",
        "assignment/heterogeneous.py",
        "            self.sizes[owners[partition]] -= 1\n",
        "            pass\n",
        "a member that gave partitions up counts as loaded as before",
        "assignment/test_assignors.py -k test_uniform_is_as_balanced_as_subscriptions_permit",
    ),
    Mutant(
        "heterogeneous-not-balanced",
        "assignment/heterogeneous.py",
        "        return self._high - self._low <= 1",
        "        return self._high - self._low <= 2",
        "loads stay apart by two",
        "assignment/test_assignors.py -k test_uniform_is_as_balanced_as_subscriptions_permit",
    ),
    Mutant(
        "topic-order-of-python",
        "assignment/spec.py",
        "    return ((number >> 64) ^ _SIGN, (number & 0xFFFF_FFFF_FFFF_FFFF) ^ _SIGN)",
        "    return (number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF)",
        "a broker of ours and one of the JVM's assign differently, so that a move of the coordinator moves partitions",
        "assignment/test_assignors.py -k test_topics_are_in_the_order_of_java",
    ),
    Mutant(
        "unknown-topic-has-no-partitions",
        "assignment/spec.py",
        "    if count is None:\n        raise AssignorError",
        "    if count is None:\n        return 0\n        raise AssignorError",
        "a subscribed topic of which nobody knows is assigned in silence",
        "assignment/test_assignors.py -k test_topics_that_are_not_there",
    ),
)
