"""Shared parts of the commands that use click: the runner, name=level pairs, and the options for connecting to a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click
from click.core import ParameterSource

from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.base.text import printable
from odradek.cli.shared import profiles
from odradek.cli.shared.help_page import report_usage_error, with_advice
from odradek.cli.shared.kafka_flags import as_subcommand
from odradek.cli.shared.kcat_flags import kcat_advice
from odradek.cli.shared.signals import Terminated
from odradek.cli.shared.unreachable import report_unreachable
from odradek.config.properties import MalformedProperties, parse_properties
from odradek.config.validators import parse_host_port

F = TypeVar("F", bound=Callable[..., object])

_TIMEOUT_MS = "5000"
"""Milliseconds until a request or call times out. Shorter than the clients' defaults, because the user waits."""

_SETTINGS_OF_FILES: Final = "odradek.settings"
_PROFILE: Final = "odradek.profile"

_HELP_OPTIONS: Final = ["-h", "--help"]
CONTEXT_SETTINGS: Final = {"help_option_names": _HELP_OPTIONS}

_ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.BROKER_NOT_AVAILABLE: "start a broker with `odradek start`, or name another one with -b HOST:PORT",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "tokens need an authenticated connection: SASL, or TLS with a client certificate",
    ErrorCode.GROUP_ID_NOT_FOUND: "`odradek groups list` shows all groups",
    ErrorCode.INVALID_CONFIG: "`odradek topics config TOPIC --all` shows keys and values",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
    ErrorCode.INVALID_UPDATE_VERSION: "`odradek features describe` shows the supported levels",
    ErrorCode.MESSAGE_TOO_LARGE: "`odradek topics config TOPIC --set max.message.bytes=N` raises the limit of a topic",
    ErrorCode.NON_EMPTY_GROUP: "stop the members of the group first",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`odradek offsets` shows the end offsets",
    ErrorCode.SECURITY_DISABLED: "set authorizer.class.name on the brokers",
    ErrorCode.TOPIC_ALREADY_EXISTS: "with --if-not-exists this is not an error",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`odradek transactions list` shows all transactional ids",
    ErrorCode.UNSUPPORTED_VERSION: "the broker may be too old, or the port a controller's; name a listener for clients with -b HOST:PORT",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`odradek topics describe` shows topics and partitions",
    ErrorCode.VOTER_NOT_FOUND: "`odradek quorum describe --replication` shows the voters",
}
"""Advice for the user, by error code."""

_NOT_IN_THE_CLUSTER: Final = "is not in the cluster"
"""Part of the error message when brokers respond, but the named broker does not belong to their cluster."""


def explained(error: KafkaError) -> KafkaError:
    """Return the error, with advice for the user added if there is any."""
    advice = _ADVICE.get(error.code)
    if error.code is ErrorCode.BROKER_NOT_AVAILABLE and _NOT_IN_THE_CLUSTER in (error.message or ""):
        advice = "`odradek cluster list-endpoints` shows the brokers"
    if advice is None:
        return error
    return KafkaError(error.code, with_advice(error.message, advice) if error.message else advice)


def run(command: click.Command, name: str, arguments: list[str], actions: Mapping[str, Sequence[str]] | None = None) -> int:
    """Run a command and return the exit status: 0 done, 1 failed in part, 2 usage error, 130 aborted.

    `actions` maps the action flags of Kafka's script to subcommands, see `as_subcommand`. Raises OdradekError or OSError when the command
    failed as a whole.
    """
    arguments = as_subcommand(arguments, actions or {})
    if isinstance(command, click.Group) and not arguments:
        with click.Context(command, info_name=name, help_option_names=_HELP_OPTIONS) as context:
            click.echo(command.get_help(context), err=True)
        return 2
    try:
        with report_unreachable(name), command.make_context(name, list(arguments)) as context:
            result = command.invoke(context)
    except click.UsageError as error:
        problem = " ".join(error.format_message().split())
        if isinstance(error, click.NoSuchOption):
            problem = problem.removesuffix(".") + kcat_advice(error.option_name)
        return report_usage_error(name, problem, error.ctx.command_path if error.ctx is not None else None)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return 130
    except KeyboardInterrupt as interrupt:
        if not isinstance(interrupt, Terminated) and sys.stderr.isatty():
            click.echo(err=True)  # ends the terminal's line that shows ^C
        raise
    except KafkaError as error:
        raise explained(error) from None
    except UnicodeEncodeError as error:
        # Text of an argument that is not UTF-8 has halves of surrogate pairs (PEP 383), and a name or a setting has to be UTF-8.
        if not any(error.object[error.start : error.end] in each for each in arguments):
            raise
        raise OdradekError(f"{printable(error.object)} is not valid UTF-8") from None
    return result if isinstance(result, int) else 0


