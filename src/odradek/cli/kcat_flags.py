"""The flags by which kcat is told what to do, for people who type them here: Odradek has a command for each."""

from __future__ import annotations

_MODES: dict[str, str] = {
    "-C": "`odradek consume` reads, without -C",
    "-P": "`odradek produce` writes, without -P",
    "-L": "kcat's -L is `odradek topics describe`, and `odradek cluster list-endpoints` for the brokers",
    "-Q": "kcat's -Q is `odradek offsets -t TOPIC:PARTITION:MS`",
    "-M": "kcat's -M is `odradek start`",
}


def meant_by(option: str) -> str:
    """What to say after "No such option": which command does what kcat's flag does; "" for any other."""
    meant = _MODES.get(option)
    return f"; {meant}" if meant is not None else ""
