"""Validators of single keys with special rules."""

from __future__ import annotations

import re

from odradek.base.errors import ConfigError
from odradek.config.definition import ConfigValue, invalid


def gzip_level(name: str, value: ConfigValue) -> None:
    """Check a deflate level: 1 to 9, or -1 for zlib's default. Raises ConfigError."""
    if not isinstance(value, int) or not (1 <= value <= 9 or value == -1):
        raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


def throttled_replicas(name: str, value: ConfigValue) -> None:
    """Check `*`, or a list of partition:broker (ThrottledReplicaListValidator). Raises ConfigError."""
    items: list[str] = value if isinstance(value, list) else []
    if items == ["*"] or all(re.fullmatch(r"([0-9]+:[0-9]+)?", item) for item in items):
        return
    raise invalid(name, value, f"{name} must be '*' or a list of [partitionId]:[brokerId],[partitionId]:[brokerId],...")


def share_offset_reset(name: str, value: ConfigValue) -> None:
    """Check latest, earliest, or by_duration: and an ISO 8601 duration (ShareGroupAutoOffsetResetStrategy). Raises ConfigError."""
    text = value if isinstance(value, str) else ""
    if text in ("latest", "earliest"):
        return
    duration = text.removeprefix("by_duration:")
    fits = re.fullmatch(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", duration, re.IGNORECASE)
    if duration == text or fits is None:
        raise invalid(name, value, "it must be latest, earliest or by_duration: followed by an ISO 8601 duration")


def bootstrap_servers(name: str, value: ConfigValue) -> None:
    """Check a list of host:port (QuorumConfig.parseBootstrapServers). Raises ConfigError."""
    for entry in value if isinstance(value, list) else ():
        parse_host_port(name, entry)


def quorum_voters(name: str, value: ConfigValue) -> None:
    """Check a list of id@host:port (QuorumConfig.parseVoterConnections). Raises ConfigError."""
    parse_quorum_voters(name, value if isinstance(value, list) else [])


def parse_quorum_voters(name: str, entries: list[str]) -> dict[int, tuple[str, int]]:
    """Parse a list of id@host:port into (host, port) by voter id. Raises ConfigError naming the key."""
    voters: dict[int, tuple[str, int]] = {}
    for entry in entries:
        parts = entry.split("@")
        if len(parts) != 2:
            raise ConfigError(
                f"Invalid configuration value for {name}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`, but is {entry!r}"
            )
        try:
            voter = int(parts[0])
        except ValueError:
            raise invalid(name, entry, f"Failed to parse voter ID as an integer from {parts[0]!r}") from None
        voters[voter] = parse_host_port(name, parts[1])
    return voters


def parse_host_port(name: str, entry: str) -> tuple[str, int]:
    """Parse `host:port` or `[v6]:port` into (host, port) without brackets. Raises ConfigError naming the key."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^:\[\]\s]+)):([0-9]{1,5})", entry.strip())
    if match is None:
        raise invalid(name, entry, "it must be host:port")
    port = int(match[3])
    if port > 65535:
        raise invalid(name, entry, f"the port {port} is not in 0..65535")
    return match[1] or match[2], port
