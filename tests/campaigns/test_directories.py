"""A slice of the damaged directories, compared with JVM Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import directories

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]


def test_damaged_directories_become_what_jvm_kafka_makes_of_them_or_better(tmp_path: Path) -> None:
    assert directories.campaign(60, 1, tmp_path) == []
