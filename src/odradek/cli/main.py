"""`odradek COMMAND ...`: entry point, which imports the command's module and calls its `main` with the other arguments.

A command module has `main(arguments: list[str]) -> int` (the exit status). A module is imported only when its command runs, so
`odradek start` loads only the modules that it needs.

A failure prints one line on standard error, `odradek COMMAND: problem; advice`. The exit status is 0 for success, 1 for a failure or a
missing item, 2 for a usage error (nothing was tried). After a signal the exit status is 130 (Ctrl-C), 143 (SIGTERM) or 129 (SIGHUP).
`signals` describes how a signal ends a command, `streams` how a command runs without a standard stream.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from odradek.cli.shared.help_page import HELP_OPTION, help_page, report_usage_error
from odradek.cli.shared.kafka_flags import command_of_script, first_words_of_script
from odradek.cli.shared.signals import Terminated, as_interrupts
from odradek.cli.shared.streams import complete_streams, discard_output

COMPLETING = "_ODRADEK_COMPLETE"
"""Environment variable with which a shell requests completions; see `completion`."""

COMMANDS: dict[str, tuple[str, str]] = {
    "start": ("odradek.cli.node.start", "Run a broker."),
    "cluster": ("odradek.cli.node.cluster", "Run a local cluster; inspect any cluster."),
    "storage": ("odradek.cli.node.storage", "Format, inspect and check log directories."),
    "topics": ("odradek.cli.topics.topics", "Create, alter, list, describe and delete topics."),
    "produce": ("odradek.cli.records.produce", "Write records to a topic."),
    "consume": ("odradek.cli.records.consume", "Print the records of topics."),
    "groups": ("odradek.cli.groups.groups", "Show groups, members and lag; reset offsets."),
    "offsets": ("odradek.cli.records.offsets", "Print offsets of partitions."),
    "configs": ("odradek.cli.configs.configs", "Show and change configurations, quotas and SCRAM users."),
    "transactions": ("odradek.cli.transactions.transactions", "Show transactions; find and abort hanging ones."),
    "features": ("odradek.cli.configs.features", "Show, upgrade and downgrade feature levels."),
    "quorum": ("odradek.cli.node.quorum", "Show the controller quorum and change its voters."),
    "api-versions": ("odradek.cli.node.api_versions", "Show the API versions that brokers support."),
    "elections": ("odradek.cli.topics.elections", "Elect leaders of partitions."),
    "reassign": ("odradek.cli.topics.reassign", "Move partitions to other brokers."),
    "log-dirs": ("odradek.cli.topics.log_dirs", "Show replicas, their directories and sizes."),
    "delete-records": ("odradek.cli.records.delete_records", "Delete the records before offsets."),
    "dump-log": ("odradek.cli.dumping.dump_log", "Print the contents of the files of a log."),
    "perf": ("odradek.cli.perf.perf", "Measure throughput and latency of records."),
    "verifiable": ("odradek.cli.perf.verifiable", "Run test clients that print events as JSON."),
    "metrics": ("odradek.cli.node.metrics", "Print the metrics or the health of a node."),
    "client-metrics": ("odradek.cli.configs.client_metrics", "Manage subscriptions to metrics of clients."),
    "acls": ("odradek.cli.security.acls", "Show, add and remove access rules (ACLs)."),
    "delegation-tokens": ("odradek.cli.security.delegation_tokens", "Create, renew, expire and show tokens."),
    "pipeline": ("odradek.cli.pipelines.pipeline", "Write topics to tables with Spark."),
    "profile": ("odradek.cli.configs.profile", "Store client settings under names."),
    "completion": ("odradek.cli.completion", "Print a script for shell completion."),
}
"""Module and summary by command."""


def usage() -> str:
    """Return the text of `odradek --help`."""
    return help_page(
        "odradek [OPTIONS] COMMAND [ARGS]...",
        ["An Apache Kafka in Python.", "`odradek COMMAND --help` explains a command."],
        ("Options", [("--version", "Show the version and exit."), HELP_OPTION]),
        ("Commands", [(name, summary) for name, (_, summary) in COMMANDS.items()]),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status."""
    with complete_streams():
        try:
            return _main(arguments)
        except OSError as error:
            discard_output()
            print(f"odradek: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
            return 1


def _main(arguments: list[str] | None) -> int:
    if instruction := os.environ.get(COMPLETING):
        from importlib import import_module

        return int(import_module(COMMANDS["completion"][0]).complete(instruction))
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        print(usage(), file=sys.stderr)
        return 2
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help") or (name == "help" and not rest):
        print(usage())
        return 0
    if name == "help":
        name, rest = rest[0], [*rest[1:], "--help"]
    if name in ("--version", "version"):
        from odradek import __version__

        print(f"odradek {__version__}")
        return 0
    rest = [*first_words_of_script(name), *rest]
    name = command_of_script(name)
    if name not in COMMANDS:
        if name.startswith("-"):
            from odradek.cli.shared.kcat_flags import kcat_advice

            return report_usage_error("odradek", f"No such option '{name}'{kcat_advice(name)}")
        import difflib

        close = difflib.get_close_matches(name, COMMANDS, 1)
        return report_usage_error("odradek", f"No such command '{name}'" + (f". Did you mean '{close[0]}'?" if close else ""))
    from importlib import import_module

    from odradek.base.errors import OdradekError
    from odradek.base.text import indented

    try:
        with as_interrupts():
            status = int(import_module(COMMANDS[name][0]).main(rest))
            sys.stdout.flush()
            return status
    except OdradekError as error:
        print(indented(f"odradek {name}: {error}", ""), file=sys.stderr)
        return 1
    except BrokenPipeError:
        discard_output()  # the reader of standard output has closed it
        return 1
    except OSError as error:
        what = error.strerror or str(error)
        print(f"odradek {name}: {f'{error.filename}: {what}' if error.filename else what}", file=sys.stderr)
        with suppress(OSError):
            sys.stdout.flush()
            return 1
        discard_output()
        return 1
    except Terminated as ended:
        return ended.status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
