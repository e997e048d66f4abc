"""What a power cut leaves of a virtual disk."""

from __future__ import annotations

import random

from odradek.testing.simulation.disk import ALL, DIRECTORIES, NONE, PREFIX, SUBSET, VirtualDisk


def test_names_and_data_survive_as_asked() -> None:
    disk = VirtualDisk()
    disk.makedirs("/d")
    disk.fsync_dir("/")
    file = disk.open("/d/f", create=True)
    file.pwritev([b"old"], 0)
    file.fsync()
    disk.fsync_dir("/d")
    file.pwritev([b"new"], 0)
    disk.rename("/d/f", "/d/g")
    rng = random.Random(1)
    assert disk.crash(rng, names=NONE, data=NONE).read_bytes("/d/f") == b"old"
    assert disk.crash(rng, names=NONE, data=ALL).read_bytes("/d/f") == b"new"
    assert disk.crash(rng, names=ALL, data=NONE).read_bytes("/d/g") == b"old"
    found = {tuple(crashed.listdir("/d")) for crashed in (disk.crash(rng, names=PREFIX) for _ in range(20))}
    assert found == {("f",), ("g",)}


def test_what_is_written_over_is_old_or_new_and_only_what_is_added_may_be_empty() -> None:
    disk = VirtualDisk()
    file = disk.open("/f", create=True)
    file.pwritev([b"old"], 0)
    file.fsync()
    disk.fsync_dir("/")
    file.pwritev([b"NEWS!"], 0)
    found = {disk.crash(random.Random(seed)).read_bytes("/f") for seed in range(2000)}
    assert found == {b"old", b"Nld", b"NEd", b"NEW", b"NEWS", b"NEWS!", b"old\0\0"}


def test_each_directory_may_have_a_prefix_of_its_own() -> None:
    disk = VirtualDisk()
    for path in ("/a", "/b"):
        disk.makedirs(path)
    disk.fsync_dir("/")
    for path in ("/a/1", "/b/1", "/a/2", "/b/2"):
        disk.open(path, create=True)
    rng = random.Random(1)
    found = {
        (tuple(crashed.listdir("/a")), tuple(crashed.listdir("/b")))
        for crashed in (disk.crash(rng, names=DIRECTORIES, data=SUBSET) for _ in range(300))
    }
    assert found == {(a, b) for a in ((), ("1",), ("1", "2")) for b in ((), ("1",), ("1", "2"))}


def test_what_a_directory_holds_goes_with_it() -> None:
    disk = VirtualDisk()
    disk.makedirs("/d/e")
    disk.open("/d/e/f", create=True)
    disk.fsync_dir("/d/e")
    crashed = disk.crash(random.Random(1), names=NONE)
    assert not crashed.exists("/d/e")
    assert not crashed.exists("/d/e/f")


def test_names_not_durable_in_a_renamed_directory_stay_in_it() -> None:
    disk = VirtualDisk()
    disk.makedirs("/t")
    disk.fsync_dir("/")
    disk.open("/t/f", create=True)
    disk.rename("/t", "/t-delete")
    disk.makedirs("/t")
    disk.fsync_dir("/")
    crashed = disk.crash(random.Random(1), names=ALL)
    assert crashed.exists("/t-delete/f")
    assert crashed.listdir("/t") == []


def test_a_truncation_may_be_lost_or_not_until_it_is_synced() -> None:
    disk = VirtualDisk()
    file = disk.open("/f", create=True)
    file.pwritev([b"abcd"], 0)
    file.fsync()
    disk.fsync_dir("/")
    file.truncate(2)
    assert {disk.crash(random.Random(seed), data=SUBSET).read_bytes("/f") for seed in range(20)} == {b"ab", b"abcd"}
    assert disk.crash(random.Random(1), data=NONE).read_bytes("/f") == b"abcd"
    file.fsync()
    assert disk.crash(random.Random(1), data=NONE).read_bytes("/f") == b"ab"


def test_a_file_whose_name_is_not_durable_may_be_gone_although_its_bytes_were_synced() -> None:
    disk = VirtualDisk()
    file = disk.open("/f", create=True)
    file.pwritev([b"abcd"], 0)
    file.fsync()
    assert not disk.crash(random.Random(1), names=NONE).exists("/f")
    disk.fsync_dir("/")
    assert disk.crash(random.Random(1), names=NONE).read_bytes("/f") == b"abcd"


def test_a_peek_shows_what_is_there_and_what_would_stay_and_is_no_operation() -> None:
    disk = VirtualDisk()
    disk.makedirs("/d")
    disk.fsync_dir("/")
    file = disk.open("/d/f", create=True)
    file.pwritev([b"old"], 0)
    assert disk.peek_durable("/d/f") is None
    file.fsync()
    disk.fsync_dir("/d")
    file.pwritev([b"new"], 0)
    steps = disk.steps
    disk.fail("/d", "read")
    assert disk.peek("/d/f") == b"new"
    assert disk.peek_durable("/d/f") == b"old"
    assert disk.peek("/d/g") is None
    assert disk.peek_names("/d") == ["f"]
    assert disk.steps == steps
