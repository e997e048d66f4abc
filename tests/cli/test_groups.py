"""`odradek groups`: what is shown, what is moved, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.groups.group_offsets import exported, read_plan, within
from odradek.cli.groups.group_report import end_offsets
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with `orders`: ten records in partition 0, one a second from T0, five in partition 1, none in partition 2."""
    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
    with EmbeddedBroker(settings) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("orders", 3, 1), NewTopic("returns", 1, 1)])
            for number in range(15):
                producer.send("orders", b"x", partition=number // 10, timestamp=T0 + number % 10 * 1000)
            producer.flush()
        yield servers


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def group(admin: Admin, own_name: str) -> str:
    """A group of its own with offsets 4, 5 and 0."""
    admin.alter_consumer_group_offsets(own_name, at(4, 5, 0))
    return own_name


def at(*offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", number): offset for number, offset in enumerate(offsets)}


def committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    found = admin.list_consumer_group_offsets([group])[group]
    return {partition: each.offset for partition, each in found.items() if each is not None}


@pytest.fixture
def member(bootstrap: str) -> Iterator[Consumer]:
    """The only member of `living`, which reads `orders`."""
    with Consumer(bootstrap_servers=bootstrap, group_id="living", client_id="me", enable_auto_commit=False) as consumer:
        consumer.subscribe(["orders"])
        while len(consumer.assignment()) < 3:
            consumer.poll(100, max_records=1)
        consumer.commit(at(2, 5))
        yield consumer


# -- describe -----------------------------------------------------------------------------------------------------------------------------


def test_lag_is_from_the_committed_offset_to_the_end(bootstrap: str, group: str, command: Command) -> None:
    answer = command("groups", "describe", group, "-J", "-b", bootstrap)
    assert [(row["partition"], row["current_offset"], row["log_end_offset"], row["lag"]) for row in json.loads(answer.out)] == [
        (0, 4, 10, 6),
        (1, 5, 5, 0),
        (2, 0, 0, 0),
    ]
    assert answer.err == f"odradek groups: Consumer group '{group}' has no active members.\n"
    assert answer.status == 0
    behind = command("groups", "describe", group, "--only-with-lag", "-J", "-b", bootstrap)
    assert [row["partition"] for row in json.loads(behind.out)] == [0]


def test_partitions_of_members_are_shown_with_them(bootstrap: str, member: Consumer, command: Command) -> None:
    rows = json.loads(command("groups", "describe", "living", "-J", "-b", bootstrap).out)
    assert [(row["partition"], row["current_offset"], row["lag"]) for row in rows] == [(0, 2, 8), (1, 5, 0), (2, None, None)]
    assert {(row["client_id"], row["host"]) for row in rows} == {("me", "/127.0.0.1")}
    assert rows[0]["consumer_id"].startswith("me-")
    (row,) = json.loads(command("groups", "describe", "living", "--members", "--verbose", "-J", "-b", bootstrap).out)
    assert (row["partitions"], row["current_assignment"], row["client_id"]) == (3, "orders:0,1,2", "me")
    (row,) = json.loads(command("groups", "describe", "living", "--state", "-J", "-b", bootstrap).out)
    assert (row["state"], row["members"], row["coordinator"]) == ("Stable", 1, bootstrap)


def test_a_member_without_partitions_is_shown_too(bootstrap: str, admin: Admin, command: Command) -> None:
    consumers = [Consumer(bootstrap_servers=bootstrap, group_id="crowd", client_id=f"c{number}") for number in range(2)]
    try:
        for each in consumers:
            each.subscribe(["returns"])
        while sorted(len(each.assignment()) for each in consumers) != [0, 1] or (
            admin.describe_consumer_groups(["crowd"])["crowd"].state != "Stable"
        ):
            for each in consumers:
                each.poll(50)
        rows = json.loads(command("groups", "describe", "crowd", "-J", "-b", bootstrap).out)
        assert [(row["topic"], row["partition"]) for row in rows] == [("returns", 0), (None, None)]
        assert {row["client_id"] for row in rows} == {"c0", "c1"}
    finally:
        for each in consumers:
            each.close()


def test_what_is_gone_has_no_end(admin: Admin) -> None:
    gone = [TopicPartition("orders", 7), TopicPartition("gone", 0)]
    assert end_offsets(admin, [*gone, *at(0, 0)]) == at(10, 5)


def test_all_that_are_there_are_shown_and_the_others_named(bootstrap: str, group: str, command: Command) -> None:
    answer = command("groups", "describe", group, "nobody", "-b", bootstrap)
    assert (answer.status, len(answer.out.splitlines())) == (1, 4)
    assert answer.err.splitlines()[1] == "odradek groups: Consumer group 'nobody' does not exist; `odradek groups list` shows all groups"
    assert group in command("groups", "describe", "--all-groups", "--state", "-b", bootstrap).out


# -- list ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "there"),
    [
        ((), True),
        (("--consumer",), True),
        (("--share",), False),
        (("--streams",), False),
        (("--type", "classic"), True),
        (("--group-type", "Consumer,share"), False),
        (("--state", "empty,Stable"), True),
        (("--state", "stable"), False),
        (("--state",), True),
        (("--protocol", "connect"), False),
        (("--protocol", ""), True),
    ],
)
def test_list(options: tuple[str, ...], there: bool, bootstrap: str, group: str, command: Command) -> None:
    answer = command("groups", "list", *options, "-J", "-b", bootstrap)
    assert answer.status == 0
    row = {"group": group, "type": "Classic", "protocol": "", "state": "Empty"}
    assert (row in json.loads(answer.out)) == there


# -- reset-offsets ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--to-earliest", (0, 0, 0)),
        ("--to-latest", (10, 5, 0)),
        ("--to-current", (4, 5, 0)),
        ("--to-offset 5", (5, 5, 0)),
        ("--to-offset -5", (0, 0, 0)),
        ("--shift-by -2", (2, 3, 0)),
        ("--shift-by 3", (7, 5, 0)),
        ("--to-datetime 2023-11-14T22:13:23", (3, 3, 0)),
        ("--to-datetime 2023-11-14T22:13:28.500", (9, 5, 0)),
        ("--to-datetime 1969-12-31T23:59:59.999", (0, 0, 0)),
        ("--by-duration PT1H", (10, 5, 0)),
        ("--by-duration P9999D", (0, 0, 0)),
        ("--by-duration P99999999D", (0, 0, 0)),
    ],
)
def test_where_offsets_go(options: str, expected: tuple[int, ...], bootstrap: str, admin: Admin, group: str, command: Command) -> None:
    arguments = ("groups", "reset-offsets", group, *options.split(), "--all-topics", "-J", "-b", bootstrap)
    told = command(*arguments)
    assert committed(admin, group) == at(4, 5, 0)
    assert told.err.endswith("odradek groups: nothing was changed; add --execute to make the changes\n")
    done = command(*arguments, "--execute")
    assert [(row["current_offset"], row["new_offset"]) for row in json.loads(done.out)] == list(zip((4, 5, 0), expected, strict=True))
    assert (told.status, done.status, told.out) == (0, 0, done.out)
    assert committed(admin, group) == at(*expected)


