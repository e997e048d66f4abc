"""`odradek COMMAND ...`: finds the command's module by name and hands it the rest of the line.

A command module has `main(arguments: list[str]) -> int` (the exit status). Modules are imported only when their command runs, so that
`odradek start` loads nothing it does not need.
"""

from __future__ import annotations

import sys

COMMANDS: dict[str, tuple[str, str]] = {
    "start": ("odradek.cli.start", "start a broker"),
    "storage": ("odradek.cli.storage", "format and inspect log directories"),
    "topics": ("odradek.cli.topics", "create, list, describe, configure and delete topics"),
    "features": ("odradek.cli.features", "show, raise and lower the cluster's feature levels"),
    "produce": ("odradek.cli.produce", "write records to a topic"),
    "consume": ("odradek.cli.consume", "read records of a topic"),
}
"""Command -> (module, summary)."""


def usage() -> str:
    """The text of `odradek --help`."""
    lines = ["Usage: odradek COMMAND [ARGUMENTS]", "", "An Apache Kafka in Python.", "", "Commands:"]
    lines += [f"  {name:<10}{summary}" for name, (_, summary) in COMMANDS.items()]
    lines += [
        "",
        "Options:",
        "  --version  print the version",
        "  --help     print this text",
        "",
        "`odradek COMMAND --help` explains a command.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0 done, 1 failed, 2 not understood."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    if name in ("--version", "version"):
        from odradek import __version__

        print(f"odradek {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"odradek: there is no command {name!r}; `odradek --help` lists them", file=sys.stderr)
        return 2
    from importlib import import_module

    from odradek.base.errors import OdradekError

    try:
        return int(import_module(COMMANDS[name][0]).main(rest))
    except OdradekError as error:
        print(f"odradek {name}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
