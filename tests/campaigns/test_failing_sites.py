"""A slice of the campaign `failing_sites`: one fault of each kind that has found a bug."""

from __future__ import annotations

import errno

import pytest

from tests.campaigns.failing_sites import Fault, Site, play

EPOCHS = Site("create", "_write_lines < write_epoch_checkpoint")
FLUSH_OF_A_MOVE = Site("fsync", "Flush.run < FutureReplicas._flush.run")
DELETION = Site("rename", "Log.rename_directory < LogManager._dispose")
NEW_LOG = Site("mkdir", "make_log < LogCreation.run")


def test_a_fault_is_read_as_it_was_printed() -> None:
    fault = Fault("moves", 3, FLUSH_OF_A_MOVE, 12, errno.EROFS, lasting=True, end="power cut", started_with_it=True)
    assert Fault.parse(str(fault)) == fault


@pytest.mark.parametrize(
    "fault",
    [
        Fault("creation", 1, NEW_LOG, 3, errno.ENOSPC, lasting=True, end="kill"),
        Fault("moves", 1, FLUSH_OF_A_MOVE, 12, errno.EROFS, lasting=True, end="power cut"),
        Fault("moves", 1, EPOCHS, 2, errno.EIO),
        Fault("deletion", 1, DELETION, 1, errno.ENOSPC, lasting=True),
    ],
    ids=lambda fault: f"{fault.scenario}: {fault.site.operation}",
)
def test_a_call_that_fails_costs_no_record_and_no_leader(fault: Fault) -> None:
    outcome = play(fault)
    assert outcome.problems == []
    assert outcome.struck
