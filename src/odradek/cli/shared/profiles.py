"""Profiles: named client settings of the user, each a properties file, and the name of the profile in use.

The files are in $XDG_CONFIG_HOME/odradek (~/.config/odradek): `profiles/NAME.properties`, and `profile` with the name of the profile in
use. The files may contain passwords, so only the user can read them (mode 0600). A change replaces the whole file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from odradek.base.errors import ConfigError
from odradek.client.settings.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig, key_of
from odradek.config.definition import PASSWORD
from odradek.config.properties import MalformedProperties, parse_properties

SERVERS: Final = "bootstrap.servers"
HIDDEN: Final = "(hidden)"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
_ENDING: Final = ".properties"


def folder() -> Path:
    """Return the folder of the user's configuration (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "odradek"


def names() -> list[str]:
    """Return the names of all profiles, sorted."""
    try:
        files = sorted(path.name for path in (folder() / "profiles").iterdir())
    except FileNotFoundError:
        return []
    return [name.removesuffix(_ENDING) for name in files if name.endswith(_ENDING) and _NAME.fullmatch(name.removesuffix(_ENDING))]


def in_use() -> str | None:
    """Return the profile in use, which counts when the command line names none; None without. Raises ConfigError for a broken file."""
    try:
        return (folder() / "profile").read_text().strip() or None
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{folder() / 'profile'}: the file does not contain the name of a profile; replace it with `odradek profile use NAME`"
        ) from None


def load(name: str) -> dict[str, str]:
    """Return the settings of a profile. Raises ConfigError for an unknown profile or a broken file, OSError for an unreadable file."""
    path = _path(name)
    try:
        settings = parse_properties(path.read_text())
    except FileNotFoundError:
        existing = names()
        close = get_close_matches(name, existing, 1)
        known = "`odradek profile list` shows all profiles" if existing else "create one with `odradek profile create`"
        raise ConfigError(f"profile {name} does not exist; {f'did you mean {close[0]}?' if close else known}") from None
    except MalformedProperties as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid UTF-8") from None
    try:
        check(settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return settings


def check(settings: Mapping[str, str]) -> None:
    """Raise ConfigError for a setting that not every kind of client has, and for an invalid value."""
    for key in settings:
        dotted = key_of(ADMIN_CONFIG, key)
        if dotted not in ADMIN_CONFIG and (dotted in PRODUCER_CONFIG or dotted in CONSUMER_CONFIG):
            raise ConfigError(f"{key} is not a setting of every client; give -X {key}=VALUE to each command that needs it")
        if dotted in ADMIN_CONFIG and not (dotted in PRODUCER_CONFIG and dotted in CONSUMER_CONFIG):
            raise ConfigError(f"{key} is not a setting of every client")
    ClientConfig(ADMIN_CONFIG, settings)


def save(name: str, settings: Mapping[str, str]) -> None:
    """Write a profile. An existing profile of that name is replaced."""
    _replace(_path(name), "".join(f"{escaped(key, ' =:')}={escaped(value, '')}\n" for key, value in settings.items()))


def use(name: str | None) -> None:
    """Make `name` the profile in use, or with None use no profile. Raises ConfigError for an unknown or broken profile."""
    path = folder() / "profile"
    if name is None:
        path.unlink(missing_ok=True)
    else:
        load(name)
        _replace(path, f"{name}\n")


def delete(name: str) -> None:
    """Remove a profile. If the profile was in use, then use no profile. Raises ConfigError for an unknown profile."""
    if name not in names():
        load(name)
    if in_use() == name:
        use(None)
    _path(name).unlink()


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in printable form: secret values, such as passwords and keys, are replaced by HIDDEN."""
    return {key: HIDDEN if _is_secret(key) else value for key, value in settings.items()}


def merged(settings: Mapping[str, str], given: Mapping[str, str], removed: Iterable[str]) -> dict[str, str]:
    """Return the settings without the `removed` ones, overridden by `given`. Raises ConfigError when a removed setting is missing."""
    kept = dict(settings)
    for key in removed:
        if key not in kept:
            raise ConfigError(f"{key} is not set")
        del kept[key]
    return kept | dict(given)


def _is_secret(key: str) -> bool:
    dotted = key_of(ADMIN_CONFIG, key)
    return dotted not in ADMIN_CONFIG or ADMIN_CONFIG[dotted].type == PASSWORD


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid profile name; a name has 1 to 64 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and does not "
            "begin with '.'"
        )
    return folder() / "profiles" / f"{name}{_ENDING}"


def _replace(path: Path, text: str) -> None:
    content = text.encode()  # first: an encoding error leaves no file behind
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def escaped(text: str, separators: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    plain = "".join(f"\\{each}" if each in separators else each for each in plain)
    return f"\\{plain}" if plain[:1] in (" ", "#", "!") else plain
