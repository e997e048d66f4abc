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
from odradek.protocol.api_keys import ApiKey
from odradek.security.principal import Principal
from odradek.server.context import RequestContext
from odradek.server.log_files import LogFiles
from odradek.server.logs import JsonFormatter, set_up
from odradek.server.measuring import EACH_S, MOST, REQUEST_LOGGER, SLOW_LOGGER, SlowRequests, log_request, request_log
from odradek.server.services import Services
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
            slow.look(context(), 100, 1.5, 1.5)
        assert len(caplog.records) == MOST
        slow.look(context(), 100, 1.5, 1.5 + EACH_S)
    assert caplog.records[MOST].getMessage() == "5 more slow requests were not told of"
    assert len(caplog.records) == MOST + 2


def test_a_wait_that_was_asked_for_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(0.1)
    slow.look(context(ApiKey.FETCH), 100, 1.05, 3.0)
    assert caplog.records == []
    slow.look(context(ApiKey.FETCH), 100, 1.2, 3.0)
    slow.look(context(ApiKey.PRODUCE), 100, 1.05, 3.0)
    assert len(caplog.records) == 2


def test_the_levels_of_the_logs_can_be_changed_at_run_time() -> None:
    from odradek.handlers.admin.broker_loggers import describe_loggers

    assert Broker(clock=ManualClock()) is not None
    levels = {each.name: each.value for each in describe_loggers()}
    assert levels[REQUEST_LOGGER] == "WARN"
    assert SLOW_LOGGER in levels
