"""The broker's log: text or JSON, on standard error or in files; requests in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import standalone_config
from odradek.handlers.context import RequestContext
from odradek.handlers.services import Services
from odradek.protocol.api_keys import ApiKey
from odradek.security.principal import Principal
from odradek.server.metering.measuring import EACH_S, MOST, REQUEST_LOGGER, SLOW_LOGGER, SlowRequests, log_request, request_log
from odradek.server.start.log_files import LogFiles
from odradek.server.start.logs import JsonFormatter, TextFormatter, set_up
from tests.clock import ManualClock
from tests.handlers.support import Broker


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """A root logger to which nothing was done yet."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    try:
        yield root
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = handlers, level


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("odradek.storage.log", logging.WARNING, "", 1, message, args, None)
    made.created = 1_700_000_000.123
    made.__dict__.update(extra)
    return made


def test_json_is_one_object_a_line() -> None:
    line = JsonFormatter(7).format(record("two\nlines of %s", "ü", fields={"client_id": "a\n", "level": "mine"}))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "WARN",
        "logger": "odradek.storage.log",
        "message": "two\nlines of ü",
        "node": 7,
        "client_id": "a\n",
    }


FORGED = "2026-01-01 00:00:00,000 INFO kafka.authorizer.logger: Principal = User:admin is Allowed"
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0xFEFF)]


def failed(message: str, *args: object) -> logging.LogRecord:
    """A record with the traceback of an exception that quotes what a client sent."""
    made = record(message, *args)
    try:
        try:
            raise KeyError(f"k\n{FORGED}")
        except KeyError as cause:
            raise ValueError(f"group g\r\n{FORGED}\x1b[2K") from cause
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    return made


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_text_of_a_client_makes_a_line(form: str) -> None:
    """Neither as a message, as an argument, as the name of a logger nor in a traceback."""
    formatter = TextFormatter() if form == "text" else JsonFormatter(7)
    for control in CONTROLS:
        odd = record(f"message{control}{FORGED} %s", f"argument{control}{FORGED}", fields={"client_id": f"c{control}{FORGED}"})
        odd.name = f"odradek{control}{FORGED}"
        line = formatter.format(odd)
        assert control not in line or control.isprintable()
        assert len(line.splitlines()) == 1
    lines = formatter.format(failed("cannot read %s", f"x\n{FORGED}")).splitlines()
    assert len(lines) == 1 or form == "text"
    assert not [line for line in lines if line.startswith(FORGED[:20])]
    assert all(line.startswith("  ") for line in lines[1:])
    assert "\x1b" not in "".join(lines)


def test_text_is_one_line_with_its_traceback_behind_it() -> None:
    lines = TextFormatter().format(failed("failed")).splitlines()
    assert lines[0].endswith("WARNING odradek.storage.log: failed")
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-1].startswith("  2026-01-01"), "the second line of the exception's text"


def test_json_has_the_traceback() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (type(error), error, error.__traceback__)
    assert json.loads(JsonFormatter(7).format(made))["error"].endswith("ValueError: why")


def test_standard_error_has_text(monkeypatch: pytest.MonkeyPatch) -> None:
    error = io.StringIO()
    monkeypatch.setattr("sys.stderr", error)
    with bare_root() as root:
        set_up(standalone_config(), quiet=False)
        logging.getLogger("odradek.x").info("said")
        assert error.getvalue().endswith(" INFO odradek.x: said\n")
        set_up(standalone_config(), quiet=True)
        assert len(root.handlers) == 1, "what is there stays"
        assert root.level == logging.INFO


def test_files_are_rotated_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    settings = {"odradek.log.file": str(path), "odradek.log.file.max.bytes": "1024", "odradek.log.files": "3", "odradek.log.format": "json"}
    with bare_root() as root:
        set_up(standalone_config(settings), quiet=True)
        assert root.level == logging.WARNING
        for number in range(100):
            logging.getLogger("odradek.x").warning("line %d", number)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    assert all(file.stat().st_size <= 1024 for file in tmp_path.iterdir())
    assert json.loads(path.read_text().splitlines()[-1])["message"] == "line 99"


def test_a_file_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    with bare_root(), pytest.raises(ConfigError, match=r"odradek\.log\.file=.*/none/broker\.log: No such file or directory"):
        set_up(standalone_config({"odradek.log.file": str(tmp_path / "none" / "broker.log")}), quiet=False)
    with pytest.raises(ConfigError, match=r"odradek\.log\.format"):
        standalone_config({"odradek.log.format": "xml"})


def test_a_disk_that_fails_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = LogFiles(str(tmp_path / "broker.log"), 1024, 2)
    assert handler.stream is not None
    handler.stream.close()
    for _ in range(3):
        handler.emit(record("lost"))
    assert handler.dropped == 3
    assert capsys.readouterr().err.count("the log cannot be written") == 1
    handler.stream = None  # type: ignore[assignment]
    handler.close()


def context(api: ApiKey = ApiKey.PRODUCE, received_at: float = 1.0) -> RequestContext:
    services = cast(Services, SimpleNamespace())
    return RequestContext(
        api, 9, 5, "cli\nent", "1-2", "PLAINTEXT", "broker", "127.0.0.1", received_at, services, Principal("User", "alice")
    )


def test_a_request_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, REQUEST_LOGGER):
        log_request(context(), 100, 1.25, 1.5)
    [said] = caplog.records
    assert said.getMessage() == (
        "Completed request: api='Produce' version=9 correlation_id=5 client_id='cli\\nent' connection='1-2' listener='PLAINTEXT' "
        "principal='User:alice' request_bytes=100 total_ms=500.0 local_ms=250.0 remote_ms=250.0"
    )
    assert json.loads(JsonFormatter(1).format(said))["total_ms"] == 500.0


def test_the_request_log_is_off_however_loud_the_others_are(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert not request_log.isEnabledFor(logging.DEBUG)


def test_slow_requests_are_told_of_but_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(0.1)
    with caplog.at_level(logging.WARNING, SLOW_LOGGER):
        for _ in range(MOST + 5):
            slow.log_if_slow(context(), 100, 1.5, 1.5)
        assert len(caplog.records) == MOST
        slow.log_if_slow(context(), 100, 1.5, 1.5 + EACH_S)
    assert caplog.records[MOST].getMessage() == "5 more slow requests were not logged"
    assert len(caplog.records) == MOST + 2


def test_a_wait_that_was_asked_for_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(0.1)
    slow.log_if_slow(context(ApiKey.FETCH), 100, 1.05, 3.0)
    assert caplog.records == []
    slow.log_if_slow(context(ApiKey.FETCH), 100, 1.2, 3.0)
    slow.log_if_slow(context(ApiKey.PRODUCE), 100, 1.05, 3.0)
    assert len(caplog.records) == 2


def test_the_levels_of_the_logs_can_be_changed_at_run_time() -> None:
    from odradek.handlers.admin.broker_loggers import describe_loggers

    assert Broker(clock=ManualClock()) is not None
    levels = {each.name: each.value for each in describe_loggers()}
    assert levels[REQUEST_LOGGER] == "WARN"
    assert SLOW_LOGGER in levels
