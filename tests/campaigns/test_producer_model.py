"""A slice of the model of the producer."""

from __future__ import annotations

from tests.campaigns.producer_model import campaign


def test_a_few_dozen_producers_keep_what_they_promise() -> None:
    campaign(runs=40, seed=1)
