"""Help texts and usage errors, without click. The layout of help texts is click's, for commands that must not import click."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

HELP_OPTION = ("-h, --help", "Show this message and exit.")

_WIDEST = 80
_NARROWEST = 50
_TERM_WIDEST = 30


def help_page(usage: str, paragraphs: Sequence[str], *sections: tuple[str, Sequence[tuple[str, str]]]) -> str:
    """Return a help text as wide as the terminal, within click's bounds. A section is a title and rows of two columns."""
    width = max(min(shutil.get_terminal_size().columns, _WIDEST) - 2, _NARROWEST)
    lines = [f"Usage: {usage}"]
    for paragraph in paragraphs:
        lines += ["", *textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")]
    for title, rows in sections:
        lines += ["", f"{title}:"]
        column = min(max(len(term) for term, _ in rows), _TERM_WIDEST) + 2
        for term, text in rows:
            wrapped = textwrap.wrap(text, max(width - column - 2, 10))
            if len(term) > column - 2:
                lines.append(f"  {term}")
            else:
                lines.append(f"  {term:<{column}}{wrapped.pop(0)}")
            lines += [f"  {'':<{column}}{line}" for line in wrapped]
    return "\n".join(lines)


def with_advice(problem: str, advice: str) -> str:
    """Return one line with a problem and advice for the user."""
    return f"{problem} {advice[0].upper()}{advice[1:]}" if problem.endswith("?") else f"{problem.removesuffix('.')}; {advice}"


def report_usage_error(command: str, problem: str, help_of: str | None = None) -> int:
    """Print the problem of a command line with a reference to the help, as one line on standard error. Return exit status 2.

    `command` is the called command ("odradek topics"). `help_of` is the command whose help explains the problem, if it is another
    ("odradek topics create").
    """
    print(with_advice(f"{command}: {problem}", f"see `{help_of or command} --help`"), file=sys.stderr)
    return 2
