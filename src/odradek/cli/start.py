"""`odradek start`: a broker in this process, until SIGTERM or SIGINT.

Arguments are taken apart by hand: argparse and click would cost more start-up time than the whole of this module.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import OdradekError

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.server.broker import Broker

USAGE = """Usage: odradek start [server.properties] [--override key=value ...] [--data-dir DIR] [--quiet]

Starts a broker with Kafka's own configuration keys. Without a properties file it is a broker and its controller in one, on localhost:9092,
with its data in --data-dir (default: $XDG_DATA_HOME/odradek, else ~/.local/share/odradek), which is formatted when it is empty.

  --override key=value  sets a key, over the file; may be repeated
  --data-dir DIR        where the data goes when no properties file says so
  --quiet               print nothing but warnings and errors (with a properties file: the log at level INFO without it)
  --help                print this text

SIGTERM and SIGINT shut it down in order."""


_LISTENERS = "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
_CONTROLLER_KEYS = frozenset({"controller.listener.names", "process.roles", "controller.quorum.voters"})


class UsageError(OdradekError):
    """A command line that is not understood."""


class Options(NamedTuple):
    """What the command line said."""

    properties: str | None
    overrides: dict[str, str]
    data_dir: str | None
    quiet: bool


def parse(arguments: list[str]) -> Options:
    """Takes the command line apart; UsageError, one line, when it cannot."""
    properties: str | None = None
    overrides: dict[str, str] = {}
    data_dir: str | None = None
    quiet = False
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if name in ("--override", "--data-dir"):
            if not equals:
                if not rest:
                    raise UsageError(f"{name} needs a value; see `odradek start --help`")
                value = rest.pop(0)
            if name == "--data-dir":
                data_dir = value
                continue
            key, equals, setting = value.partition("=")
            if not equals or not key.strip():
                raise UsageError(f"--override {value}: this must be key=value")
            overrides[key.strip()] = setting.strip()
        elif argument == "--quiet":
            quiet = True
        elif argument.startswith("-"):
            raise UsageError(f"there is no option {argument}; see `odradek start --help`")
        elif properties is not None:
            raise UsageError(f"only one properties file, not {properties} and {argument}")
        else:
            properties = argument
    if properties is not None and data_dir is not None:
        raise UsageError("--data-dir is for starting without a properties file; set log.dirs with --override instead")
    return Options(properties, overrides, data_dir, quiet)


def default_data_dir() -> str:
    """The user's data folder, as the XDG base directory specification has it."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "odradek")


def load(options: Options) -> BrokerConfig:
    """The configuration; ConfigError, one line naming the key (or the file), when it cannot be used."""
    from odradek.config.broker import load_broker_config, standalone_config

    if options.properties is None:
        settings = {"listeners": _LISTENERS, "log.dirs": options.data_dir or default_data_dir(), **options.overrides}
        if "CONTROLLER://" not in settings["listeners"] and not settings.keys() & _CONTROLLER_KEYS:
            # Who only says where clients are served wants a controller all the same; nobody else has to find it.
            settings["listeners"] += ",CONTROLLER://127.0.0.1:0"
        return standalone_config(settings)
    try:
        with open(options.properties, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {options.properties}: {getattr(error, 'strerror', None) or error}") from None
    return load_broker_config(text, options.overrides)


def main(arguments: list[str]) -> int:
    """Runs the broker; returns when it has shut down in order."""
    if "-h" in arguments or "--help" in arguments:
        print(USAGE)
        return 0
    options = parse(arguments)
    gc.disable()  # while nothing is thrown away; `server.process` turns it on again
    config = load(options)
    from odradek.server.process import run

    alone = options.properties is None
    return run(config, format_if_empty=alone, quiet=alone or options.quiet, on_ready=None if options.quiet else announce)


def announce(broker: Broker) -> None:
    """Says where the broker is and what to do with it."""
    client = next((listener for listener in broker.bound_listeners if listener.scope == "broker"), None)
    lines = [f"Odradek is ready (node {broker.config.node_id}, started in {broker.start_seconds:.2f} s)"]
    for listener in broker.bound_listeners:
        lines.append(f"  listener  {listener.name}://{listener.host or '0.0.0.0'}:{listener.port}")
    lines.append(f"  data      {', '.join(broker.config.log_dirs)}")
    if client is not None:
        host = client.host if client.host not in ("", "0.0.0.0", "::") else "localhost"
        address = f"[{host}]:{client.port}" if ":" in host else f"{host}:{client.port}"
        lines.append(f"  try       echo hello | odradek produce --bootstrap-server {address} --topic greetings")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
