"""What `storage scrub` finds, and what it leaves alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.base.errors import StorageError
from odradek.cli.node import storage as command
from odradek.records.batch import iter_headers
from odradek.storage.disk import OsDisk
from odradek.storage.meta_properties import MetaProperties, write_meta_properties
from odradek.storage.scrub import Finding, scrub
from tests.campaigns.sources import make_log

NAME = "orders-0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log directory that was closed cleanly, with a log of several segments."""
    directory = tmp_path / "data"
    directory.mkdir()
    write_meta_properties(OsDisk(), str(directory), MetaProperties("c", 1))
    make_log(random.Random(4), directory / NAME, 1_700_000_000_000, gaps=True, closed=True)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    assert len(segments(directory)) > 2
    return directory


def segments(home: Path) -> list[Path]:
    return sorted((home / NAME).glob("*.log"))


def findings(home: Path) -> list[Finding]:
    return list(scrub(OsDisk(), [str(home)]))


def contents(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != ".lock"}


def flip(path: Path, position: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_a_sound_directory_has_no_findings_and_stays_as_it_is(tmp_path: Path, seed: int) -> None:
    for number in range(3):
        make_log(random.Random(seed * 3 + number), tmp_path / f"orders-{number}", 1_700_000_000_000, gaps=number > 0, closed=number < 2)
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    before = contents(tmp_path)
    assert findings(tmp_path) == []
    assert contents(tmp_path) == before


def test_each_batch_with_a_wrong_checksum_is_named_and_the_rest_still_read(home: Path) -> None:
    path = segments(home)[1]
    headers = list(iter_headers(path.read_bytes()))
    for position, _ in (headers[1], headers[-1]):
        flip(path, position + 61)
    found = [finding for finding in findings(home) if finding.path == str(path)]
    assert [(finding.position, finding.text.split()[1]) for finding in found] == [(headers[1][0], "checksum"), (headers[-1][0], "checksum")]


def test_a_length_that_cannot_be_ends_the_segment_but_not_the_log(home: Path) -> None:
    first, second = segments(home)[:2]
    position, _ = list(iter_headers(first.read_bytes()))[1]
    flip(first, position + 8, 0x80)
    flip(second, 61)
    found = findings(home)
    assert (str(first), position) in [(finding.path, finding.position) for finding in found]
    assert (str(second), 0) in [(finding.path, finding.position) for finding in found]


def test_offsets_that_fall_are_found(home: Path) -> None:
    path = segments(home)[1]
    position, header = list(iter_headers(path.read_bytes()))[2]
    data = bytearray(path.read_bytes())
    data[position : position + 8] = (header.base_offset - 40).to_bytes(8, "big")
    path.write_bytes(data)
    [finding] = [each for each in findings(home) if each.path == str(path)]
    assert (finding.position, finding.offset) == (position, header.base_offset - 40)
    assert f"where {header.base_offset} or a later one should follow" in finding.text


def test_half_a_batch_at_the_end_is_found(home: Path) -> None:
    path = segments(home)[-1]
    data = path.read_bytes()
    position, _ = list(iter_headers(data))[-1]
    path.write_bytes(data[:-3])
    assert (str(path), position) in [(finding.path, finding.position) for finding in findings(home)]


def _swap_entries(data: bytes, size: int) -> bytes:
    return data[size : 2 * size] + data[:size] + data[2 * size :]


CHANGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "an offset index entry between two batches": (".index", lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:]),
    "an offset index in another order": (".index", lambda data: _swap_entries(data, 8)),
    "an offset index that ends within an entry": (".index", lambda data: data[:-3]),
    "an offset index that points behind the end": (".index", lambda data: data + b"\x00\x0f\xff\xff\x00\x0f\xff\xff"),
    "a time index of other timestamps": (".timeindex", lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:]),
    "a time index that ends within an entry": (".timeindex", lambda data: data[:-5]),
    "a transaction index that ends within an entry": (".txnindex", lambda data: data[:-1]),
    "a transaction index without its last entry": (".txnindex", lambda data: data[:-34]),
    "a transaction index of another producer": (".txnindex", lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:]),
    "a snapshot with another byte": (".snapshot", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "half a snapshot": (".snapshot", lambda data: data[: len(data) // 2]),
    "leader epochs that fall": ("leader-epoch-checkpoint", lambda data: b"0\n2\n3 0\n1 5\n"),
    "leader epochs that are none": ("leader-epoch-checkpoint", lambda data: b"\xff\xff"),
}


TEXTS = {
    "an offset index entry between two batches": "but no batch starts there",
    "a transaction index of another producer": "no marker there",
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_is_not_as_it_was_written_is_found(home: Path, what: str) -> None:
    suffix, change = CHANGES[what]
    path = next(each for each in sorted((home / NAME).glob(f"*{suffix}")) if each.stat().st_size)
    assert change(path.read_bytes()) != path.read_bytes()
    path.write_bytes(change(path.read_bytes()))
    found = findings(home)
    assert {finding.path for finding in found} == {str(path)}
    assert not any(finding.unflushed for finding in found)
    if what in TEXTS:
        assert any(TEXTS[what] in finding.text for finding in found)


@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint", f"{NAME}/partition.metadata"])
def test_small_files_that_cannot_be_read_are_found(home: Path, name: str) -> None:
    (home / name).write_bytes(b"\xff\x00\n??")
    assert [finding.path for finding in findings(home)] == [f"{home}/{name}"]


def test_what_is_missing_or_does_not_belong_there_is_found(home: Path) -> None:
    index = segments(home)[1].with_suffix(".index")
    index.unlink()
    (home / NAME / f"{10**9:020d}.timeindex").write_bytes(b"")
    (home / "pictures").mkdir()
    assert {finding.path for finding in findings(home)} == {str(index), f"{home}/{NAME}/{10**9:020d}.timeindex", f"{home}/pictures"}
    assert [finding.text for finding in scrub(OsDisk(), [f"{home}/nowhere"])] == ["is not a directory"]


def test_what_the_next_start_recovers_is_told_apart(home: Path) -> None:
    (home / ".kafka_cleanshutdown").unlink()
    last = segments(home)[-1]
    (home / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {int(last.stem)}\n")
    last.write_bytes(last.read_bytes()[:-3])
    last.with_suffix(".index").write_bytes(b"\xff" * 5)
    assert [(finding.path, finding.unflushed) for finding in findings(home)] == [(str(last), True)]
    flip(segments(home)[0], 61)
    assert [finding.unflushed for finding in findings(home)] == [False, True]


def test_a_log_without_a_recovery_point_is_recovered_as_a_whole(home: Path) -> None:
    (home / ".kafka_cleanshutdown").unlink()
    (home / "recovery-point-offset-checkpoint").write_text("0\n1\nothers 0 7\n")
    for each in segments(home)[:2]:
        flip(each, 61)
    assert [finding.unflushed for finding in findings(home)] == [True, True]


def test_indexes_of_the_segment_that_holds_the_recovery_point_are_not_judged(home: Path) -> None:
    """Recovery makes them again. What ends at the recovery point it does not look at."""
    (home / ".kafka_cleanshutdown").unlink()
    first, second, *_ = segments(home)
    index = first.with_suffix(".index")
    index.write_bytes(b"\xff" * 5)
    for point, found in ((int(second.stem) - 1, []), (int(second.stem), [str(index)])):
        (home / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {point}\n")
        assert [finding.path for finding in findings(home)] == found


def test_the_directories_of_a_running_broker_are_refused(home: Path) -> None:
    lock = OsDisk().lock(f"{home}/.lock")
    with pytest.raises(StorageError, match="in use"):
        findings(home)
    lock.release()
    assert findings(home) == []


def test_the_command_ends_with_1_when_something_is_damaged(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={home}\ncontroller.listener.names=C\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,C://127.0.0.1:9093\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT\n"
    )
    assert command.main(["scrub", str(config)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("0 findings in 1 log, 0.0 MB")
    path = segments(home)[0]
    flip(path, 61)
    monkeypatch.setattr(command, "_PROGRESS_SECONDS", 0.0)
    assert command.main(["scrub", str(config)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith(f"{path}: position 0: the checksum of a batch of ")
    assert f"{home}/{NAME}: 0 MB of 1 logs read" in err
    assert err.splitlines()[-1].startswith("1 finding in 1 log")


def test_an_index_entry_that_stands_twice_is_found(home: Path) -> None:
    index = segments(home)[0].with_suffix(".index")
    data = index.read_bytes()
    index.write_bytes(data + data[-8:])
    assert [(finding.path, finding.position) for finding in findings(home)] == [(str(index), len(data))]
