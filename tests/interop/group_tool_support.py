"""Groups in each state, as tests of the group tools expect them."""

from __future__ import annotations

import time

from confluent_kafka import Consumer

from interop.peers import BrokerProcess
from tests.interop.pair import PATIENCE_S, commit, create, write

T0 = 1_700_000_000_000
"""2023-11-14T22:13:20Z: the timestamp of the first record of each partition."""


COUNTS = {0: 10, 1: 20, 2: 30, 3: 0}


CLASSIC, CONSUMER, OLD, NEW, SIMPLE = "t-live-classic", "t-live-consumer", "t-left-classic", "t-left-consumer", "t-simple"


MEMBERS = 2


def member(broker: BrokerProcess, group: str, name: str, protocol: str, *, static: bool) -> Consumer:
    settings: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "client.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
        "max.poll.interval.ms": 1_800_000,
    }
    if protocol == "consumer":
        settings["group.remote.assignor"] = "range"
    else:
        settings |= {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 200}
    source = Consumer(settings | ({"group.instance.id": f"instance-{name}"} if static else {}))
    source.subscribe(["t-orders"])
    return source


def settle(members: list[Consumer], partitions: int) -> None:
    """Polls until the partitions are dealt out evenly."""
    deadline = time.monotonic() + PATIENCE_S
    while [len(each.assignment()) for each in members] != [partitions // len(members)] * len(members):
        for each in members:
            each.poll(0.05)
        assert time.monotonic() < deadline, [each.assignment() for each in members]


def prepare(broker: BrokerProcess) -> list[Consumer]:
    """Topics, groups that members have left with offsets committed, and groups that have members, which are returned."""
    create(broker, **{"t-orders": 4, "t-returns": 2})
    write(broker, "t-orders", COUNTS, T0)
    write(broker, "t-returns", {0: 5, 1: 5}, T0)
    living: list[Consumer] = []
    for group, protocol in ((OLD, "classic"), (NEW, "consumer"), (CLASSIC, "classic"), (CONSUMER, "consumer")):
        stays = group in (CLASSIC, CONSUMER)
        members = [member(broker, group, name, protocol, static=stays) for name in ("a", "b")[: MEMBERS if stays else 1]]
        settle(members, 4)
        for each in members:
            each.commit(offsets=[found for found in each.assignment() if _at(found, 3)], asynchronous=False)
        if stays:
            living += members
        else:
            for each in members:
                each.close()
    commit(broker, SIMPLE, **{"t-orders": (1, 2, 3), "t-returns": (4,)})
    return living


def _at(partition: object, offset: int) -> bool:
    partition.offset = offset  # type: ignore[attr-defined]
    return True
