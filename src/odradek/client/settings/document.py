"""Writer of docs/client-configuration.md from the tables of keys.

`python -m odradek.client.settings.document > docs/client-configuration.md` writes the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from odradek.client.settings.common_keys import COMMON_KEYS, SPELLINGS
from odradek.client.settings.config import ADMIN_CONFIG, CONSUMER_CONFIG, NOT_SUPPORTED_YET, PRODUCER_CONFIG
from odradek.config.definition import ConfigDef, ConfigValue, Key

_HEAD = """# Configuration of the clients

Producer, consumer and admin client take Kafka's own keys: as dotted names in a mapping, as snake_case keyword arguments, or both.
`Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=20)`. A key that is not on this page is an error, and one line names it;
no key is ignored. Kafka's documentation describes the keys in full; [client-network.md](client-network.md) has examples of TLS and SASL.

This page is written by `python -m odradek.client.settings.document > docs/client-configuration.md` from the tables in
`src/odradek/client/settings/`.
"""

_COMMON = "\n## All clients\n"
_OTHERS = "\n## Only the {}\n"
_SPELLINGS = """
## Other spellings
Keys of librdkafka (with dots) and kafka-python (with underscores) that stand for Kafka's keys.
"""
_REFUSED = """
## Keys that are refused
Kafka's clients have these keys; Odradek's clients refuse them with an error.
"""

KAFKAS: dict[str, tuple[str, str]] = {
    "bootstrap.servers": ("none", "a client on the same machine as its broker needs no configuration"),
    "client.id": ("empty", "brokers show this name in their logs and quotas"),
    "enable.metrics.push": ("true", "metrics are not pushed"),
    "receive.buffer.bytes": ("65536 (32768 of the producer)", "the kernel adapts the size to the connection"),
    "send.buffer.bytes": ("131072", "the kernel adapts the size to the connection"),
    "ssl.keystore.type": ("JKS", "the format is detected from the file"),
    "ssl.truststore.type": ("JKS", "the format is detected from the file"),
}
"""Key with another default than Kafka's -> (Kafka's default, the reason)."""


def document() -> str:
    """Return the whole page in Markdown."""
    return "".join((_HEAD, *_keys(), *_defaults(), *_spellings(), *_refused()))


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


def _keys() -> Iterator[str]:
    yield _COMMON
    yield from _rows(COMMON_KEYS)
    common = {key.name: key for key in COMMON_KEYS}
    for title, definition in (("producer", PRODUCER_CONFIG), ("consumer", CONSUMER_CONFIG), ("admin client", ADMIN_CONFIG)):
        yield _OTHERS.format(title)
        yield from _rows(_own(definition, common))


def _own(definition: ConfigDef, common: dict[str, Key[ConfigValue]]) -> list[Key[ConfigValue]]:
    return [key for key in definition if common.get(key.name) is not key]


def _rows(keys: Iterable[Key[ConfigValue]]) -> Iterator[str]:
    rows = ((f"`{key.name}`", key.type.name.lower(), _default(key), key.doc.replace("|", "\\|")) for key in keys)
    yield from _table(("Key", "Type", "Default", "What it does"), rows)


def _default(key: Key[ConfigValue]) -> str:
    return "" if key.default is None else f"`{key.default}`" if key.default else "empty"


def _defaults() -> Iterator[str]:
    yield "\n## Defaults that are not Kafka's\n"
    defaults = {key.name: _default(key) for key in COMMON_KEYS}
    yield from _table(
        ("Key", "Default", "Kafka's", "Why"), ((f"`{name}`", defaults[name], kafka, why) for name, (kafka, why) in KAFKAS.items())
    )


def _spellings() -> Iterator[str]:
    yield _SPELLINGS
    yield from _table(("Spelling", "Key"), ((f"`{name}`", f"`{key}`") for name, key in SPELLINGS.items()))


def _refused() -> Iterator[str]:
    yield _REFUSED
    by_reason: dict[str, list[str]] = {}
    for name, reason in sorted(NOT_SUPPORTED_YET.items()):
        by_reason.setdefault(reason, []).append(f"`{name}`")
    yield from _table(("Keys", "Why"), ((", ".join(names), reason) for reason, names in by_reason.items()))


if __name__ == "__main__":
    sys.stdout.write(document())
