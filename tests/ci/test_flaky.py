"""Failed tests run once more, alone; who passes then is flaky, is reported, and has to be mended by the next change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ci import flaky


class Runs:
    """A stand-in for pytest: what fails among others, and what fails alone."""

    def __init__(self, status: int, failed: Sequence[str], alone: Sequence[str] = ()) -> None:
        self.status, self.failed, self.alone = status, list(failed), alone
        self.tried: list[str] = []

    def __call__(self, arguments: Sequence[str], cache: Path) -> tuple[int, list[str]]:
        if arguments[:2] != ["-n", "0"]:
            return self.status, self.failed
        self.tried.append(arguments[2])
        return (1, [arguments[2]]) if arguments[2] in self.alone else (0, [])


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(flaky, "BUILD", tmp_path / "build")
    monkeypatch.setattr(flaky, "LIST", tmp_path / "flaky.txt")
    flaky.LIST.write_text("# names\n")
    return tmp_path


def test_what_passes_alone_is_flaky_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(1, ["a::one", "b::two"])
    assert flaky.run(["-m", "not jvm"], runs) == 0
    assert runs.tried == ["a::one", "b::two"]
    assert flaky.report() == 0
    assert "flaky: a::one\nflaky: b::two\n" in capsys.readouterr().out
    assert flaky.names(flaky.LIST.read_text()) == ["a::one", "b::two"]


def test_what_fails_alone_too_fails_the_run() -> None:
    assert flaky.run([], Runs(1, ["a::one", "b::two"], alone=["b::two"])) == 1


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_a_run_that_ended_otherwise_fails_with_its_status(status: int) -> None:
    runs = Runs(status, ["a::one"])
    assert flaky.run([], runs) == status
    assert runs.tried == []


def test_a_failure_that_names_no_test_fails_the_run() -> None:
    assert flaky.run([], Runs(1, [])) == 1


def test_many_failures_are_no_flaky_tests() -> None:
    runs = Runs(1, [f"a::{number}" for number in range(2 * flaky.MOST + 1)])
    assert flaky.run([], runs) == 1
    assert runs.tried == []


def test_flaky_tests_of_several_runs_count_together() -> None:
    assert flaky.run([], Runs(1, ["a::1", "a::2"])) == 0
    assert flaky.run([], Runs(1, ["a::3"])) == 0
    assert flaky.report() == 0
    assert flaky.run([], Runs(1, ["a::4", "a::1"])) == 0
    assert flaky.report() == 1
    assert flaky.names(flaky.LIST.read_text()) == ["a::1", "a::2", "a::3", "a::4"]


def test_the_next_change_has_to_empty_the_list() -> None:
    before = "# names\na::one\nb::two # a reason\n"
    assert flaky.left_over(before, before) == ["a::one", "b::two"]
    assert flaky.left_over("b::two\nc::new\n", before) == ["b::two"]
    assert flaky.left_over("# names\n", before) == []
    assert flaky.left_over("c::new\n", "") == []


@pytest.mark.parametrize(("test", "status", "failed"), [("pass", 0, []), ("assert False", 1, ["test_it.py::test_it"])])
def test_pytest_tells_what_failed(tmp_path: Path, test: str, status: int, failed: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {test}\n")
    options = ["--rootdir", str(tmp_path), "-c", "/dev/null", "-p", "no:odradek", str(tmp_path)]
    assert flaky.pytest(options, tmp_path / "cache") == (status, failed)


def test_busy_loops_end_with_their_block() -> None:
    with flaky.busy(2) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert all(loop.returncode is not None for loop in loops)


def test_only_the_first_two_dashes_part_the_words() -> None:
    assert flaky.parted(["load", "--runs", "3", "--", "-k", "a", "--", "b"]) == (["load", "--runs", "3"], ["-k", "a", "--", "b"])
    assert flaky.parted(["check"]) == (["check"], [])
