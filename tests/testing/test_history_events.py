"""Writing and reading histories."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path

import pytest

from odradek.testing.history import Assigned, Commit, Event, MemoryRecorder, Poll, Recorder, Revoked, Send, read_history
from odradek.testing.history.events import HistoryError


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    clock = count(1.5)
    with Recorder(tmp_path / "a", "a", lambda: next(clock)) as recorder:
        recorder.invoke("txn", [["send", "t", 0, None, 1], Send("t", 1, None, "x", "key")], txid="T")
        recorder.ok("txn", [Send("t", 0, 7, 1), Poll("u", 0, 3, "y"), Commit("g", "u", 0, 4)])
        recorder.info("rebalance", [Assigned("g", "t", 0, 5), ["revoked", None, "t", 1, None]])
    assert read_history([tmp_path / "a"]) == [
        Event(1.5, "a", "invoke", "txn", (Send("t", 0, None, 1), Send("t", 1, None, "x", "key")), {"txid": "T"}),
        Event(2.5, "a", "ok", "txn", (Send("t", 0, 7, 1), Poll("u", 0, 3, "y"), Commit("g", "u", 0, 4))),
        Event(3.5, "a", "info", "rebalance", (Assigned("g", "t", 0, 5), Revoked(None, "t", 1, None))),
    ]


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    for name, times in (("a", [1.0, 4.0, 5.0]), ("b", [2.0, 3.0, 6.0])):
        clock = iter(times)
        with Recorder(tmp_path / name, name, clock.__next__) as recorder:
            for _ in times:
                recorder.info("crash")
    events = read_history([tmp_path / "a", tmp_path / "b"])
    assert [event.time for event in events] == [1, 2, 3, 4, 5, 6]
    assert "".join(event.process for event in events) == "abbaab"


def test_a_torn_last_line_is_passed_over_and_cut_by_the_next_life(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Recorder(path, "a") as recorder:
        recorder.info("crash")
    with path.open("ab") as file:
        file.write(b'{"t":1.0,"p":"' + b"a" * 10_000)
    assert len(read_history([path])) == 1
    with Recorder(path, "a") as recorder:
        recorder.ok("poll", [["poll", "t", 0, 1, 2]])
    assert [event.function for event in read_history([path])] == ["crash", "poll"]


def test_a_file_of_nothing_but_a_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"t"')
    Recorder(tmp_path / "a", "a").close()
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"7",
        b'{"t":1.0,"p":"a","k":"done","f":"send","v":[]}',
        b'{"t":1.0,"p":"a","k":"ok","f":"send","v":[["sent","t",0,1,2]]}',
        b'{"t":1.0,"p":"a","k":"ok","f":"send","v":[["send","t"]]}',
        b'{"t":null,"p":"a","k":"ok","f":"send","v":[]}',
    ],
)
def test_what_is_no_event_is_said_with_its_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a").write_bytes(b'{"t":1.0,"p":"a","k":"ok","f":"crash","v":[]}\n' + line + b"\n")
    with pytest.raises(HistoryError, match=r"a, line 2: "):
        read_history([tmp_path / "a"])


def test_a_kill_costs_the_last_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "a"
    program = (
        "import sys; from odradek.testing.history import Recorder; r = Recorder(sys.argv[1], 'a'); i = 0\n"
        "while True:\n    r.invoke('send', [['send', 't', 0, None, i]]); i += 1; print(i, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(500):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
    told = int(rest[-1]) if rest else last
    events = read_history([path])
    assert len(events) in (told, told + 1)
    assert all(one.time <= other.time for one, other in pairwise(events))


def test_a_list_takes_the_same_events_as_a_file(tmp_path: Path) -> None:
    times = iter(range(100))
    events: list[Event] = []
    kept, written = MemoryRecorder(events, "a", lambda: float(next(times))), Recorder(tmp_path / "a", "a", clock=lambda: float(next(times)))
    with written:
        for recorder in (kept, written):
            recorder.invoke("send", [["send", "t", 0, None, 1]], id=7)
            recorder.ok("send", [Send("t", 0, 4, 1)], id=7)
            recorder.fail("commit", [Commit("g", "t", 0, 2)])
            recorder.info("crash", process="b")
    assert [each._replace(time=0.0) for each in events] == [each._replace(time=0.0) for each in read_history([tmp_path / "a"])]
    assert [each.time for each in events] == [0.0, 1.0, 2.0, 3.0]
