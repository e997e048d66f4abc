"""A few runs of the model of the consumer; the campaign has 20,000."""

from __future__ import annotations

from tests.campaigns.consumer_model import campaign


def test_consumers_hand_out_each_record_once_whatever_ends_their_calls() -> None:
    failed, done = campaign(runs=40, seed=8, lent=4)
    assert not failed
    assert {"poll", "iterate", "interrupted", "seek", "commit", "joins", "leaves", "leader_moves", "refused", "cut"} <= set(done)
    assert done["ended early"]
