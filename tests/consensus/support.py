"""Checks of a quorum in memory, which tests run against the core and against broken cores."""

from __future__ import annotations

from tests.consensus.simulation import Cluster, Node


def leader_of(cluster: Cluster) -> Node:
    cluster.run_until(cluster.has_leader_with_commit)
    leader = cluster.leader()
    assert leader is not None
    return leader


def followers_of(cluster: Cluster, leader: Node) -> list[Node]:
    return [node for node in cluster.nodes.values() if node is not leader]


def check_remembered_vote() -> None:
    """A voter that crashes right after its vote must not vote for another in the same epoch. (That the vote is on the disk before it is
    given is the shell's to see to: tests/controller/test_kraft_durability.py.)
    """
    from odradek.consensus.messages import RequestReceived, VoteRequest, VoteResponse
    from odradek.consensus.voters import ReplicaKey

    cluster = Cluster(9)
    node = cluster.nodes[1]
    node.start()
    assert node.raft is not None
    granted: list[bool] = []

    def ask(candidate: int) -> None:
        request = VoteRequest(ReplicaKey(1), ReplicaKey(candidate), 7, 0, 0)

        def answered(response: object) -> None:
            assert isinstance(response, VoteResponse)
            granted.append(response.granted)

        node.receive(lambda token: RequestReceived(token, request), answered)

    ask(2)
    node.crash()
    node.start()
    ask(3)
    ask(2)
    assert granted == [True, False, True], granted


def check_former_epochs() -> None:
    """Figure 8 of the Raft paper: a record on a majority can still be overwritten by a leader that never saw it."""
    cluster = Cluster(12, voters=5, delay_ms=1, flush_ms=1)
    cluster.start()
    first = leader_of(cluster)
    cluster.propose()
    cluster.run_until(cluster.converged)
    holder, *others = followers_of(cluster, first)
    for node in others:
        cluster.isolate(node.id)
    common = first.log.end.offset
    for _ in range(9):
        cluster.propose()
    cluster.run_until(lambda: holder.log.end == first.log.end and holder.log.flushed == holder.log.end.offset)
    first.crash()
    holder.crash()
    cluster.heal()
    cluster.run_until(lambda: cluster.leader() is not None)
    rival = cluster.leader()
    assert rival in others
    assert rival is not None
    cluster.isolate(rival.id)
    cluster.run(5)
    rival.crash()
    cluster.heal()
    behind, away = (node for node in others if node is not rival)
    away.crash()
    assert (rival.log.end.offset, behind.log.end.offset) == (common + 1, common), "nobody else has the rival's record"
    first.start()
    holder.start()
    cluster.run_until(lambda: behind.log.end.offset > common + 4 and behind.log.flushed == behind.log.end.offset)
    cluster.run(3)
    former = behind.log.end.epoch
    assert former < rival.log.end.epoch, "it has old records alone, and now three of five have them"
    first.crash()
    holder.crash()
    away.start()
    rival.start()
    cluster.run_until(lambda: cluster.leader() is rival)
    first.start()
    holder.start()
    cluster.run_until(cluster.converged)
    assert all(batch.epoch != former or batch.end_offset <= common for batch in first.log.batches)
