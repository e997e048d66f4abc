"""Profiles: named client settings of the user, each a properties file, and which of them is in use.

They lie in $XDG_CONFIG_HOME/odradek (~/.config/odradek): `profiles/NAME.properties`, and `profile` with the name of the one in use. The
files are the user's alone (mode 0600, as they may hold passwords), and replaced as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from odradek.base.errors import ConfigError
from odradek.client.common_keys import SPELLINGS
from odradek.client.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig
from odradek.config.definition import PASSWORD
from odradek.config.properties import MalformedProperties, parse_properties

SERVERS: Final = "bootstrap.servers"
HIDDEN: Final = "(hidden)"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
_ENDING: Final = ".properties"


def folder() -> Path:
    """Where the user's configuration is, as the XDG base directory specification has it."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odradek"


def names() -> list[str]:
    """The profiles there are, in order."""
    try:
        files = sorted(path.name for path in (folder() / "profiles").iterdir())
    except FileNotFoundError:
        return []
    return [name.removesuffix(_ENDING) for name in files if name.endswith(_ENDING) and _NAME.fullmatch(name.removesuffix(_ENDING))]


def in_use() -> str | None:
    """The profile that commands take when none is named."""
    try:
        return (folder() / "profile").read_text().strip() or None
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError(f"{folder() / 'profile'}: this is no name of a profile; `odradek profile use NAME` writes it anew") from None


def load(name: str) -> dict[str, str]:
    """The settings of a profile; ConfigError for one that is not there, or whose file is broken, OSError for one that cannot be read."""
    path = _path(name)
    try:
        settings = parse_properties(path.read_text())
    except FileNotFoundError:
        there = names()
        close = get_close_matches(name, there, 1)
        known = "`odradek profile list` shows them" if there else "`odradek profile create` makes one"
        raise ConfigError(f"there is no profile {name}; {f'did you mean {close[0]}?' if close else known}") from None
    except MalformedProperties as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is no text in UTF-8") from None
    try:
        check(settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return settings


def check(settings: Mapping[str, str]) -> None:
    """ConfigError for a setting that is not one of every client, or whose value does not fit."""
    for key in settings:
        dotted = SPELLINGS.get(key, key)
        if dotted not in ADMIN_CONFIG and (dotted in PRODUCER_CONFIG or dotted in CONSUMER_CONFIG):
            raise ConfigError(f"{key} is not a setting of every client; -X {key}=VALUE gives it to a command that takes it")
        if dotted in ADMIN_CONFIG and not (dotted in PRODUCER_CONFIG and dotted in CONSUMER_CONFIG):
            raise ConfigError(f"{key} is not a setting of every client")
    ClientConfig(ADMIN_CONFIG, settings)


def save(name: str, settings: Mapping[str, str]) -> None:
    """Writes a profile, new or in place of what it was."""
    _replace(_path(name), "".join(f"{escaped(key, ' =:')}={escaped(value, '')}\n" for key, value in settings.items()))


def use(name: str | None) -> None:
    """Makes it the one in use; None for no profile."""
    path = folder() / "profile"
    if name is None:
        path.unlink(missing_ok=True)
    else:
        load(name)
        _replace(path, f"{name}\n")


def delete(name: str) -> None:
    """Removes a profile; it is no more in use then. ConfigError when it is not there."""
    if name not in names():
        load(name)
    if in_use() == name:
        use(None)
    _path(name).unlink()


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as they may be printed: without passwords, keys and what has them in it."""
    return {key: HIDDEN if _is_secret(key) else value for key, value in settings.items()}


def merged(settings: Mapping[str, str], given: Mapping[str, str], removed: Iterable[str]) -> dict[str, str]:
    """Settings with others over them, and without some; ConfigError for one to be removed that is not there."""
    kept = dict(settings)
    for key in removed:
        if key not in kept:
            raise ConfigError(f"{key} is not set")
        del kept[key]
    return kept | dict(given)


def _is_secret(key: str) -> bool:
    dotted = SPELLINGS.get(key, key)
    return dotted not in ADMIN_CONFIG or ADMIN_CONFIG[dotted].type == PASSWORD


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of a profile; it has 1 to 64 of a-z, A-Z, 0-9, '_', '-' and, not in front, '.'")
    return folder() / "profiles" / f"{name}{_ENDING}"


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def escaped(text: str, separators: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    plain = "".join(f"\\{each}" if each in separators else each for each in plain)
    return f"\\{plain}" if plain[:1] in (" ", "#", "!") else plain
