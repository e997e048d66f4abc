"""Advice for users who type the mode flags of kcat: the Odradek command for each mode."""

from __future__ import annotations

_MODES: dict[str, str] = {
    "-C": "`odradek consume` reads, without -C",
    "-P": "`odradek produce` writes, without -P",
    "-L": "kcat's -L is `odradek topics describe`, and `odradek cluster list-endpoints` for the brokers",
    "-Q": "kcat's -Q is `odradek offsets -t TOPIC:PARTITION:MS`",
    "-M": "kcat's -M is `odradek start`",
}


def meant_by(option: str) -> str:
    """Return the text after "No such option" that names the command for a flag of kcat, "" for any other flag."""
    meant = _MODES.get(option)
    return f"; {meant}" if meant is not None else ""
