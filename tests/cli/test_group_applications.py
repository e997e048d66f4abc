"""`odradek groups reset-application` against an embedded broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.groups import group_applications
from odradek.cli.groups.group_applications import Moves, apply, internal_topics
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.admin.types.groups import GroupState
from tests.cli.conftest import Command

DRY = "odradek groups: nothing was changed; add --execute to make the changes\n"


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


def fill(bootstrap: str, admin: Admin, **topics: int) -> None:
    """Topics of two partitions, with so many records in the first."""
    names = {name.replace("_", "-"): count for name, count in topics.items()}
    admin.create_topics([NewTopic(name, 2, 1) for name in names])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for name, count in names.items():
            for number in range(count):
                producer.send(name, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number * 1000)


def offsets(admin: Admin, group: str) -> dict[str, int]:
    found = admin.list_consumer_group_offsets([group])[group]
    return {f"{each.topic}-{each.partition}": at.offset for each, at in found.items() if at is not None}


def beginning(admin: Admin, application: str) -> list[str]:
    return sorted(each.name for each in admin.list_topics() if each.name.startswith(f"{application}-"))


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(100)
        yield consumer


def test_names_tell_which_topics_are_internal() -> None:
    mine = [
        "app-x-changelog",
        "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000012-topic",
        "app-a-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-7-topic",
        "app-y-repartition",
        "app-z-subscription-registration-topic",
        "app-z-subscription-response-topic",
    ]
    others = ["app", "app-out", "app2-x-changelog", "other-x-repartition", "app-x-changelogs", "app-fk-JOIN-SUBSCRIPTION-RESPONSE-7-topic"]
    assert internal_topics("app", [*others, *mine, "app-in-repartition"], {"app-in-repartition"}) == sorted(mine)
    assert internal_topics("a.p", ["app-x-changelog"], ()) == []


def test_an_application_begins_anew_once_that_is_meant(bootstrap: str, admin: Admin, command: Command) -> None:
    fill(bootstrap, admin, reset1_in=10, reset1_between=5, reset1_app_x_changelog=0, reset1_app_out=0)
    words = ["groups", "reset-application", "reset1-app", "--input-topics", "reset1-in", "--intermediate-topics", "reset1-between"]
    admin.alter_consumer_group_offsets("reset1-app", {TopicPartition("reset1-in", 0): 8})
    expected = (
        "ACTION  TOPIC                   PARTITION  CURRENT-OFFSET  NEW-OFFSET\n"
        "reset   reset1-between                  0               -           5\n"
        "reset   reset1-between                  1               -           0\n"
        "reset   reset1-in                       0               8           0\n"
        "reset   reset1-in                       1               -           0\n"
        "delete  reset1-app-x-changelog          -               -           -\n"
    )
    assert command(*words, "-b", bootstrap) == (0, expected, DRY)
    assert offsets(admin, "reset1-app") == {"reset1-in-0": 8}
    assert beginning(admin, "reset1-app") == ["reset1-app-out", "reset1-app-x-changelog"]
    assert command(*words, "--execute", "-b", bootstrap) == (0, expected, "")
    assert offsets(admin, "reset1-app") == {"reset1-in-0": 0, "reset1-in-1": 0, "reset1-between-0": 5, "reset1-between-1": 0}
    assert beginning(admin, "reset1-app") == ["reset1-app-out"]


@pytest.mark.parametrize(
    ("scenario", "first", "second"),
    [
        ("--to-earliest", 0, 0),
        ("--to-latest", 10, 0),
        ("--to-offset 4", 4, 0),
        ("--to-offset 40", 10, 0),
        ("--shift-by -3", 3, None),
        ("--to-datetime 2023-11-14T22:13:24.500", 5, 0),
        ("--by-duration PT1S", 10, 0),
        ("--from-file {file}", 7, 0),
    ],
)
def test_input_topics_go_where_they_are_told(
    bootstrap: str, admin: Admin, command: Command, tmp_path: Path, scenario: str, first: int, second: int | None, request: Any
) -> None:
    name = f"reset2-{request.node.callspec.indices['scenario']}"
    fill(bootstrap, admin, **{f"{name}-in": 10})
    admin.alter_consumer_group_offsets(name, {TopicPartition(f"{name}-in", 0): 6})
    (tmp_path / "plan").write_text(f"{name}-in,0,7\n{name}-in,1,0\n")
    words = [
        "kafka-streams-application-reset.sh",
        "--application-id",
        name,
        "--input-topics",
        f"{name}-in",
        "--bootstrap-server",
        bootstrap,
    ]
    dry = command(*words, *scenario.format(file=tmp_path / "plan").split(), "--dry-run", "-J")
    found = {row["partition"]: (row["current_offset"], row["new_offset"]) for row in json.loads(dry.out)}
    assert found == {0: (6, first), **({} if second is None else {1: (None, second)})}
    assert offsets(admin, name) == {f"{name}-in-0": 6}
    done = command(*words, *scenario.format(file=tmp_path / "plan").split())
    assert done.status == dry.status == (1 if second is None else 0)
    assert offsets(admin, name) == {f"{name}-in-{number}": at for number, at in ((0, first), (1, second)) if at is not None}


def test_topics_that_are_not_there_make_the_status_one(bootstrap: str, admin: Admin, command: Command) -> None:
    fill(bootstrap, admin, reset3_in=3, reset3_x_changelog=0)
    words = ["groups", "reset-application", "reset3", "--input-topics", "reset3-none,reset3-in", "--execute", "-J", "-b", bootstrap]
    answer = command(*words)
    assert answer.status == 1
    assert answer.err == "odradek groups: topic reset3-none does not exist; `odradek topics list` shows all topics\n"
    assert [row["action"] for row in json.loads(answer.out)] == ["reset", "reset", "delete"]
    nothing = command("groups", "reset-application", "reset3", "--intermediate-topics", "reset3-none", "-J", "-b", bootstrap)
    assert (nothing.status, nothing.out) == (1, "[]\n")
    assert command("groups", "reset-application", "reset3", "-b", bootstrap) == (0, "", "")


def test_only_internal_topics_are_deleted_and_only_those_named(bootstrap: str, admin: Admin, command: Command) -> None:
    fill(bootstrap, admin, reset4_a_changelog=0, reset4_b_changelog=0, reset4_out=0)
    words = ["groups", "reset-application", "--application-id", "reset4", "--execute", "-b", bootstrap]
    for named in ("reset4-out", "there", "reset4-a-changelog,reset4-out"):
        refused = command(*words, "--internal-topics", named)
        problem = "not an internal topic of application reset4; omit --internal-topics to see them"
        assert (refused.status, refused.out, refused.err) == (1, "", f"odradek groups: {named.split(',')[-1]} is {problem}\n")
    assert command(*words, "--internal-topics", "reset4-b-changelog").status == 0
    assert beginning(admin, "reset4") == ["reset4-a-changelog", "reset4-out"]


def test_an_application_that_runs_is_left_alone_unless_forced(bootstrap: str, admin: Admin, command: Command) -> None:
    fill(bootstrap, admin, reset5_in=3, reset5_x_repartition=0)
    words = ["groups", "reset-application", "reset5", "--input-topics", "reset5-in", "-b", bootstrap]
    with member(bootstrap, "reset5", "reset5-in"):
        refused = command(*words, "--execute")
        way_out = "stop all of its instances, or remove the members with --force"
        assert (refused.status, refused.out, refused.err) == (1, "", f"odradek groups: application reset5 has 1 member; {way_out}\n")
        told = command(*words, "--force", "-J")
        assert told.status == 0
        assert told.err == f"odradek groups: would remove 1 member of application reset5\n{DRY}"
        assert len(admin.describe_consumer_groups(["reset5"])["reset5"].members) == 1
        assert beginning(admin, "reset5") == ["reset5-in", "reset5-x-repartition"]
        done = command(*words, "--force", "--execute")
        assert (done.status, done.err) == (0, "odradek groups: removing 1 member of application reset5\n")
        assert beginning(admin, "reset5") == ["reset5-in"]
    assert offsets(admin, "reset5") == {"reset5-in-0": 0, "reset5-in-1": 0}


def test_a_file_is_about_input_topics_and_all_of_them(bootstrap: str, admin: Admin, command: Command, tmp_path: Path) -> None:
    fill(bootstrap, admin, reset6_in=3)
    plan = tmp_path / "plan"
    words = ["groups", "reset-application", "reset6", "--input-topics", "reset6-in", "--from-file", str(plan), "-J", "-b", bootstrap]
    plan.write_text("reset6-in,0,2\n")
    answer = command(*words)
    assert (answer.status, len(json.loads(answer.out))) == (1, 1)
    assert "reset6-in-1 is not in the file; its offset stays unchanged" in answer.err
    plan.write_text("there,0,2\n")
    assert command(*words).err == "odradek groups: the file has an offset for there-0, which is not a partition of --input-topics\n"


class Refusing:
    """An Admin whose broker moves no offsets."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def try_alter_consumer_group_offsets(self, _: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, KafkaError | None]:
        return {each: KafkaError(ErrorCode.REBALANCE_IN_PROGRESS) if each.partition else None for each in offsets}

    def try_delete_topics(self, topics: list[str]) -> dict[str, None]:
        self.deleted += topics
        return dict.fromkeys(topics)


