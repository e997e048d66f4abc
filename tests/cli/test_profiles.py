"""Profiles: what is kept, who may read it, what is shown of it, and which brokers a command asks."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.cli.shared import profiles
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.config.properties import parse_properties
from tests.cli.conftest import Command

SECRET = "sesame"
SECURED = ("-b", "secured:1", "-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=PLAIN", "-X", f"sasl.password={SECRET}")


@pytest.fixture
def folder(command: Command) -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"]) / "odradek"


def test_a_profile_is_its_owners_alone(folder: Path, command: Command) -> None:
    before = os.umask(0)
    try:
        assert command("profile", "create", "shop", *SECURED) == (0, "Created profile shop, which is in use now.\n", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "profiles").stat().st_mode) == 0o700
    file = folder / "profiles" / "shop.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert command("profile", "set", "shop", "-X", "client.id=me").status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in (folder / "profiles").iterdir()] == ["shop.properties"], "nothing is left beside it"


def test_secrets_are_never_printed(folder: Path, command: Command) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
    secrets = ("-X", f"ssl.key.password={SECRET}", "-X", f"ssl.keystore.key={SECRET}")
    outputs = [
        command("profile", "create", "shop", *SECURED, *secrets),
        command("profile", "create", "jaas", "-b", "a:1", "-X", f"sasl.jaas.config={jaas}"),
        *(command("profile", "show", name, *json_) for name in ("shop", "jaas") for json_ in ((), ("-J",))),
        command("profile", "list"),
        command("profile", "set", "shop", "-X", f"sasl.password={SECRET}2"),
        command("profile", "set", "shop", "-X", f"sasl.pasword={SECRET}"),
        command("profile", "delete", "shop"),
    ]
    assert [each.status for each in outputs] == [0] * 8 + [1, 0]
    assert not any(SECRET in each.out + each.err for each in outputs)
    rows = json.loads(outputs[3].out)
    assert {row["key"]: row["value"] for row in rows}["sasl.password"] == "(hidden)"


def test_a_profile_that_is_not_written_whole_changes_nothing(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("profile", "create", "shop", "-b", "a:1").status == 0

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = command("profile", "set", "shop", "-b", "b:1")
    assert (answer.status, answer.err) == (1, "odradek profile: No space left on device\n")
    assert (folder / "profiles" / "shop.properties").read_text() == "bootstrap.servers=a:1\n"
    monkeypatch.undo()


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\v\x1c\x1d\x1e\x85\u2028\u2029"), max_size=12)


@given(st.dictionaries(texts.filter(bool), texts, max_size=4))
def test_what_is_kept_is_what_was_given(settings: dict[str, str]) -> None:
    written = "".join(f"{profiles.escaped(key, ' =:')}={profiles.escaped(value, '')}\n" for key, value in settings.items())
    assert parse_properties(written) == settings


def test_which_profile_is_in_use(folder: Path, command: Command) -> None:
    assert command("profile", "show").err == "odradek profile: no profile is in use; `odradek profile list` shows all profiles\n"
    assert command("profile", "list", "-J").out == "[]\n"
    command("profile", "create", "a", "-b", "a:1")
    command("profile", "create", "b", "-b", "b:1", "--no-use")
    assert json.loads(command("profile", "list", "-J").out) == [
        {"profile": "a", "in_use": True, "bootstrap_servers": "a:1"},
        {"profile": "b", "in_use": False, "bootstrap_servers": "b:1"},
    ]
    assert command("profile", "use", "b").status == 0
    assert "b:1" in command("profile", "show").out
    assert command("profile", "delete", "b").out == "Deleted profile b; no profile is in use now.\n"
    assert profiles.in_use() is None
    command("profile", "use", "a")
    assert command("profile", "use", "--none").out == "No profile is in use now.\n"
    assert profiles.in_use() is None
    command("profile", "use", "a")
    (folder / "profiles" / "a.properties").unlink()
    answer = command("topics", "list")
    assert (answer.status, answer.err) == (1, "odradek topics: profile a does not exist; create one with `odradek profile create`\n")


# -- which brokers are asked --------------------------------------------------------------------------------------------------------------


def asked(*typed: str) -> tuple[str, bool]:
    """The brokers that a command line asks, and whether it has the profile's other settings."""
    found: list[dict[str, str]] = []

    @click.command(context_settings=CONTEXT_SETTINGS)
    @connection_options
    def probe(bootstrap: str, settings: tuple[str, ...]) -> None:
        found.append(client_settings(bootstrap, settings))

    assert run(probe, "probe", [*typed]) == 0
    return found[0]["bootstrap.servers"], "sasl.username" in found[0]


