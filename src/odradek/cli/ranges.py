"""Where to start reading, as -o of `odradek consume` says it."""

from __future__ import annotations

import click


def parse_offset(text: str) -> tuple[str, int]:
    """("beginning" | "end" | "offset" | "tail" | "time", number); UsageError for anything else."""
    text = {"earliest": "beginning", "latest": "end"}.get(text, text)
    if text in ("beginning", "end"):
        return text, 0
    if text.startswith("s@") and _is_offset(text[2:]):
        return "time", int(text[2:])
    if _is_offset(text):
        return "offset", int(text)
    if text.startswith("-") and _is_offset(text[1:]):
        return "tail", int(text[1:])
    raise click.UsageError(f"-o {text}: this must be beginning, end, N, -N or s@MILLISECONDS")


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18  # what an int64 holds