def test_what_it_has_made_stays_where_an_offset_cannot_move(capsys: pytest.CaptureFixture[str]) -> None:
    admin = Refusing()
    moves = Moves({}, {TopicPartition("in", 0): 1, TopicPartition("in", 1): 2}, [])
    rows, failed = apply(admin, "app", moves, ["app-x-changelog"], False, True)  # type: ignore[arg-type]
    assert ([(row["action"], row["partition"]) for row in rows], failed) == ([("reset", 0)], 1)
    assert capsys.readouterr().err == "odradek groups: app: in-1: REBALANCE_IN_PROGRESS\n"
    assert admin.deleted == []


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        ("--input-topics t", 2, "Missing argument 'APPLICATION...'; "),
        ("a --to-latest", 2, "--to-latest requires --input-topics; "),
        ("a --input-topics t --to-latest --to-offset 5", 2, "--to-latest cannot be used with --to-offset; "),
        ("a --input-topics t,u --intermediate-topics u", 2, "u is in --input-topics and in --intermediate-topics; "),
        ("a --input-topics t --to-datetime soon", 2, "--to-datetime soon: expected a time such as "),
        ("a --input-topics t --by-duration soon", 2, "--by-duration soon: expected a duration such as "),
        ("a b", 2, "give only one APPLICATION, not a and b; "),
        ("a --input-topics t --from-file /nowhere/plan", 1, "/nowhere/plan: No such file or directory"),
    ],
)
def test_mistakes(bootstrap: str, command: Command, words: str, status: int, problem: str) -> None:
    answer = command("groups", "reset-application", *words.split(), "-b", bootstrap)
    assert (answer.status, answer.out) == (status, "")
    assert answer.err.startswith(f"odradek groups: {problem}")
    assert answer.err.count("\n") == 1
    if status == 2:
        assert answer.err.endswith("see `odradek groups reset-application --help`\n")


class Occupied:
    """An Admin whose group keeps a member; also the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def try_remove_members_from_consumer_group(self, _: str, *, reason: str) -> dict[str, None]:
        assert reason
        return {}

    def try_describe_consumer_groups(self, groups: list[str]) -> dict[str, Any]:
        self.asked += 1
        self.now += 0.001
        return dict.fromkeys(groups, SimpleNamespace(members=["it"], state=GroupState.STABLE))


def test_a_group_that_keeps_a_member_is_asked_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    occupied = Occupied()
    monkeypatch.setattr(group_applications, "time", occupied)
    with pytest.raises(OdradekError, match="has 1 member again"):
        apply(occupied, "app", Moves({}, {}, []), [], True, True)  # type: ignore[arg-type]
    assert 10 <= occupied.now < 11
    assert 50 < occupied.asked < 150