@pytest.mark.parametrize(
    ("typed", "environment", "used", "servers", "secured"),
    [
        ("", "", "", "localhost:9092", False),
        ("", "", "a", "a:1", True),
        ("", "ODRADEK_BOOTSTRAP_SERVER=env:1", "", "env:1", False),
        ("", "ODRADEK_BOOTSTRAP_SERVER=env:1", "a", "env:1", False),
        ("", "ODRADEK_PROFILE=b", "a", "b:1", True),
        ("", "ODRADEK_PROFILE=b ODRADEK_BOOTSTRAP_SERVER=env:1", "a", "b:1", True),
        ("--profile a", "ODRADEK_PROFILE=b ODRADEK_BOOTSTRAP_SERVER=env:1", "b", "a:1", True),
        ("-b flag:1", "", "a", "flag:1", False),
        ("-b flag:1", "ODRADEK_PROFILE=b", "a", "flag:1", True),
        ("-b flag:1 --profile b", "", "a", "flag:1", True),
        ("--profile b -b flag:1", "ODRADEK_BOOTSTRAP_SERVER=env:1", "a", "flag:1", True),
        ("-X bootstrap.servers=x:1", "", "a", "x:1", False),
        ("-X bootstrap.servers=x:1 --profile b", "", "a", "x:1", True),
        ("-X client.id=me", "", "a", "a:1", True),
        ("--profile=", "", "a", "localhost:9092", False),
        ("--profile=", "ODRADEK_PROFILE=b ODRADEK_BOOTSTRAP_SERVER=env:1", "a", "env:1", False),
    ],
)
def test_the_first_that_says_something_names_the_brokers(
    typed: str, environment: str, used: str, servers: str, secured: bool, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        assert command("profile", "create", name, "-b", f"{name}:1", "-X", "sasl.username=me", "--no-use").status == 0
    if used:
        assert command("profile", "use", used).status == 0
    for setting in environment.split():
        monkeypatch.setenv(*setting.split("="))
    assert asked(*typed.split()) == (servers, secured)


def test_settings_of_the_line_and_of_files_go_before_those_of_a_profile(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("client.id=file\nretry.backoff.ms=7\n")
    settings = [word for each in ("client.id=profile", "retry.backoff.ms=5", "request.timeout.ms=3") for word in ("-X", each)]
    assert command("profile", "create", "a", *settings).status == 0
    found: list[dict[str, str]] = []

    @click.command(context_settings=CONTEXT_SETTINGS)
    @connection_options
    def probe(bootstrap: str, settings: tuple[str, ...]) -> None:
        found.append(client_settings(bootstrap, settings))

    run(probe, "probe", ["-X", "client.id=line", "-F", f"{tmp_path}/file"])
    assert [found[0][key] for key in ("client.id", "retry.backoff.ms", "request.timeout.ms")] == ["line", "7", "3"]


@pytest.mark.parametrize(
    ("typed", "environment", "servers"),
    [
        ("", "", "file:1"),
        ("", "variable:1", "file:1"),
        ("-b typed:1", "", "typed:1"),
        ("-b typed:1", "variable:1", "typed:1"),
        ("-b typed:1 -X bootstrap.servers=setting:1", "", "setting:1"),
    ],
)
def test_brokers_that_are_typed_go_before_those_of_a_file(
    typed: str, environment: str, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("bootstrap.servers = file:1\nclient.id=file\n")
    if environment:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", environment)
    found: list[dict[str, str]] = []

    @click.command(context_settings=CONTEXT_SETTINGS)
    @connection_options
    def probe(bootstrap: str, settings: tuple[str, ...]) -> None:
        found.append(client_settings(bootstrap, settings))

    run(probe, "probe", ["-F", f"{tmp_path}/file", *typed.split()])
    assert (found[0]["bootstrap.servers"], found[0]["client.id"]) == (servers, "file")


def test_a_command_asks_the_brokers_of_its_profile(bootstrap: str, command: Command) -> None:
    assert command("profile", "create", "here", "-b", bootstrap).status == 0
    assert "there" in command("topics", "list", "--profile", "here").out
    assert command("consume", "-t", "there", "-e", "-q").status == 0
    assert command("quorum", "describe", "--status").status == 0
    assert "there" in command("topics", "list").out


# -- mistakes -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"client.id=\\u12g4\n", ":1: Malformed \\uxxxx encoding"),
        (b"client.id=caf\xe9\n", ": not valid UTF-8"),
        (b"group.id=g\n", ": group.id is not a setting of every client; give -X group.id=VALUE to each command that needs it"),
        (b"request.timeout.ms=soon\n", ": Invalid value soon for configuration request.timeout.ms"),
    ],
)
def test_a_broken_file_is_named(content: bytes, said: str, folder: Path, command: Command) -> None:
    command("profile", "create", "a", "-b", "a:1")
    file = folder / "profiles" / "a.properties"
    file.write_bytes(content)
    for typed in (("topics", "list"), ("profile", "show", "a"), ("profile", "use", "a")):
        answer = command(*typed)
        assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1)
        assert answer.err.startswith(f"odradek {typed[0]}: {file}{said}")
    assert command("profile", "list").status == 0
    assert command("profile", "delete", "a").status == 0


def test_a_file_that_cannot_be_read_is_named(folder: Path, command: Command) -> None:
    command("profile", "create", "a", "-b", "a:1")
    file = folder / "profiles" / "a.properties"
    file.unlink()
    file.mkdir()
    assert command("topics", "list") == (1, "", f"odradek topics: {file}: Is a directory\n")
    (folder / "profile").write_bytes(b"\xff")
    assert command("topics", "list").err == (
        f"odradek topics: {folder}/profile: the file does not contain the name of a profile; replace it with `odradek profile use NAME`\n"
    )


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", ".hidden", "a b", "ä", "x" * 65])
def test_a_name_leads_nowhere_else(name: str, folder: Path, command: Command) -> None:
    answer = command("profile", "create", name, "-b", "a:1")
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith(f"odradek profile: {name!r} is not a valid profile name; ")
    assert not folder.exists()
    if name:
        assert command("topics", "list", "--profile", name).status == 1
    with pytest.raises(ConfigError):
        profiles.save(name, {})
