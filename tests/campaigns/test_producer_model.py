"""A slice of the model of the producer; the campaign has 20,000 runs."""

from __future__ import annotations

from tests.campaigns.producer_model import campaign


def test_a_few_dozen_producers_keep_what_they_promise() -> None:
    failed, done = campaign(runs=30, seed=4, lent=4)
    assert not failed
    assert {"send", "send_many", "commit_transaction", "refused", "cut"} <= set(done)
