"""kafka-consumer-groups and kafka-groups, every verb, on groups of both protocols with and without members: they say of Odradek what they
say of the JVM broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.group_tool_support import CLASSIC, CONSUMER, MEMBERS, NEW, OLD, SIMPLE, prepare
from tests.interop.pair import CONSUMER_GROUPS, GROUPS, Pair, commit

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def groups(pair: Pair) -> Iterator[Pair]:
    living = []
    with ThreadPoolExecutor() as threads:
        prepared = list(threads.map(prepare, pair.brokers))
    for broker, members in zip(pair.brokers, prepared, strict=True):
        living += members
        pair.spellings[broker.name] |= {each.memberid(): f"(member {number})" for number, each in enumerate(members)}
    yield pair
    for each in living:
        each.close()


# -- list --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--state",
        "--state Stable",
        "--state Empty,Stable",
        "--state dead",
        "--state nonsense",
        "--type",
        "--type classic",
        "--type consumer",
        "--type consumer,classic --state Empty",
        "--type nonsense",
        "--type classic --state",
        "--timeout 20000",
    ],
)
def test_list(groups: Pair, options: str) -> None:
    status = 1 if "nonsense" in options else 0
    said = groups.same(CONSUMER_GROUPS, "--list", *options.split(), status=status)
    if not status and options not in ("--state dead",):
        assert any(line.startswith((OLD, CONSUMER)) for line in said)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--consumer",
        "--group-type classic",
        "--group-type consumer",
        "--group-type nonsense",
        "--protocol consumer",
        "--protocol nonsense",
        "--share",
        "--streams",
    ],
)
def test_kafka_groups(groups: Pair, options: str) -> None:
    said = groups.same(GROUPS, "--list", *options.split(), status=1 if options == "--group-type nonsense" else 0)
    if options in ("", "--consumer"):
        assert f"{NEW} Consumer consumer" in said
        assert f"{CLASSIC} Classic consumer" in said


# -- describe ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbose", ["", "--verbose"])
@pytest.mark.parametrize("what", ["", "--offsets", "--members", "--state"])
@pytest.mark.parametrize("group", [CLASSIC, CONSUMER, OLD, NEW, SIMPLE, "t-missing"])
def test_describe(groups: Pair, group: str, what: str, verbose: str) -> None:
    said = groups.same(CONSUMER_GROUPS, "--describe", "--group", group, *f"{what} {verbose}".split(), "--timeout", "20000")
    rows = [line for line in said if line.startswith(group)]
    if group == "t-missing":
        assert not rows
    elif what in ("", "--offsets"):
        assert len(rows) == 4
    elif what == "--members":
        assert len(rows) == (MEMBERS if "live" in group else 0)
    else:
        (row,) = rows
        assert ("Stable" if "live" in group else "Empty") in row


@pytest.mark.parametrize("what", ["--offsets", "--members --verbose", "--state"])
def test_describe_several(groups: Pair, what: str) -> None:
    several = words("--group", (CLASSIC, NEW, CONSUMER))
    assert groups.same(CONSUMER_GROUPS, "--describe", *several, *what.split())
    said = groups.same(CONSUMER_GROUPS, "--describe", "--all-groups", *what.split())
    assert any(line.startswith(CONSUMER) for line in said)


# -- reset-offsets -----------------------------------------------------------------------------------------------------------------------

SCENARIOS = [
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 7",
    "--to-offset 1000",
    "--to-offset -5",
    "--to-datetime 2023-11-14T22:13:25.000",
    "--to-datetime 2023-11-14T22:13:24.500Z",
    "--to-datetime 2001-01-01T00:00:00.000",
    "--to-datetime 2099-01-01T00:00:00.000",
    "--to-datetime yesterday",
    "--by-duration P0D",
    "--by-duration P9999D",
    "--by-duration nonsense",
    "--shift-by 2",
    "--shift-by -2",
    "--shift-by 1000",
    "--shift-by -1000",
]


def committed(pair: Pair, *groups: str) -> list[str]:
    said = pair.same(CONSUMER_GROUPS, "--describe", *words("--group", groups), "--offsets")
    return [line for line in said if line.startswith(groups)]


def words(option: str, values: Iterable[str]) -> list[str]:
    """The option before each value."""
    return [word for value in values for word in (option, value)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_reset_offsets(groups: Pair, scenario: str) -> None:
    """Shown, exported and done; by partitions, then, from where that has led, by topics."""
    several = (OLD, NEW, SIMPLE)
    arguments = ("--reset-offsets", *words("--group", several), *scenario.split())
    refused = scenario.endswith(("nonsense", "yesterday"))
    before = committed(groups, *several)
    groups.same(CONSUMER_GROUPS, *arguments, "--topic", "t-orders:0,2", "--topic", "t-returns", "--dry-run")
    groups.same(CONSUMER_GROUPS, *arguments, "--all-topics", "--export")
    assert committed(groups, *several) == before
    groups.same(CONSUMER_GROUPS, *arguments, "--topic", "t-orders:0,2", "--execute")
    after = committed(groups, *several)
    assert (after == before) == (refused or scenario == "--to-current")
    groups.same(CONSUMER_GROUPS, *arguments, "--all-topics", "--execute")
    assert (committed(groups, *several) == after) == (refused or scenario == "--to-current")
    for broker in groups.brokers:
        for group in several:
            commit(broker, group, **{"t-orders": (1, 2, 3)})


def test_a_group_is_made_by_resetting_it(groups: Pair) -> None:
    arguments = ("--reset-offsets", "--group", "t-made", "--to-latest", "--topic", "t-orders")
    groups.same(CONSUMER_GROUPS, *arguments)
    assert committed(groups, "t-made") == []
    groups.same(CONSUMER_GROUPS, *arguments, "--execute")
    assert [line.split()[3] for line in committed(groups, "t-made")] == ["10", "20", "30", "0"]


def test_offsets_from_a_file(groups: Pair, tmp_path: Path) -> None:
    one, several = tmp_path / "one.csv", tmp_path / "several.csv"
    one.write_text('"t-orders",0,4\n"t-returns",1,2\n')
    groups.same(CONSUMER_GROUPS, "--reset-offsets", "--group", SIMPLE, "--from-file", str(one), "--dry-run")
    groups.same(CONSUMER_GROUPS, "--reset-offsets", "--group", SIMPLE, "--from-file", str(one), "--execute")
    assert f"{SIMPLE} t-orders 0 4 10 6 - - -" in committed(groups, SIMPLE)
    several.write_text(f'"{SIMPLE}","t-orders",0,5\n"{OLD}","t-orders",1,6\n"{OLD}","t-orders",0,999\n')
    both = ("--group", SIMPLE, "--group", OLD)
    groups.same(CONSUMER_GROUPS, "--reset-offsets", *both, "--from-file", str(several), "--execute", "--export")
    assert f"{SIMPLE} t-orders 0 5 10 5 - - -" in committed(groups, SIMPLE)
    assert f"{OLD} t-orders 0 10 10 0 - - -" in committed(groups, OLD)
    missing = str(tmp_path / "missing.csv")
    groups.same(CONSUMER_GROUPS, "--reset-offsets", "--group", SIMPLE, "--from-file", missing, "--execute", hide=[r"\S+\.java:\d+"])


def test_all_groups_are_reset(groups: Pair) -> None:
    several = words("--group", (OLD, NEW, SIMPLE))
    groups.same(CONSUMER_GROUPS, "--reset-offsets", *several, "--shift-by", "1", "--topic", "t-orders:0", "--execute", "--export")
    groups.same(CONSUMER_GROUPS, "--reset-offsets", "--all-groups", "--to-current", "--all-topics", "--dry-run")


@pytest.mark.parametrize(
    "arguments",
    [
        "--group t-simple --to-earliest",
        "--group t-simple --all-topics",
        "--group t-simple --to-earliest --topic t-nothing",
        "--group t-simple --to-earliest --topic t-orders:9",
        "--group t-simple --to-latest --topic t-orders:x",
        "--group t-simple --shift-by 1 --topic t-orders:3",
        "--to-earliest --all-topics",
        f"--group {CLASSIC} --to-earliest --all-topics --execute",
        f"--group {CONSUMER} --to-earliest --all-topics --execute",
        f"--group {CLASSIC} --group t-simple --to-current --all-topics --execute",
    ],
)
def test_what_cannot_be_reset(groups: Pair, arguments: str) -> None:
    groups.same(CONSUMER_GROUPS, "--reset-offsets", *arguments.split(), "--timeout", "3000")


# -- delete ------------------------------------------------------------------------------------------------------------------------------


def test_delete_offsets(groups: Pair) -> None:
    for broker in groups.brokers:
        for group in ("t-delete", NEW):
            commit(broker, group, **{"t-orders": (1, 2, 3), "t-returns": (4, 5)})
    for group in ("t-delete", NEW):
        for topics in ("t-orders:0,1", "t-returns", "t-orders:0 t-returns", "t-orders:9", "t-nothing"):
            groups.same(CONSUMER_GROUPS, "--delete-offsets", "--group", group, *words("--topic", topics.split()), "--timeout", "3000")
        assert [line.split()[1:3] for line in committed(groups, group)][:1] == [["t-orders", "2"]]
    for group in (CLASSIC, CONSUMER, "t-missing"):
        groups.same(CONSUMER_GROUPS, "--delete-offsets", "--group", group, "--topic", "t-orders")
    groups.same(CONSUMER_GROUPS, "--delete-offsets", "--group", CLASSIC, "--topic", "t-returns")


def test_delete(groups: Pair) -> None:
    for broker in groups.brokers:
        for group in ("t-gone-1", "t-gone-2", "t-gone-3"):
            commit(broker, group, **{"t-orders": (1,)})
    for names in (["t-gone-1"], ["t-gone-1"], ["t-gone-2", "t-missing", CLASSIC, CONSUMER], [CLASSIC], [CONSUMER], ["t-gone-3", NEW]):
        groups.same(CONSUMER_GROUPS, "--delete", *words("--group", names))
    said = groups.same(CONSUMER_GROUPS, "--list")
    assert not [line for line in said if "gone" in line or line == NEW]
    groups.same(CONSUMER_GROUPS, "--delete", "--all-groups")
    assert groups.same(CONSUMER_GROUPS, "--list") == sorted([CLASSIC, CONSUMER])


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--delete",
        "--describe",
        "--list --describe",
        "--describe --group x --members --offsets",
        "--delete --group x --topic y",
    ],
)
def test_what_is_asked_wrongly(groups: Pair, arguments: str) -> None:
    groups.same(CONSUMER_GROUPS, *arguments.split(), status=1)
