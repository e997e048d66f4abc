"""Generator of docs/configuration.md from the tables: `python -m odradek.config.document > docs/configuration.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from odradek.config.deviations import OWN_DEFAULTS
from odradek.config.dynamic import DYNAMIC_KEYS, without_effect_at_run_time
from odradek.config.keys import odradek_only
from odradek.config.unserved import UNSERVED, UNSERVED_PREFIXES, UNSERVED_SECURITY, UNSERVED_TOPIC
from odradek.config.without_effect import TOPIC_WITHOUT_EFFECT, WITHOUT_EFFECT_BY_REASON

_HEAD = """# Configuration

Odradek reads Kafka's own `server.properties`. Every broker and topic key of Kafka 4.3 is known, with Kafka's type, default and validator;
an unknown key, or a value that does not fit, stops the broker at its start with one line that names it. A key that is not listed here does
what Kafka's documentation says. Values may refer to files or the environment: [Configuration providers](config-providers.md).

This page is written by `python -m odradek.config.document > docs/configuration.md` from the tables in `src/odradek/config/`.
"""

_DEFAULTS = """
## Defaults that are not Kafka's
DescribeConfigs shows Odradek's default. A key that is given is taken as it is.
"""

_OWN = """
## Keys that Kafka has not
A JVM broker that finds one in its file warns of an unknown key and goes on.
"""

_REFUSED = """
## Keys that are refused
They ask for something that is not served yet, and whose absence must not go unnoticed. A broker key with another value than those allowed
stops the broker at its start; a topic with such a key is not created (INVALID_CONFIG).
"""

_INEFFECTIVE = """
## Keys without effect
They are accepted, because nothing a client can rely on changes with them; the broker writes one warning for each that is given.
"""


_AT_RUN_TIME = """
## Broker keys set at run time
IncrementalAlterConfigs sets them for one broker, or for all brokers (the broker named ""). A broker's own settings override those of all
brokers, and both override the file. They are kept in the metadata log and take effect before the logs are loaded. Every topic key can be
set for a topic at any time, except those that are refused above.

These take effect at once, unless it says otherwise below:
"""

_OF_LISTENERS = """
`listeners`, `listener.security.protocol.map` and the keys of TLS and SASL are set for one broker. A listener that is added to `listeners`
is served at once, and one that is taken out is closed with its connections, unless it is one of advertised.listeners. Its own settings
(`listener.name.NAME.*`) come with it, in the same request, and, but for the stores of TLS and `max.connections`, do not change
afterwards. Others are not told of it, as in every Raft cluster: clients of it are answered and find no leaders through it.

- `ssl.cipher.suites`, `ssl.client.auth`, `ssl.enabled.protocols`, `ssl.endpoint.identification.algorithm`, `ssl.protocol` and
  `sasl.enabled.mechanisms` hold for listeners that are added afterwards and have no value of their own. A listener that is there follows
  its stores alone, for new connections.
- `sasl.mechanism.inter.broker.protocol` holds for new connections between brokers.
"""

_INEFFECTIVE_AT_RUN_TIME = """
These are taken as Kafka takes them, kept and shown, and change nothing; each broker warns of one when it is set. So it is with names that
are no key at all, which Kafka keeps for plugins.
"""

_REFUSED_AT_RUN_TIME = """
These take only the values that [are allowed in a file](#keys-that-are-refused).
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
    for title, keys in (("Broker key", UNSERVED), ("Topic key", UNSERVED_TOPIC)):
        rows = ((f"`{name}`", _values(allowed), feature) for name, (allowed, feature) in sorted(keys.items()))
        yield from _table((title, "Allowed", "What is missing"), rows)
    prefixes = [(f"`{prefix}*`", "the default", feature) for prefix, feature in UNSERVED_SECURITY.items()]
    prefixes += [(f"`{prefix}*`", "", feature) for prefix, feature in UNSERVED_PREFIXES.items()]
    yield from _table(("Keys that begin with", "Allowed", "What is missing"), sorted(prefixes))


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
        elif name in UNSERVED:
            refused.append((f"`{name}`", f"needs {UNSERVED[name][1]}"))
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
