"""A few runs of the model of the consumer; the campaign has 20,000."""

from __future__ import annotations

from collections import Counter

from tests.campaigns.consumer_model import Story, World


def test_consumers_hand_out_each_record_once_whatever_ends_their_calls() -> None:
    done: Counter[str] = Counter()
    with World() as world:
        for number in range(40):
            done += world.run(7, number)
    assert {step.__name__ for step in (*Story.STEPS, *Story.RARE)} <= set(done)
    assert done["ended early"]
    assert done["refused"]