def test_only_the_partitions_that_were_named_are_moved(bootstrap: str, admin: Admin, group: str, command: Command) -> None:
    assert command("groups", "reset-offsets", group, "--topic", "orders:1,0", "--to-earliest", "--execute", "-b", bootstrap).status == 0
    assert committed(admin, group) == at(0, 0, 0)
    answer = command("groups", "reset-offsets", group, "--topic", "orders:1,3", "--to-latest", "--execute", "-b", bootstrap)
    assert (answer.status, answer.err) == (1, "odradek groups: topic orders has no partition 3; its partitions are 0 to 2\n")
    assert committed(admin, group) == at(0, 0, 0)


def test_a_partition_without_offset_cannot_be_shifted(bootstrap: str, admin: Admin, command: Command) -> None:
    admin.alter_consumer_group_offsets("partly", at(4))
    answer = command("groups", "reset-offsets", "partly", "--topic", "orders:0,1", "--shift-by", "1", "--execute", "-b", bootstrap)
    assert answer.status == 1
    assert answer.err == "odradek groups: partly: orders-1 cannot be shifted: it has no current committed offset\n"
    assert committed(admin, "partly") == at(5)
    assert command("groups", "reset-offsets", "partly", "--topic", "orders", "--to-current", "--execute", "-b", bootstrap).status == 0
    assert committed(admin, "partly") == at(5, 5, 0)


def test_a_group_with_members_stays_and_the_others_go(bootstrap: str, admin: Admin, member: Consumer, group: str, command: Command) -> None:
    answer = command("groups", "reset-offsets", "living", group, "--topic", "orders", "--to-earliest", "--execute", "-b", bootstrap)
    assert answer.status == 1
    assert answer.err == (
        "odradek groups: Assignments can only be reset if the group 'living' is inactive, but the current state is Stable; "
        "stop the members of the group first\n"
    )
    assert committed(admin, "living") == at(2, 5)
    assert committed(admin, group) == at(0, 0, 0)


def test_a_partition_that_is_not_there_is_named(bootstrap: str, admin: Admin, group: str, tmp_path: Path, command: Command) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,7\norders,7,3\ngone,0,1\n")
    answer = command("groups", "reset-offsets", group, "--from-file", str(plan), "--execute", "-b", bootstrap)
    assert answer.status == 1
    assert answer.err.splitlines() == [
        f"odradek groups: {group}: {each} does not exist; its offset stays unchanged" for each in ("orders-7", "gone-0")
    ]
    assert committed(admin, group) == at(7, 5, 0)


