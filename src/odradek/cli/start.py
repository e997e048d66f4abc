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
from odradek.cli.help_page import HELP_OPTION, help_page, misunderstood, with_way_out

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.network.acceptor import ListenError
    from odradek.server.broker import Broker
    from odradek.storage.meta_properties import NotFormatted

ABOUT = (
    "Run a broker, with Kafka's own configuration keys.",
    "FILE is a server.properties. Without one the node is broker and controller in one, on localhost:9092, and formats its data directory "
    "when that is empty. SIGTERM, SIGINT (Ctrl-C) and SIGHUP shut it down in order.",
)
OPTIONS = (
    ("--port N", "The port for clients, without a FILE; 9092 when left out, 0 for any that is free."),
    ("--host HOST", "The address for clients, without a FILE; localhost when left out, 0.0.0.0 for all of this machine's."),
    ("--override KEY=VALUE", "Set a key over the file's; may be repeated."),
    ("--data-dir DIRECTORY", "Where the data goes without a FILE; $XDG_DATA_HOME/odradek, else ~/.local/share/odradek, when left out."),
    ("--quiet", "Print only warnings and errors."),
    HELP_OPTION,
)
"""Rows of the help text: option and explanation."""

_LISTENERS = "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
_HOST, _PORT = "localhost", 9092
_VALUED = ("--override", "--data-dir", "--port", "--host")


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
        if name in _VALUED:
            if not equals:
                if not rest:
                    raise UsageError(f"Option '{name}' requires an argument")
                value = rest.pop(0)
            if name == "--data-dir":
                if not value:
                    raise UsageError("--data-dir: this must name a directory")
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
                raise UsageError(f"--override {value}: this must be key=value")
            overrides[key.strip()] = setting.strip()
        elif argument == "--quiet":
            quiet = True
        elif name == "--quiet":
            raise UsageError("Option '--quiet' does not take a value")
        elif argument.startswith("-"):
            raise UsageError(f"No such option '{name}'{_meant(name)}")
        elif properties is not None:
            raise UsageError(f"only one FILE, not {properties} and {argument}")
        else:
            properties = argument
    if properties is not None and data_dir is not None:
        raise UsageError("--data-dir is for starting without a FILE; with one, --override log.dirs=DIRECTORY")
    if host is not None or port is not None:
        if properties is not None:
            raise UsageError("--host and --port are for starting without a FILE; with one, --override listeners=PLAINTEXT://HOST:PORT")
        if "listeners" in overrides:
            raise UsageError("--host and --port say the same as --override listeners=...: one of them")
    return Options(properties, overrides, data_dir, quiet, host, port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > 65_535:
        raise UsageError(f"--port {text}: this must be a number from 0 to 65535")
    return int(text)


def _host(text: str) -> str:
    host = text.removeprefix("[").removesuffix("]")
    if not host or set(host) & set("/, "):
        raise UsageError(f"--host {text}: this must be a name or an address of this machine")
    return host


def _meant(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, (*_VALUED, "--quiet", "--help"), 1)
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
            from odradek.cli.server_properties import followed

            settings = followed(settings)
        return standalone_config(settings)
    from odradek.cli.server_properties import load_server_properties

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
        return misunderstood("odradek start", str(error))
    gc.disable()  # the start makes no cyclic garbage; `server.process` enables the collector again
    config = load(options)
    from odradek.server.process import run

    alone = options.properties is None
    try:
        run(config, format_if_empty=alone, quiet=alone or options.quiet, on_ready=warn if options.quiet else announce)
    except OdradekError as error:
        hint = way_out(error, options, config)
        if not hint:
            raise
        raise OdradekError(with_way_out(str(error), hint)) from None
    return 0


def way_out(error: OdradekError, options: Options, config: BrokerConfig) -> str:
    """Return advice for an error of the start; "" when the error already contains advice, or no advice is known."""
    from odradek.controller.format import ForeignDirectory
    from odradek.network.acceptor import ListenError
    from odradek.storage.log_directory import DirectoryInUse
    from odradek.storage.meta_properties import NotFormatted, UnusableDirectory

    if isinstance(error, ListenError):
        return _other_address(error, options)
    if isinstance(error, NotFormatted):
        return _format_command(error, options, config)
    of_the_disk = isinstance(error.__cause__, OSError) and error.__cause__.filename
    if isinstance(error, (DirectoryInUse, ForeignDirectory, UnusableDirectory)) or of_the_disk:
        return _other_directory(options)
    return ""


def _other_address(error: ListenError, options: Options) -> str:
    if "listeners" in options.overrides:
        port = host = f"--override listeners={error.listener}://localhost:PORT"
    elif options.properties is None:
        port, host = "--port N", "--host HOST"
    else:
        port = host = f"`listeners` in {options.properties}"
    if error.errno == errno.EADDRINUSE:
        return f"is a broker running already? Another port: {port}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"ports below 1024 are for root; a higher one: {port}"
    return f"it must be an address of this machine: {host}"


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


def _other_directory(options: Options) -> str:
    if options.properties is None:
        return "another directory: --data-dir DIRECTORY"
    return f"another directory: `log.dirs` in {options.properties}"


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
    open_ = [each.name for each in broker.bound_listeners if each.scope == "broker" and not of_this_machine(each.host)]
    if not open_:
        return
    ports = {each.name: each.port for each in broker.bound_listeners}
    advertised = [each for each in broker.config.advertised_listeners if each.listener in open_]
    told = ", ".join(str(each._replace(host=each.host or _own_name(), port=each.port or ports[each.listener])) for each in advertised)
    unasked = [name for name in open_ if not _asks(broker, name)]
    if unasked and not broker.config.text("authorizer.class.name"):
        what = f"listener {unasked[0]} asks nobody who they are, and no authorizer is set"
        print(f"odradek start: whoever reaches this machine may read, write and delete everything: {what}", file=sys.stderr)
    print(
        f"odradek start: clients are sent to {told}; another host: --override advertised.listeners={open_[0]}://HOST:{ports[open_[0]]}",
        file=sys.stderr,
        flush=True,
    )


def _asks(broker: Broker, listener: str) -> bool:
    """Return whether the listener serves only clients that authenticate with a password, a token or a certificate."""
    from odradek.config.listener_settings import listener_value

    protocol = broker.config.listener_security_protocols[listener]
    return protocol.startswith("SASL") or (protocol == "SSL" and listener_value(broker.config, listener, "ssl.client.auth") == "required")


def of_this_machine(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _own_name() -> str:
    import socket

    return socket.getfqdn()
