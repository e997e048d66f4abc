"""Damages of a partition's files. Each mutation changes a folder, and returns whether it applied."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from odradek.base.errors import OdradekError
from odradek.records.batch import iter_headers

Mutation = Callable[[random.Random, Path, "Lines"], bool]


class Lines:
    """Lines of a partition in the checkpoints of its log directory; None for a missing line."""

    def __init__(self, end: int, bases: list[int]) -> None:
        self.end = end
        self.bases = bases
        self.recovery_point: int | None = end
        self.log_start: int | None = None
        self.high_watermark: int | None = end
        self.cleaner: int | None = None


class Named(NamedTuple):
    name: str
    run: Mutation
    clean: bool = True
    """Whether it applies to cleanly closed directories, and below the recovery point of others."""
    weight: int = 1


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def _flip(rng: random.Random, path: Path) -> bool:
    data = bytearray(path.read_bytes())
    if not data:
        return False
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return True


def _cut(rng: random.Random, path: Path) -> bool:
    data = path.read_bytes()
    if not data:
        return False
    path.write_bytes(data[: rng.randrange(len(data))])
    return True


def _one(suffix: str, change: Callable[[random.Random, Path], bool], *, last: bool = False) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        files = _files(folder, suffix)
        return bool(files) and change(rng, files[-1] if last else rng.choice(files))

    return run


def _first(suffix: str, change: Callable[[random.Random, Path], bool]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        files = _files(folder, suffix)
        return bool(files) and change(rng, files[0])

    return run


def _no_magic(rng: random.Random) -> bytes:
    """Return the beginning of a huge batch with an unknown magic."""
    return bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\x09" + rng.randbytes(60)


def _gone(rng: random.Random, path: Path) -> bool:
    path.unlink()
    return True


def _zeros(rng: random.Random, path: Path) -> bool:
    size = path.stat().st_size
    path.write_bytes(bytes(size))
    return size > 0


def _noise(rng: random.Random, path: Path) -> bool:
    size = path.stat().st_size
    path.write_bytes(rng.randbytes(size))
    return size > 0


def _emptied(rng: random.Random, path: Path) -> bool:
    had = path.stat().st_size
    path.write_bytes(b"")
    return had > 0


def _append(data: Callable[[random.Random], bytes]) -> Callable[[random.Random, Path], bool]:
    def change(rng: random.Random, path: Path) -> bool:
        with path.open("ab") as file:
            file.write(data(rng))
        return True

    return change


def _all_gone(suffix: str) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        files = _files(folder, suffix)
        for path in files:
            path.unlink()
        return bool(files)

    return run


def _extra(*names: str, copy_of: str = "") -> Mutation:
    """Add new files. `{base}` is a segment's base offset, `{beyond}` an offset beyond the log's end."""

    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        base = rng.choice(lines.bases)
        for name in names:
            path = folder / name.format(base=f"{base:020d}", beyond=f"{lines.end + 1000:020d}")
            source = folder / f"{base:020d}{copy_of}" if copy_of else None
            if source is not None and source.exists():
                shutil.copy(source, path)
            else:
                path.write_bytes(rng.randbytes(rng.choice((0, 24, 340))) if not copy_of else b"")
        return True

    return run


def _positions(data: bytes | bytearray) -> list[int]:
    """Return the positions of batches; empty for a log that is too damaged."""
    try:
        return [position for position, _ in iter_headers(data)]
    except OdradekError:
        return []


def _jump(rng: random.Random, path: Path) -> bool:
    """Set a bit of a batch's base offset, which no checksum covers."""
    data = bytearray(path.read_bytes())
    positions = _positions(data)
    if len(positions) < 2:
        return False
    position = rng.choice(positions[1:])
    data[position + rng.choice((4, 5, 6))] |= 1 << rng.randrange(7)
    path.write_bytes(data)
    return True


def _hole(rng: random.Random, folder: Path, lines: Lines) -> bool:
    """Remove the end of an unflushed segment and the index of the next segment, and keep the next segment."""
    if len(lines.bases) < 2:
        return False
    first = rng.randrange(len(lines.bases) - 1)
    path = folder / f"{lines.bases[first]:020d}.log"
    data = path.read_bytes() if path.exists() else b""
    positions = _positions(data)
    if not positions:
        return False
    path.write_bytes(data[: positions[-1]])
    (folder / f"{lines.bases[first + 1]:020d}.index").unlink(missing_ok=True)
    lines.recovery_point = lines.bases[first]
    return True


