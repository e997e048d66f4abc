"""Readers of values: one class for each of Kafka's providers."""

from __future__ import annotations

import logging
import os
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from odradek.base.errors import ConfigError
from odradek.config.properties import MalformedProperties, parse_properties
from odradek.config.references import ProviderSettings
from odradek.security.java_regex import compile_pattern

logger = logging.getLogger(__name__)

_ALLOWED_PATHS: Final = "allowed.paths"
_ALLOWLIST: Final = "allowlist.pattern"
_LARGEST: Final = 1 << 20
"""Limit in bytes of a file; Kafka has none."""


class Reader(Protocol):
    """Configured provider."""

    def get(self, path: str, key: str) -> str | None:
        """Return the value of the key; None without a value. Raises ConfigError for an unreadable one."""
        ...


class AllowedPaths:
    """Files and directories that a provider may read (org.apache.kafka.common.config.internals.AllowedPaths).

    Links are followed first: a link in an allowed directory gives no access outside of it (KAFKA-20700).
    """

    def __init__(self, settings: ProviderSettings) -> None:
        """Raise ConfigError for an entry of allowed.paths that is not absolute or does not exist."""
        self._allowed: list[PurePosixPath] | None = None
        text = settings.parameters.get(_ALLOWED_PATHS, "")
        if not text:
            return
        self._allowed = []
        for entry in (each.strip() for each in text.split(",")):
            if not os.path.isabs(entry) or not os.path.exists(entry):
                name = settings.shown(_ALLOWED_PATHS)
                raise ConfigError(f"{name}: Path {entry} is not valid. The path should be absolute and exist")
            self._allowed.append(_real(entry))

    def find(self, path: str) -> Path | None:
        """Return the path with links followed; None, with a warning in the log, when it is not allowed. Raises ConfigError for a NUL."""
        if "\0" in path:
            raise ConfigError(f"Invalid path {path!r}: a path must not contain a NUL character")
        if self._allowed is None:
            return Path(path)
        real = _real(path)
        if any(real.is_relative_to(allowed) for allowed in self._allowed):
            return Path(real)
        logger.warning("The path %s is not allowed to be accessed (%s)", path, _ALLOWED_PATHS)
        return None


def _real(path: str) -> PurePosixPath:
    return PurePosixPath(os.path.realpath(path))


def _content(path: Path) -> bytes:
    """Return the content of a file. Raises OSError, also for a pipe or a device, whose reader might wait without end."""
    if not path.is_file():
        raise OSError(0, "it is not a regular file" if path.exists() else "No such file or directory")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(0, f"it has more than {_LARGEST} bytes")
    return content


class FileReader:
    """Keys of a properties file: `${file:/path/to.properties:key}` (FileConfigProvider). Each instance reads a file only once."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._paths = AllowedPaths(settings)
        self._read: dict[Path, dict[str, str]] = {}

    def get(self, path: str, key: str) -> str | None:
        """Return a value as `Reader.get`."""
        where = self._paths.find(path) if path else None
        if where is None:
            return None
        if where not in self._read:
            try:
                self._read[where] = parse_properties(_content(where).decode())
            except MalformedProperties as error:
                raise ConfigError(f"Could not read properties from file {path}: line {error.line} is malformed") from None
            except UnicodeDecodeError:
                raise ConfigError(f"Could not read properties from file {path}: it is not UTF-8") from None
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise ConfigError(f"Could not read properties from file {path}: {reason}") from None
        return self._read[where].get(key)


class DirectoryReader:
    """Files of a directory, each of which is a value: `${directory:/path:file}` (DirectoryConfigProvider)."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._paths = AllowedPaths(settings)

    def get(self, path: str, key: str) -> str | None:
        """Return a value as `Reader.get`."""
        where = self._paths.find(path) if path else None
        if where is None:
            return None
        if not where.is_dir():
            logger.warning("The path %s is not a directory", path)
            return None
        if not key or "/" in key or "\0" in key or key in (".", "..") or not (where / key).is_file():
            return None
        file = self._paths.find(str(where / key))
        if file is None:
            return None
        try:
            return _content(file).decode()
        except UnicodeDecodeError:
            raise ConfigError(f"Could not read file {where / key} for property {key}: it is not UTF-8") from None
        except OSError as error:
            raise ConfigError(f"Could not read file {where / key} for property {key}: {error.strerror}") from None


class EnvironmentReader:
    """Variables of the environment: `${env:NAME}` (EnvVarConfigProvider)."""

    def __init__(self, settings: ProviderSettings) -> None:
        """Raise ConfigError for an invalid allowlist.pattern."""
        pattern = settings.parameters.get(_ALLOWLIST, ".*")
        try:
            self._pattern = compile_pattern(pattern)
        except ValueError as error:
            raise ConfigError(f"Invalid value {pattern} for configuration {settings.shown(_ALLOWLIST)}: {error}") from None

    def get(self, path: str, key: str) -> str | None:
        """Return a value as `Reader.get`."""
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return os.environ[key] if key in os.environ and self._pattern.fullmatch(key) else None
