"""Tests that the checks of the campaigns on mixed and rolling clusters report violations."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.records.batch import encode_batch
from tests.campaigns.mixed_brokers import ENDS, Story
from tests.campaigns.mixed_cluster import BROKERS, MixedBrokers
from tests.campaigns.rolling import COPIED, Client, Roll


class Told(Client):
    """Client with observations that the test sets."""

    topic = COPIED

    def produce(self) -> None: ...

    def consume(self) -> None: ...


def client(sent: int, acked: int, read: int, *latencies: float, errors: tuple[str, ...] = ()) -> Told:
    told = Told("")
    told.sent = sent
    told.acked = {str(number) for number in range(acked)}
    told.read = {str(number) for number in range(read)}
    told.latencies = list(latencies)
    told.errors = list(errors)
    return told


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (client(2, 2, 2, 0.1, 1.9), None),
        (client(2, 2, 2, 0.1, 0.2, errors=("refused",)), "no-errors: confluent: refused"),
        (client(3, 2, 2, 0.1, 0.2), "no-errors: confluent: 1 of 3"),
        (client(2, 0, 0), "no-errors: confluent: 2 of 2"),
        (client(2, 2, 1, 0.1, 0.2), "all-read: confluent: 1 of 2"),
        (client(2, 2, 2, *[0.1] * 98, 2.5, 2.5), "latency: confluent: the 99th percentile"),
    ],
)
def test_clients_that_were_told_errors_or_waited_for_long_are_seen(seen: Told, complaint: str | None, tmp_path: Path) -> None:
    problems = Roll("restart", 1, 1, tmp_path).judge_client(seen)
    assert [problem.startswith(complaint or "") for problem in problems] == [True] * (complaint is not None)


def test_replicas_that_differ_are_seen(tmp_path: Path) -> None:
    cluster = MixedBrokers(tmp_path, ["odradek", "jvm", "jvm"], ["jvm"])
    for broker, values in ((1, [b"a", b"b"]), (2, [b"a", b"b"]), (3, [b"a", b"c"])):
        folder = cluster.nodes[broker].data / "orders-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(
            b"".join([encode_batch([(0, None, value, ())], base_offset=at) for at, value in enumerate(values)])
        )
    assert cluster.differences("orders", 0, [1, 2]) == []
    (problem,) = cluster.differences("orders", 0, [1, 2, 3])
    assert problem.startswith("replicas-differ: orders-0: 1 (odradek) has offsets 1 to 1")
    with (cluster.nodes[2].data / "orders-0" / f"{0:020}.log").open("ab") as log:
        log.write(b"torn")
    assert cluster.differences("orders", 0, [1, 2]) == ["replicas-differ: orders-0, behind the last batch"]


def test_brokers_of_both_kinds_end_in_every_way(tmp_path: Path) -> None:
    for seed in range(4):
        (folder := tmp_path / str(seed)).mkdir()
        story = Story(seed, folder, None, 6)  # type: ignore[arg-type]
        ends = story.ends()
        found = {(story.cluster.members[broker].kind, how) for broker, how in ends}
        assert found == {(kind, how) for kind in ("odradek", "jvm") for how in ENDS}
        assert {broker for broker, _ in ends} <= set(BROKERS)
        assert {story.cluster.members[broker].kind for broker in BROKERS} == {"odradek", "jvm"}
