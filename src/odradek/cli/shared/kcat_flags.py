"""Advice for users who type the mode flags of kcat: the Odradek command for each mode."""

from __future__ import annotations

_MODES: dict[str, str] = {
    "-C": "to read records use `odradek consume` without -C",
    "-P": "to write records use `odradek produce` without -P",
    "-L": "instead of kcat's -L use `odradek topics describe`, and `odradek cluster list-endpoints` for the brokers",
    "-Q": "instead of kcat's -Q use `odradek offsets -t TOPIC:PARTITION:MS`",
    "-M": "instead of kcat's -M use `odradek start`",
}


def kcat_advice(option: str) -> str:
    """Return the text after "No such option" that names the command for a flag of kcat, "" for any other flag."""
    advice = _MODES.get(option)
    return f"; {advice}" if advice is not None else ""