def parse_levels(texts: Iterable[str]) -> dict[str, int]:
    """Return the levels of features from `NAME=LEVEL` texts, in their order. Levels are 0 to 32767, inclusive.

    Raises UsageError for a malformed text and for a name that occurs twice.
    """
    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        name, level = name.strip(), level.strip()
        if not equals or not name or not (level.isascii() and level.isdecimal()) or int(level) > 0x7FFF:
            raise click.UsageError(f"{text}: expected NAME=LEVEL, with a level from 0 to 32767")
        if name in levels:
            raise click.UsageError(f"{name} is given twice")
        levels[name] = int(level)
    return levels


def server_options(function: F) -> F:
    """Add `-b`, `-X` and `--profile` to a command whose --command-config has another meaning or does not exist."""
    return _server_options(function, ())


def _server_options(function: F, spellings: tuple[str, ...]) -> F:
    profile = click.option(
        "--profile",
        envvar="ODRADEK_PROFILE",
        show_envvar=True,
        expose_value=False,
        is_eager=True,
        callback=_store_profile,
        metavar="NAME",
        help="Use the settings of this profile (see `odradek profile`); '' for none. Default without -b: the profile in use.",
    )
    bootstrap = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        default="localhost:9092",
        show_default=True,
        envvar="ODRADEK_BOOTSTRAP_SERVER",
        show_envvar=True,
        is_eager=True,
        callback=_checked_servers,
        metavar="HOST:PORT[,...]",
        help="Brokers to connect to first.",
    )
    settings = click.option(
        "-X",
        *spellings,
        "settings",
        multiple=True,
        callback=_with_files,
        metavar="KEY=VALUE",
        help="A client configuration under Kafka's name; may be repeated.",
    )
    return bootstrap(settings(profile(function)))


