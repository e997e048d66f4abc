"""What all commands have in common: tables and JSON, a dry run before what destroys, Kafka's own flags, files of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.cli.shared.kafka_flags import as_subcommand, command_of_script
from odradek.cli.shared.output import Output, show, table
from odradek.client import Admin, NewTopic, Producer
from tests.cli.conftest import Command

ROWS = [
    {"topic": "orders", "current_offset": 5, "lag": None, "up": True, "isr": [1, 2]},
    {"topic": "a", "current_offset": 1000, "lag": None, "up": False, "isr": []},
]


def test_a_table_has_numbers_to_the_right_and_dashes_for_what_is_unknown() -> None:
    assert table(ROWS, list(ROWS[0])) == [
        "TOPIC   CURRENT-OFFSET  LAG  UP   ISR",
        "orders               5    -  yes  1,2",
        "a                 1000    -  no   -",
    ]


def test_json_has_all_and_a_table_what_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, "json", ["topic"])
    assert json.loads(capsys.readouterr().out) == ROWS
    show(ROWS, "table", ["lag", "topic"])
    assert capsys.readouterr().out == "LAG  TOPIC\n  -  orders\n  -  a\n"
    show([], "table")
    show([], "json")
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize("chosen", [["-o", "json"], ["-J"], ["--output=json"]])
def test_json_is_asked_for_in_one_way(chosen: list[str], bootstrap: str, command: Command) -> None:
    for typed in (["features", "describe"], ["topics", "list"], ["topics", "describe", "there"]):
        answer = command(*typed, *chosen, "-b", bootstrap)
        assert answer.status == 0
        assert isinstance(json.loads(answer.out), list)


def test_what_destroys_says_first_what_it_would_do(bootstrap: str, command: Command) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics([NewTopic("doomed", 1)])
        producer.send("doomed", b"x").result(10)
        answer = command("topics", "delete", "doomed", "-b", bootstrap)
        assert answer == (
            0,
            "Would delete topic doomed with 1 partition and 1 record.\n",
            "odradek topics: nothing was changed; add --execute to make the changes\n",
        )
        assert "doomed" in {topic.name for topic in admin.list_topics()}
        assert command("topics", "delete", "doomed", "--execute", "-b", bootstrap) == (0, "Deleted topic doomed.\n", "")
        assert "doomed" not in {topic.name for topic in admin.list_topics()}


def test_the_flags_and_names_of_kafkas_scripts_are_understood(bootstrap: str, command: Command) -> None:
    line = ["--bootstrap-server", bootstrap, "--create", "--topic", "as-in-kafka", "--partitions", "3", "--config", "retention.ms=1000"]
    assert command("kafka-topics.sh", *line) == (0, "Created topic as-in-kafka (3 partitions).\n", "")
    assert "as-in-kafka" in command("kafka-topics", "--list", "--bootstrap-server", bootstrap).out
    assert "Partition: 2" in command("topics", "--describe", "--topic", "as-in-kafka", "-b", bootstrap).out
    assert command("topics", "--delete", "--topic", "as-in-kafka", "-b", bootstrap) == (0, "Deleted topic as-in-kafka.\n", "")
    assert command("topics", "--list", "--create", "-b", bootstrap).status == 2


def test_only_a_line_that_begins_with_a_flag_is_kafkas() -> None:
    actions = {"--list": ["list"], "--delete": ["delete", "--execute"]}
    assert as_subcommand(["--topic", "t", "--delete"], actions) == ["delete", "--execute", "--topic", "t"]
    assert as_subcommand(["describe", "--list"], actions) == ["describe", "--list"]
    assert as_subcommand(["--help"], actions) == ["--help"]
    assert as_subcommand([], actions) == []
    assert [command_of_script(name) for name in ("kafka-topics", "kafka-topics.sh", "kafka-topics.bat", "kafka-nothing", "topics")] == [
        "topics",
        "topics",
        "topics",
        "kafka-nothing",
        "topics",
    ]


def test_settings_come_from_files_and_single_ones_go_before_them(tmp_path: Path, bootstrap: str, command: Command) -> None:
    file = tmp_path / "client.properties"
    file.write_text("retry.backoff.ms=often\n")
    refused = command("topics", "list", "--command-config", str(file), "-b", bootstrap)
    assert (refused.status, "retry.backoff.ms" in refused.err) == (1, True)
    assert command("topics", "list", "--command-config", str(file), "-X", "retry.backoff.ms=10", "-b", bootstrap).status == 0
    file.write_text("a=\\u12g4\n")
    assert command("topics", "list", "--command-config", str(file), "-b", bootstrap).err.startswith(f"odradek topics: {file}: ")
    missing = command("topics", "list", "--command-config", str(tmp_path / "none"), "-b", bootstrap)
    assert (missing.status, missing.err) == (1, f"odradek topics: {tmp_path / 'none'}: No such file or directory\n")


@pytest.mark.parametrize("typed", ["consume -t there", "produce -t there", "perf produce -t there -n 1 --record-size 1"])
def test_the_question_before_the_work_is_asked_with_the_same_settings(typed: str, bootstrap: str, command: Command) -> None:
    """The spelling is librdkafka's: without the certificates that it names, the question would be asked of a stranger, or fail."""
    tls = ("-X", "security.protocol=SSL", "-X", "ssl.ca.location=/nowhere/ca.pem")
    answer = command(*typed.split(), *tls, "-b", bootstrap)
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "/nowhere/ca.pem" in answer.err


@pytest.mark.parametrize("output", ["table", "json"])
def test_no_name_of_a_client_makes_a_line_or_moves_the_cursor(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    name = "g\nforged\x1b[2K\r\x9b"
    show([{"group": name, "members": [name], "labels": {name: name}, "lag": 1}], output)
    lines = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert len(lines) == (2 if output == "table" else 1)
    assert all(line.isprintable() for line in lines)
