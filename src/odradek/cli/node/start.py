"""`odradek start`: a broker in this process, until SIGTERM, SIGINT or SIGHUP.

`parse` reads the arguments without argparse or click, whose import takes longer than all other work of this module.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.addresses import host_port
from odradek.base.errors import OdradekError
from odradek.cli.shared.help_page import HELP_OPTION, help_page, report_usage_error, with_advice

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.network.acceptor import ListenError
    from odradek.server.start.broker import Broker
    from odradek.storage.meta_properties import NotFormatted

ABOUT = (
    "Run a broker. The configuration keys are Kafka's.",
    "FILE is a server.properties. Without FILE the node is both broker and controller, listens on localhost:9092, and formats its data "
    "directory if that is empty. SIGTERM, SIGINT (Ctrl-C) and SIGHUP shut the node down.",
)
OPTIONS = (
    ("--port N", "Port for clients (without FILE); 9092 by default, 0 for any free port."),
    ("--host HOST", "Address for clients (without FILE); localhost by default, 0.0.0.0 for all addresses of this machine."),
    ("--override KEY=VALUE", "Set a key; overrides the file. May be repeated."),
    ("--data-dir DIRECTORY", "Data directory (without FILE); $XDG_DATA_HOME/odradek or ~/.local/share/odradek by default."),
    ("--quiet", "Print only warnings and errors."),
    HELP_OPTION,
)
"""Rows of the help text: option and explanation."""

_LISTENERS = "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
_HOST, _PORT = "localhost", 9092
_OPTIONS_WITH_VALUE = ("--override", "--data-dir", "--port", "--host")


class UsageError(OdradekError):
    """Error for a malformed command line."""


class Options(NamedTuple):
    """Options of the command line; None for options that are left out."""

    properties: str | None
    overrides: dict[str, str]
    data_dir: str | None
    quiet: bool
    host: str | None = None
    port: int | None = None


def parse(arguments: list[str]) -> Options:
    """Parse the command line. Raises UsageError with a message of one line."""
    properties: str | None = None
    overrides: dict[str, str] = {}
    data_dir: str | None = None
    host: str | None = None
    port: int | None = None
    quiet = False
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if name in _OPTIONS_WITH_VALUE:
            if not equals:
                if not rest:
                    raise UsageError(f"Option '{name}' requires an argument")
                value = rest.pop(0)
            if name == "--data-dir":
                if not value:
                    raise UsageError("--data-dir: expected a directory, not an empty value")
                data_dir = value
                continue
            if name == "--port":
                port = _port(value)
                continue
            if name == "--host":
                host = _host(value)
                continue
            key, equals, setting = value.partition("=")
            if not equals or not key.strip():
                raise UsageError(f"--override {value}: expected KEY=VALUE")
            overrides[key.strip()] = setting.strip()
        elif argument == "--quiet":
            quiet = True
        elif name == "--quiet":
            raise UsageError("Option '--quiet' does not take a value")
        elif argument.startswith("-"):
            raise UsageError(f"No such option '{name}'{_suggestion(name)}")
        elif properties is not None:
            raise UsageError(f"give only one FILE, not {properties} and {argument}")
        else:
            properties = argument
    if properties is not None and data_dir is not None:
        raise UsageError("--data-dir cannot be used with FILE; use --override log.dirs=DIRECTORY")
    if host is not None or port is not None:
        if properties is not None:
            raise UsageError("--host and --port cannot be used with FILE; use --override listeners=PLAINTEXT://HOST:PORT")
        if "listeners" in overrides:
            raise UsageError("--host and --port cannot be used with --override listeners")
    return Options(properties, overrides, data_dir, quiet, host, port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > 65_535:
        raise UsageError(f"--port {text}: expected a number from 0 to 65535")
    return int(text)


def _host(text: str) -> str:
    host = text.removeprefix("[").removesuffix("]")
    if not host or set(host) & set("/, "):
        raise UsageError(f"--host {text}: expected a host name or an address of this machine")
    return host


def _suggestion(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, (*_OPTIONS_WITH_VALUE, "--quiet", "--help"), 1)
    return f". Did you mean '{close[0]}'?" if close else ""


def default_data_dir() -> str:
    """Return the user's data folder (XDG base directory specification)."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "odradek")


def load(options: Options) -> BrokerConfig:
    """Return the configuration. Raises ConfigError with one line that names the key or the file, UnusableFile for an unreadable file."""
    if options.properties is None:
        from odradek.config.broker import standalone_config, with_controller_listener

        settings = {"listeners": _listeners(options), "log.dirs": options.data_dir or default_data_dir(), **options.overrides}
        settings = with_controller_listener(settings)
        if settings.get("config.providers"):
            from odradek.cli.node.server_properties import resolve_references

            settings = resolve_references(settings)
        return standalone_config(settings)
    from odradek.cli.node.server_properties import load_server_properties

    return load_server_properties(options.properties, options.overrides)


def _listeners(options: Options) -> str:
    """Return the listeners from --host and --port. Without these options, also the controller's default listener."""
    if options.host is None and options.port is None:
        return _LISTENERS
    host = _HOST if options.host is None else options.host
    if host in ("0.0.0.0", "::"):
        host = ""  # all addresses: with "" clients are sent to this machine's name, not to 0.0.0.0, which they cannot reach
    return f"PLAINTEXT://{host_port(host, _PORT if options.port is None else options.port)}"


