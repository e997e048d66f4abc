"""Rules for topic names (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

from odradek.base.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249

CLUSTER_METADATA_TOPIC = "__cluster_metadata"

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, with the reason, for an invalid topic name."""
    why = topic_name_error(name)
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def topic_name_error(name: str) -> str | None:
    """Return the reason why the name is invalid, or None for a valid name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def is_internal(name: str) -> bool:
    """Return whether the topic belongs to a coordinator."""
    return name in INTERNAL_TOPICS
