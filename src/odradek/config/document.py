"""Generator of docs/configuration.md from the tables: `python -m odradek.config.document > docs/configuration.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from odradek.config.deviations import OWN_DEFAULTS
from odradek.config.dynamic import DYNAMIC_KEYS, without_effect_at_run_time
from odradek.config.keys import odradek_only
from odradek.config.unsupported import UNSUPPORTED, UNSUPPORTED_PREFIXES, UNSUPPORTED_SECURITY, UNSUPPORTED_TOPIC
from odradek.config.without_effect import TOPIC_WITHOUT_EFFECT, WITHOUT_EFFECT_BY_REASON

_HEAD = """# Configuration

Odradek reads Kafka's own `server.properties`. It has every broker and topic key of Kafka 4.3, with Kafka's type, default and validator.
An unknown key, or an invalid value, prevents the start of the broker; one line names the key. A key that is not listed here works as in
Kafka's documentation. Values may refer to files or the environment: [Configuration providers](config-providers.md).

This page is written by `python -m odradek.config.document > docs/configuration.md` from the tables in `src/odradek/config/`.
"""

_DEFAULTS = """
## Defaults that are not Kafka's
DescribeConfigs shows Odradek's default. A value that is set is used unchanged.
"""

_OWN = """
## Keys that only Odradek has
A JVM broker with such a key in its file logs a warning of an unknown key, and starts.
"""

_REFUSED = """
## Keys that are refused
These keys need a feature that Odradek does not support yet. Ignoring them could do harm, so only the values below are allowed. With another
value, a broker key prevents the start of the broker, and a topic key the creation of the topic (INVALID_CONFIG).
"""

_INEFFECTIVE = """
## Keys without effect
Odradek accepts these keys, because clients do not depend on their effect. The broker logs a warning for each one that is set.
"""


_AT_RUN_TIME = """
## Broker keys set at run time
IncrementalAlterConfigs sets these keys for one broker, or for all brokers (the broker named ""). The settings of one broker override those
of all brokers, and both override the file. They are stored in the metadata log; a starting broker applies them before it loads its logs.
Every topic key can be set at any time, except the refused keys above.

A change of these keys takes effect at once, with the exceptions below:
"""

_OF_LISTENERS = """
`listeners`, `listener.security.protocol.map` and the keys of TLS and SASL are set for one broker. A listener that is added to `listeners`
opens at once. A listener that is removed is closed with its connections, unless `advertised.listeners` names it. The settings of a new
listener (`listener.name.NAME.*`) must be in the same request; later only its TLS stores and `max.connections` can change. Other brokers
and clients do not learn of the new listener, as in every KRaft cluster: its clients get responses, but find no leaders through it.

- `ssl.cipher.suites`, `ssl.client.auth`, `ssl.enabled.protocols`, `ssl.endpoint.identification.algorithm`, `ssl.protocol` and
  `sasl.enabled.mechanisms` apply to listeners that are added later and do not have their own values. An existing listener follows only
  changes of its stores, for new connections.
- `sasl.mechanism.inter.broker.protocol` applies to new connections between brokers.
"""

_INEFFECTIVE_AT_RUN_TIME = """
Odradek accepts, stores and shows these keys, as Kafka does, but they have no effect; each broker logs a warning when one is set. Unknown
keys, which Kafka stores for plugins, are treated in the same way.
"""

_REFUSED_AT_RUN_TIME = """
These keys accept only the values that [are allowed in a file](#keys-that-are-refused).
"""


def document() -> str:
    """Return the whole page, in Markdown."""
    return "".join((_HEAD, *_defaults(), *_own(), *_refused(), *_without_effect(), *_at_run_time()))


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


def _defaults() -> Iterator[str]:
    yield _DEFAULTS
    rows = ((f"`{name}`", f"`{own.default}`", f"`{own.kafka}`", own.reason) for name, own in sorted(OWN_DEFAULTS.items()))
    yield from _table(("Key", "Odradek", "Kafka", "Why"), rows)


def _own() -> Iterator[str]:
    yield _OWN
    yield from _table(("Key", "Default", "What it does"), ((f"`{key.name}`", f"`{key.default}`", key.doc) for key in odradek_only.KEYS))


def _refused() -> Iterator[str]:
    yield _REFUSED
    for title, keys in (("Broker key", UNSUPPORTED), ("Topic key", UNSUPPORTED_TOPIC)):
        rows = ((f"`{name}`", _values(allowed), feature) for name, (allowed, feature) in sorted(keys.items()))
        yield from _table((title, "Allowed", "Missing feature"), rows)
    prefixes = [(f"`{prefix}*`", "the default", feature) for prefix, feature in UNSUPPORTED_SECURITY.items()]
    prefixes += [(f"`{prefix}*`", "", feature) for prefix, feature in UNSUPPORTED_PREFIXES.items()]
    yield from _table(("Keys that begin with", "Allowed", "Missing feature"), sorted(prefixes))


def _values(allowed: tuple[str, ...]) -> str:
    return ", ".join(f"`{value}`" if value else "empty" for value in allowed)


def _without_effect() -> Iterator[str]:
    yield _INEFFECTIVE
    rows = ((f"`{name}`", reason) for name, reason in sorted(TOPIC_WITHOUT_EFFECT.items()))
    yield from _table(("Topic key", "Why"), rows)
    by_reason = ((", ".join(f"`{name}`" for name in names), reason) for reason, names in WITHOUT_EFFECT_BY_REASON.items())
    yield from _table(("Broker keys", "Why"), by_reason)


def _at_run_time() -> Iterator[str]:
    yield _AT_RUN_TIME
    ineffective: dict[str, list[str]] = {}
    followed: list[str] = []
    refused: list[tuple[str, str]] = []
    for name in sorted(DYNAMIC_KEYS):
        reason = without_effect_at_run_time(name)
        if reason is not None:
            ineffective.setdefault(reason, []).append(f"`{name}`")
        elif name in UNSUPPORTED:
            refused.append((f"`{name}`", f"needs {UNSUPPORTED[name][1]}"))
        else:
            followed.append(f"`{name}`")
    yield ",\n".join(followed) + ".\n"
    yield _OF_LISTENERS
    yield _INEFFECTIVE_AT_RUN_TIME
    yield from _table(("Broker keys", "Why"), ((", ".join(names), reason) for reason, names in ineffective.items()))
    yield _REFUSED_AT_RUN_TIME
    yield from _table(("Broker key", "Why"), refused)


if __name__ == "__main__":
    sys.stdout.write(document())