def test_what_was_exported_can_be_read(bootstrap: str, admin: Admin, group: str, tmp_path: Path, command: Command) -> None:
    plan = tmp_path / "plan.csv"
    exporting = command("groups", "reset-offsets", group, "--all-topics", "--shift-by", "1", "--export", "-b", bootstrap)
    assert exporting.out == "orders,0,5\norders,1,5\norders,2,0\n"
    plan.write_text(exporting.out)
    assert command("groups", "reset-offsets", group, "--from-file", str(plan), "--execute", "-b", bootstrap).status == 0
    assert committed(admin, group) == at(5, 5, 0)
    plan.write_text(f"{group},orders,0,9\nother,orders,1,99\n")
    both = ("groups", "reset-offsets", group, "other", "--from-file", str(plan), "--execute", "--export", "-b", bootstrap)
    assert command(*both).out == f"{group},orders,0,9\nother,orders,1,5\n"
    assert committed(admin, group) == at(9, 5, 0)
    assert committed(admin, "other") == {TopicPartition("orders", 1): 5}


def test_a_plan_of_odd_names_survives() -> None:
    rows = [{"group": 'a,"b', "topic": "t", "partition": 1, "new_offset": 7}]
    assert read_plan(exported(rows, with_group=True), "f", ['a,"b', "c"]) == {'a,"b': {TopicPartition("t", 1): 7}, "c": {}}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("orders,0", "f:1: expected topic,partition,offset or"),
        ("orders,x,1", "f:1: expected"),
        ("orders,0,-1,2,3", "f:1: expected"),
        (",0,1", "f:1: expected"),
        ("h,orders,0,1", "f:1: group h is not one of the groups to reset"),
        ("x" * 131_073, "f:1: field larger than field limit"),
        ("orders,0," + "9" * 5_000, "f:1: expected"),
        ("orders,0,9999999999999999999", "f:1: the partition or the offset is too large"),
        ("orders,2147483648,1", "f:1: the partition or the offset is too large"),
    ],
)
def test_a_line_that_is_no_plan(line: str, said: str) -> None:
    with pytest.raises(OdradekError, match=said):
        read_plan(line + "\n", "f", ["g"])
    with pytest.raises(OdradekError, match="because several groups are reset"):
        read_plan("orders,0,1\n", "f", ["g", "h"])


@pytest.mark.parametrize("what", [("reset-offsets", "g"), ("reset-application", "g", "--input-topics", "there")])
def test_a_plan_that_is_no_text(what: tuple[str, ...], bootstrap: str, command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(b"orders,0,1\norders\xff,0,1\n")
    wrong = f"odradek groups: {plan}:2: the byte 0xff is not UTF-8\n"
    assert command("groups", *what, "--from-file", str(plan), "-b", bootstrap) == (1, "", wrong)


def test_offsets_stay_within_their_partition() -> None:
    first, last = at(3, 3, 3), at(9, 9, 9)
    plan = within(at(2, 9, 10), first, last, [])
    assert plan.offsets == at(3, 9, 9)
    assert [remark[:8] for remark in plan.remarks] == ["orders-0", "orders-2"]


# -- delete -------------------------------------------------------------------------------------------------------------------------------


def test_groups_are_deleted_when_told_to(bootstrap: str, admin: Admin, member: Consumer, group: str, command: Command) -> None:
    told = command("groups", "delete", group, "living", "-b", bootstrap)
    assert told.out == f"Would delete group {group} with 3 committed offsets.\n"
    assert (told.status, told.err.splitlines()[0]) == (
        1,
        "odradek groups: living: NON_EMPTY_GROUP: the group has 1 member; stop the members of the group first",
    )
    assert committed(admin, group)
    done = command("groups", "delete", group, "living", "--execute", "-b", bootstrap)
    assert (done.status, done.out) == (1, f"Deleted group {group}.\n")
    assert done.err.startswith("odradek groups: living: NON_EMPTY_GROUP")
    assert not committed(admin, group)
    assert committed(admin, "living")


def test_offsets_are_deleted_when_told_to(bootstrap: str, admin: Admin, group: str, command: Command) -> None:
    arguments = ("groups", "delete-offsets", group, "--topic", "orders:0,2", "-b", bootstrap)
    assert command(*arguments).status == 0
    assert committed(admin, group) == at(4, 5, 0)
    assert command(*arguments, "--execute").status == 0
    assert committed(admin, group) == {TopicPartition("orders", 1): 5}
    answer = command(*arguments, "--topic", "returns", "--execute")
    assert answer.status == 1
    assert [line.partition(";")[0] for line in answer.err.splitlines()] == [
        f"odradek groups: group {group} has no committed offset of {each}" for each in ("orders-0", "orders-2", "returns")
    ]


def test_offsets_that_a_member_uses_stay(bootstrap: str, admin: Admin, member: Consumer, command: Command) -> None:
    answer = command("groups", "delete-offsets", "living", "--topic", "orders:0", "--execute", "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith("odradek groups: living: orders-0: GROUP_SUBSCRIBED_TO_TOPIC")
    assert committed(admin, "living") == at(2, 5)
