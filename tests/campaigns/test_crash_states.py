"""Tests that the slice of crash states in the test run would notice a broken log layer."""

from __future__ import annotations

import pytest

from odradek.storage.flushing import Flush
from odradek.testing.simulation.disk import VirtualDisk, VirtualFile
from tests.campaigns import crash_states


@pytest.mark.parametrize("fsync", [(VirtualFile, "fsync"), (VirtualDisk, "fsync_dir"), (Flush, "run")], ids=lambda each: each[1])
def test_fsyncs_that_do_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch, fsync: tuple[type, str]) -> None:
    monkeypatch.setattr(*fsync, lambda *arguments: None)
    failures = crash_states.campaign(300, 1, per_step=1).failures
    assert any(" reopens: " in failure for failure in failures), failures
