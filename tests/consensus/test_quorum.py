"""Three voters in memory: how they elect, replicate, disagree and come together again."""

from __future__ import annotations

import pytest

from odradek.consensus.states import Role
from tests.consensus.simulation import Cluster, Node
from tests.consensus.support import check_former_epochs, check_remembered_vote, followers_of, leader_of


def role(node: Node) -> Role:
    assert node.raft is not None
    return node.raft.role


def test_a_sole_voter_leads_at_once() -> None:
    cluster = Cluster(1, voters=1)
    cluster.start()
    node = cluster.nodes[1]
    assert role(node) is Role.LEADER, "without waiting for any timeout"
    assert node.election is not None
    assert node.election.leader_id == 1
    cluster.run(20)
    assert node.announced_high_watermark == 1, "the leader change record is committed by its fsync"


def test_a_sole_voter_never_leads_the_same_epoch_twice() -> None:
    cluster = Cluster(1, voters=1)
    cluster.start()
    cluster.run(20)
    first = cluster.nodes[1].raft
    assert first is not None
    cluster.nodes[1].crash()
    cluster.nodes[1].start()
    again = cluster.nodes[1].raft
    assert again is not None
    assert again.epoch == first.epoch + 1


@pytest.mark.parametrize("directory_ids", [False, True], ids=["static voters", "voters with directory ids"])
def test_three_voters_elect_one_and_commit(directory_ids: bool) -> None:
    cluster = Cluster(3, directory_ids=directory_ids)
    cluster.start()
    leader_of(cluster)
    for _ in range(5):
        cluster.propose()
    cluster.run_until(cluster.converged)
    assert [content for _, _, content in cluster.committed][-5:] == [f"payload {number}" for number in range(1, 6)]


def test_an_idle_quorum_keeps_its_leader() -> None:
    cluster = Cluster(4)
    cluster.start()
    leader = leader_of(cluster)
    assert leader.raft is not None
    epoch = leader.raft.epoch
    cluster.run(10_000)
    assert cluster.leader() is leader
    assert leader.raft.epoch == epoch


def test_a_leader_that_is_cut_off_steps_down_and_its_records_are_truncated() -> None:
    cluster = Cluster(5)
    cluster.start()
    old = leader_of(cluster)
    cluster.propose()
    cluster.run_until(cluster.converged)
    cluster.isolate(old.id)
    cluster.propose()
    cluster.propose()
    unreplicated = old.log.end.offset
    cluster.run_until(lambda: cluster.leader() not in (old, None) and cluster.has_leader_with_commit())
    cluster.propose()
    cluster.run(1000)
    assert role(old) is not Role.LEADER, "no majority fetched from it"
    assert old.log.end.offset == unreplicated
    cluster.heal()
    cluster.run_until(cluster.converged)
    assert "payload 2" not in [batch.content for batch in old.log.batches]
    assert "payload 4" in [batch.content for batch in old.log.batches]


def test_a_replica_that_was_cut_off_does_not_disturb_the_others() -> None:
    cluster = Cluster(6)
    cluster.start()
    leader = leader_of(cluster)
    cluster.run_until(cluster.converged)
    assert leader.raft is not None
    epoch = leader.raft.epoch
    away = followers_of(cluster, leader)[0]
    cluster.isolate(away.id)
    cluster.run(3000)
    assert role(away) in (Role.PROSPECTIVE, Role.FOLLOWER, Role.UNATTACHED)
    assert away.raft is not None
    assert away.raft.epoch == epoch, "pre-votes do not raise the epoch"
    cluster.heal()
    cluster.run_until(cluster.converged)
    assert cluster.leader() is leader
    assert leader.raft.epoch == epoch


def test_a_resigning_leader_is_followed_at_once_by_the_most_complete_voter() -> None:
    cluster = Cluster(7)
    cluster.start()
    old = leader_of(cluster)
    cluster.run_until(cluster.converged)
    before = cluster.now_ms
    cluster.resign()
    assert role(old) is Role.RESIGNED
    cluster.run_until(lambda: cluster.leader() not in (old, None))
    assert cluster.now_ms - before < cluster.timeouts.election_ms, "nobody waited for a timeout"


def test_a_lagging_follower_fetches_a_snapshot() -> None:
    cluster = Cluster(8)
    cluster.start()
    leader = leader_of(cluster)
    away = followers_of(cluster, leader)[0]
    cluster.isolate(away.id)
    for _ in range(10):
        cluster.propose()
        cluster.run(20)
    for node in cluster.nodes.values():
        if node is not away:
            cluster.take_snapshot(node)
    assert leader.log.start_offset > away.log.end.offset
    cluster.heal()
    cluster.propose()
    cluster.run_until(cluster.converged)
    assert away.chunks == 3, "100 bytes in pieces of 40"
    assert away.log.start_offset == away.log.earliest_snapshot()[0]  # type: ignore[index]


def test_a_candidate_with_a_shorter_log_gets_no_vote() -> None:
    from odradek.consensus.messages import RequestReceived, VoteRequest, VoteResponse
    from odradek.consensus.voters import ReplicaKey

    cluster = Cluster(10)
    cluster.start()
    leader_of(cluster)
    cluster.propose()
    cluster.run_until(cluster.converged)
    node = cluster.nodes[1]
    end = node.log.end
    answers: list[bool] = []
    for offset, epoch in ((end.offset - 1, end.epoch), (end.offset + 9, end.epoch - 1), (end.offset, end.epoch)):
        request = VoteRequest(ReplicaKey(1), ReplicaKey(2), 50 + len(answers), offset, epoch)

        def answered(response: object) -> None:
            assert isinstance(response, VoteResponse)
            answers.append(response.granted)

        node.receive(lambda token, request=request: RequestReceived(token, request), answered)
    assert answers == [False, False, True]


def test_all_crash_and_nothing_committed_is_lost() -> None:
    cluster = Cluster(11)
    cluster.start()
    leader_of(cluster)
    for _ in range(4):
        cluster.propose()
    cluster.run_until(lambda: any(content == "payload 4" for _, _, content in cluster.committed))
    for node in cluster.nodes.values():
        node.crash()
    cluster.start()
    cluster.run_until(cluster.converged)
    contents = [batch.content for batch in cluster.nodes[1].log.batches]
    assert [each for each in contents if isinstance(each, str)] == [f"payload {number}" for number in range(1, 5)]


def test_a_vote_binds_the_next_life() -> None:
    check_remembered_vote()


def test_records_of_a_former_epoch_are_committed_only_with_one_of_the_leaders_own() -> None:
    check_former_epochs()