def main(arguments: list[str]) -> int:
    """Run the broker until it is shut down, and return the exit status. Raises OdradekError when the broker cannot start or continue."""
    if "-h" in arguments or "--help" in arguments:
        print(help_page("odradek start [OPTIONS] [FILE]", ABOUT, ("Options", OPTIONS)))
        return 0
    try:
        options = parse(arguments)
    except UsageError as error:
        return report_usage_error("odradek start", str(error))
    gc.disable()  # the start creates no cyclic garbage; `server.start.process` enables the collector again
    config = load(options)
    from odradek.server.start.process import run

    standalone = options.properties is None
    try:
        run(config, format_if_empty=standalone, quiet=standalone or options.quiet, on_ready=warn if options.quiet else announce)
    except OdradekError as error:
        advice = advice_for(error, options, config)
        if not advice:
            raise
        raise OdradekError(with_advice(str(error), advice)) from None
    return 0


def advice_for(error: OdradekError, options: Options, config: BrokerConfig) -> str:
    """Return advice for an error of the start; "" when the error already contains advice, or no advice is known."""
    from odradek.controller.format import ForeignDirectory
    from odradek.network.acceptor import ListenError
    from odradek.storage.log_directory import DirectoryInUse
    from odradek.storage.meta_properties import NotFormatted, UnusableDirectory

    if isinstance(error, ListenError):
        return _address_advice(error, options)
    if isinstance(error, NotFormatted):
        return _format_command(error, options, config)
    of_the_disk = isinstance(error.__cause__, OSError) and error.__cause__.filename
    if isinstance(error, (DirectoryInUse, ForeignDirectory, UnusableDirectory)) or of_the_disk:
        return _directory_advice(options)
    return ""


def _address_advice(error: ListenError, options: Options) -> str:
    if "listeners" in options.overrides:
        port = host = f"--override listeners={error.listener}://localhost:PORT"
    elif options.properties is None:
        port, host = "--port N", "--host HOST"
    else:
        port = host = f"`listeners` in {options.properties}"
    if error.errno == errno.EADDRINUSE:
        return f"is a broker already running? Choose another port with {port}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"ports below 1024 are reserved for root; choose a higher one with {port}"
    return f"choose an address of this machine with {host}"


def _format_command(error: NotFormatted, options: Options, config: BrokerConfig) -> str:
    command = ["format first: odradek storage format", "-c", options.properties or "FILE"]
    if error.cluster_id is not None:
        return " ".join([*command, "-t", error.cluster_id, "--ignore-formatted"])
    voters = config.controller_quorum_voters
    if config.is_alone:
        command += ["-t", "$(odradek storage random-uuid)"]
        if not voters:
            command.append("--standalone")
        return " ".join(command)
    command += ["-t", "CLUSTER_ID"]
    if config.is_controller and not voters:
        command += ["--initial-controllers", "ID@HOST:PORT:DIRECTORY_ID,..."]
    return " ".join([*command, "(the same on all nodes of the cluster)"])


def _directory_advice(options: Options) -> str:
    if options.properties is None:
        return "choose another directory with --data-dir DIRECTORY"
    return f"choose another directory with `log.dirs` in {options.properties}"


def announce(broker: Broker) -> None:
    """Print the addresses and the data directories of the broker, and a command to try."""
    client = next((listener for listener in broker.bound_listeners if listener.scope == "broker"), None)
    lines = [f"Odradek is ready (node {broker.config.node_id}, started in {broker.start_seconds:.2f} s)"]
    for listener in broker.bound_listeners:
        lines.append(f"  listener  {listener.name}://{host_port(listener.host or '0.0.0.0', listener.port)}")
    lines.append(f"  data      {', '.join(broker.config.log_dirs)}")
    if client is not None:
        host = client.host if client.host not in ("", "0.0.0.0", "::") else "localhost"
        address = host_port(host, client.port)
        login = "" if broker.config.listener_security_protocols[client.name] == "PLAINTEXT" else " -F client.properties"
        lines.append(f"  try       echo hello | odradek produce --bootstrap-server {address} --topic greetings{login}")
    with suppress(OSError):  # the broker also runs without a standard output
        print("\n".join(lines), flush=True)
    warn(broker)


def warn(broker: Broker) -> None:
    """Print on standard error, if other machines can reach the broker: the addresses for clients, and whether the broker is open to all."""
    reachable = [each.name for each in broker.bound_listeners if each.scope == "broker" and not is_loopback(each.host)]
    if not reachable:
        return
    ports = {each.name: each.port for each in broker.bound_listeners}
    advertised = [each for each in broker.config.advertised_listeners if each.listener in reachable]
    addresses = ", ".join(str(each._replace(host=each.host or _host_name(), port=each.port or ports[each.listener])) for each in advertised)
    from odradek.config.keys.security import AUTHORIZER_CLASS_NAME

    unauthenticated = [name for name in reachable if not _authenticates(broker, name)]
    if unauthenticated and not broker.config[AUTHORIZER_CLASS_NAME]:
        reason = f"listener {unauthenticated[0]} does not authenticate clients, and authorizer.class.name is not set"
        print(f"odradek start: every client that can reach this machine can read, write and delete all data: {reason}", file=sys.stderr)
    print(
        f"odradek start: clients are told to connect to {addresses}; choose another host with "
        f"--override advertised.listeners={reachable[0]}://HOST:{ports[reachable[0]]}",
        file=sys.stderr,
        flush=True,
    )


def _authenticates(broker: Broker, listener: str) -> bool:
    """Return whether the listener serves only clients that authenticate with a password, a token or a certificate."""
    from odradek.config.keys.security import SSL_CLIENT_AUTH
    from odradek.config.listener_settings import listener_value

    protocol = broker.config.listener_security_protocols[listener]
    return protocol.startswith("SASL") or (protocol == "SSL" and listener_value(broker.config, listener, SSL_CLIENT_AUTH) == "required")


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _host_name() -> str:
    import socket

    return socket.getfqdn()