def _swap_one(rng: random.Random, folder: Path, lines: Lines) -> bool:
    """Interrupt the cleaner's last step: a whole new segment waits as `.swap`; the old one exists or is renamed."""
    base = rng.choice(lines.bases[:-1]) if len(lines.bases) > 1 else lines.bases[0]
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        path = folder / f"{base:020d}{suffix}"
        if path.exists():
            shutil.copy(path, folder / f"{path.name}.swap")
            if rng.random() < 0.5:
                path.rename(folder / f"{path.name}.deleted")
    return True


def _swap_two(rng: random.Random, folder: Path, lines: Lines) -> bool:
    """Interrupt the swap of one segment that replaces two."""
    if len(lines.bases) < 3:
        return False
    first, second = lines.bases[0], lines.bases[1]
    if not all((folder / f"{base:020d}.log").exists() for base in (first, second)):
        return False
    data = b"".join((folder / f"{base:020d}.log").read_bytes() for base in (first, second))
    (folder / f"{first:020d}.log.swap").write_bytes(data)
    return True


def _epochs(content: Callable[[str, Lines], str]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        path = folder / "leader-epoch-checkpoint"
        if not path.exists():
            return False
        path.write_text(content(path.read_text(), lines))
        return True

    return run


def _more_epochs(text: str, lines: Lines) -> str:
    rows = text.splitlines()[2:]
    rows.append(f"9 {lines.end + 5}")
    return f"0\n{len(rows)}\n" + "".join(f"{row}\n" for row in rows)


def _older_epochs(text: str, lines: Lines) -> str:
    rows = text.splitlines()[2:-1]
    return f"0\n{len(rows)}\n" + "".join(f"{row}\n" for row in rows)


def _recovery_point(choose: Callable[[random.Random, Lines], int | None]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        lines.recovery_point = choose(rng, lines)
        return True

    return run


def _log_start(choose: Callable[[random.Random, Lines], int]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        lines.log_start = choose(rng, lines)
        return True

    return run


def _watermark(choose: Callable[[random.Random, Lines], int | None]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        lines.high_watermark = choose(rng, lines)
        return True

    return run


def _cleaner(choose: Callable[[random.Random, Lines], int]) -> Mutation:
    def run(rng: random.Random, folder: Path, lines: Lines) -> bool:
        lines.cleaner = choose(rng, lines)
        return True

    return run


def _metadata_gone(rng: random.Random, folder: Path, lines: Lines) -> bool:
    (folder / "partition.metadata").unlink()
    return True


def _foreign_metadata(rng: random.Random, folder: Path, lines: Lines) -> bool:
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: c2hvdWxkbm90YmVoZXJlMQ")
    return True


def _nothing(rng: random.Random, folder: Path, lines: Lines) -> bool:
    return True


MUTATIONS: tuple[Named, ...] = (
    Named("nothing", _nothing),
    Named("recovery point 0", _recovery_point(lambda rng, lines: 0)),
    Named("recovery point missing", _recovery_point(lambda rng, lines: None)),
    Named("recovery point at a segment", _recovery_point(lambda rng, lines: rng.choice(lines.bases))),
    Named("recovery point somewhere", _recovery_point(lambda rng, lines: rng.randrange(lines.end + 1))),
    Named("recovery point beyond the end", _recovery_point(lambda rng, lines: lines.end + 100)),
    Named("log start within", _log_start(lambda rng, lines: rng.randrange(lines.end + 1))),
    Named("log start at a segment", _log_start(lambda rng, lines: rng.choice(lines.bases)), weight=3),
    Named("log start beyond the end", _log_start(lambda rng, lines: lines.end + 50)),
    Named("high watermark missing", _watermark(lambda rng, lines: None)),
    Named("high watermark somewhere", _watermark(lambda rng, lines: rng.randrange(lines.end + 1))),
    Named("high watermark beyond the end", _watermark(lambda rng, lines: lines.end + 10)),
    Named("cleaner offset somewhere", _cleaner(lambda rng, lines: rng.randrange(lines.end + 1))),
    Named("cleaner offset beyond the end", _cleaner(lambda rng, lines: lines.end + 10)),
    Named("last .log cut", _one(".log", _cut, last=True), weight=3),
    Named("last .log flipped", _one(".log", _flip, last=True), clean=False, weight=3),
    Named("last .log with zeros behind it", _one(".log", _append(lambda rng: bytes(rng.choice((7, 61, 500)))), last=True), clean=False),
    Named(
        "last .log with noise behind it", _one(".log", _append(lambda rng: rng.randbytes(rng.choice((5, 80, 700)))), last=True), clean=False
    ),
    Named("last .log with a batch of no magic behind it", _one(".log", _append(_no_magic), last=True), weight=2),
    Named("a base offset in the last .log higher", _one(".log", _jump, last=True), clean=False, weight=2),
    Named("a .log cut behind which an unflushed one follows", _hole, clean=False, weight=2),
    Named("last .log emptied", _one(".log", _emptied, last=True)),
    Named("a .log cut", _one(".log", _cut), weight=2),
    Named("a .log flipped", _one(".log", _flip), weight=3),
    Named("a .log missing", _one(".log", _gone), weight=2),
    Named("all .log missing", _all_gone(".log")),
    Named("a .index cut", _one(".index", _cut), weight=2),
    Named("a .index missing", _one(".index", _gone)),
    Named("a .index noise", _one(".index", _noise), weight=2),
    Named("the first .index missing", _first(".index", _gone), weight=2),
    Named("a .index zeros", _one(".index", _zeros)),
    Named("a .index flipped", _one(".index", _flip)),
    Named("all .index missing", _all_gone(".index")),
    Named("an orphan .index", _extra("{beyond}.index")),
    Named("a .timeindex cut", _one(".timeindex", _cut), weight=2),
    Named("a .timeindex missing", _one(".timeindex", _gone)),
    Named("a .timeindex noise", _one(".timeindex", _noise)),
    Named("all .timeindex missing", _all_gone(".timeindex")),
    Named("an orphan .timeindex", _extra("{beyond}.timeindex")),
    Named("a .txnindex cut", _one(".txnindex", _cut), weight=2),
    Named("a .txnindex missing", _one(".txnindex", _gone), weight=2),
    Named("a .txnindex noise", _one(".txnindex", _noise)),
    Named("an orphan .txnindex", _extra("{beyond}.txnindex")),
    Named("the newest .snapshot flipped", _one(".snapshot", _flip, last=True), weight=2),
    Named("the newest .snapshot cut", _one(".snapshot", _cut, last=True)),
    Named("the newest .snapshot missing", _one(".snapshot", _gone, last=True)),
    Named("a .snapshot flipped", _one(".snapshot", _flip)),
    Named("a .snapshot missing", _one(".snapshot", _gone)),
    Named("all .snapshot missing", _all_gone(".snapshot"), weight=3),
    Named("a stray .snapshot", _extra("{beyond}.snapshot", copy_of=".snapshot")),
    Named("leader-epoch-checkpoint without entries", _epochs(lambda text, lines: "0\n0\n")),
    Named("leader-epoch-checkpoint empty", _epochs(lambda text, lines: "")),
    Named("leader-epoch-checkpoint with a future", _epochs(_more_epochs)),
    Named("leader-epoch-checkpoint of before", _epochs(_older_epochs)),
    Named("leader-epoch-checkpoint missing", _one("leader-epoch-checkpoint", _gone)),
    Named("partition.metadata missing", _metadata_gone),
    Named("partition.metadata of another topic", _foreign_metadata),
    Named("left-over .deleted files", _extra("{base}.log.deleted", "{base}.index.deleted", "{beyond}.log.deleted")),
    Named("left-over .cleaned files", _extra("{base}.log.cleaned", "{base}.index.cleaned", "{base}.timeindex.cleaned")),
    Named("an interrupted swap", _swap_one, weight=2),
    Named("an interrupted swap of two", _swap_two, weight=2),
    Named("files of no meaning", _extra("notes.txt", "leader-epoch-checkpoint.tmp", "partition.metadata.tmp")),
)

_BEHIND, _NO_SNAPSHOTS = "last .log with a batch of no magic behind it", "all .snapshot missing"
RARE: dict[bool, tuple[tuple[str, tuple[str, ...]], ...]] = {
    True: (
        ("plain", (_BEHIND,)),
        ("plain", (_NO_SNAPSHOTS, _BEHIND)),
        ("kept", (_NO_SNAPSHOTS, _BEHIND)),
        ("plain", ("all .index missing", "a .log missing")),
        ("kept", ("all .index missing", "a .log cut")),
        ("plain", ("a .index noise",)),
    ),
    False: (
        ("plain", ("a .log cut behind which an unflushed one follows",)),
        ("plain", ("a base offset in the last .log higher",)),
        ("kept", ("a base offset in the last .log higher",)),
        ("plain", ("log start at a segment",)),
        ("kept", ("log start at a segment",)),
    ),
}
"""Topic and mutations that lead to reasons which chance may miss in some campaigns, by whether the directory was closed cleanly."""