def connection_options_with(*spellings: str, settings: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Return a decorator like `connection_options`, with more spellings of --command-config, and of -X (`settings`)."""
    files = click.option(
        "--command-config",
        "-F",
        *spellings,
        "settings_files",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=_read_settings,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with client configurations; -X overrides it.",
    )
    return lambda function: _server_options(files(function), settings)


def connection_options(function: F) -> F:
    """Add `-b`, `-X`, `--profile` and `--command-config` to a command that connects to a broker."""
    return connection_options_with()(function)


def read_properties(file: Path | None, pairs: Iterable[str], option: str) -> dict[str, str]:
    """Return the properties of a file, overridden by the `NAME=VALUE` pairs of `option`.

    Raises ConfigError for a malformed file, UsageError for a malformed pair.
    """
    found: dict[str, str] = {}
    if file is not None:
        try:
            found |= parse_properties(file.read_text())
        except (MalformedProperties, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from None
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {pair}: expected NAME=VALUE")
        found[name] = value
    return found


controllers_option = click.option(
    "--bootstrap-controller",
    "-C",
    "controllers",
    metavar="HOST:PORT[,...]",
    help="Connect to these controllers instead of brokers (KIP-919).",
)


def admin_settings(bootstrap: str, settings: tuple[str, ...], controllers: str | None) -> dict[str, str]:
    """Return the client configuration of a command line. With `controllers` the client connects to these instead of to brokers."""
    chosen = client_settings(bootstrap, settings)
    if controllers is not None:
        del chosen["bootstrap.servers"]
        chosen["bootstrap.controllers"] = controllers
    return chosen


def _read_settings(context: click.Context, _: click.Parameter, files: tuple[Path, ...]) -> None:
    found: list[str] = []
    for path in files:
        try:
            found += [f"{key}={value}" for key, value in parse_properties(path.read_text()).items()]
        except (MalformedProperties, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
    context.meta[_SETTINGS_OF_FILES] = tuple(found)


def settings_file_option(function: F) -> F:
    """Add `-F FILE` to a command, as the parameter `from_file` with the properties of the file."""

    def read(_: click.Context, __: click.Parameter, file: Path | None) -> dict[str, str]:
        return read_properties(file, (), "-F")

    option = click.option(
        "--command-config",
        "-F",
        "from_file",
        callback=read,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with client configurations; -X overrides it.",
    )
    return option(function)


def _store_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta[_PROFILE] = name


def _with_files(context: click.Context, _: click.Parameter, settings: tuple[str, ...]) -> tuple[str, ...]:
    in_files: tuple[str, ...] = context.meta.get(_SETTINGS_OF_FILES, ())
    if context.get_parameter_source("bootstrap") == ParameterSource.COMMANDLINE:
        # As in Kafka's tools, -b overrides the bootstrap.servers of a file.
        in_files = tuple(each for each in in_files if each.partition("=")[0] != profiles.SERVERS)
    given = (*in_files, *settings)
    return (*_of_profile(context, any(each.partition("=")[0].strip() == profiles.SERVERS for each in given)), *given)


def _of_profile(context: click.Context, servers_given: bool) -> Iterator[str]:
    """Yield the settings of the named profile, or of the profile in use, as `key=value`.

    The profile in use counts only when the brokers are not given in another way: its passwords are for its own brokers.
    """
    named: str | None = context.meta.get(_PROFILE)
    source = context.get_parameter_source("bootstrap")
    if named is None and (servers_given or source != ParameterSource.DEFAULT):
        return
    name = profiles.in_use() if named is None else named
    for key, value in profiles.load(name).items() if name else ():
        if key != profiles.SERVERS or source != ParameterSource.COMMANDLINE:
            yield f"{key}={value}"


def _checked_servers(_: click.Context, __: click.Parameter, servers: str) -> str:
    try:
        for server in servers.split(","):
            parse_host_port("bootstrap.servers", server)
    except ConfigError:
        raise click.BadParameter(f"{servers!r} is not HOST:PORT[,...]") from None
    return servers


def client_settings(bootstrap: str, settings: tuple[str, ...], **defaults: str) -> dict[str, str]:
    """Return the client configuration of a command line. Raises UsageError for a `-X` that is not key=value.

    `defaults` are configurations that `-X` overrides, with `_` for each `.` of the name.
    """
    chosen = {
        "bootstrap.servers": bootstrap,
        "client.id": "odradek-cli",
        "default.api.timeout.ms": _TIMEOUT_MS,
        "request.timeout.ms": _TIMEOUT_MS,
    }
    chosen |= {name.replace("_", "."): value for name, value in defaults.items()}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"-X {setting}: expected KEY=VALUE")
        chosen[name.strip()] = value
    return chosen


def check_text(option: str, text: str) -> None:
    """Raise UsageError for text of an argument that is not UTF-8, as names have to be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{option} {printable(text)}: this value is not valid UTF-8") from None


def typed_bytes(text: str) -> bytes:
    """Return text of the command line in UTF-8. Bytes of an argument that are not UTF-8 become the same bytes again (PEP 383)."""
    return text.encode("utf-8", "surrogateescape")


def unescape(text: str) -> bytes:
    r"""Return a typed delimiter or format as bytes. Replace \n, \t, \r, \0, \\ and \xHH; other text as in `typed_bytes`."""
    output = bytearray()
    position = 0
    plain = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92}
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "\\" and following in plain and following:
            output.append(plain[following])
            position += 2
        elif character == "\\" and following == "x" and _is_hex(text[position + 2 : position + 4]):
            output.append(int(text[position + 2 : position + 4], 16))
            position += 4
        else:
            output += typed_bytes(character)
            position += 1
    return bytes(output)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
