"""Configuration of a running broker: keys set for this broker, over keys set for all brokers, over its file, over the defaults.

(kafka.server.DynamicBrokerConfig, KIP-226)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from odradek.base.errors import ConfigError
from odradek.base.notify import tell_each
from odradek.config.broker import BROKER_CONFIG, BrokerConfig
from odradek.config.definition import Key, T
from odradek.config.dynamic import (
    DYNAMIC_KEYS,
    LIMITS_OF_LISTENERS,
    NEVER_IN_A_FILE,
    broker_synonyms,
    check_existing,
    check_listener_setting,
    check_scope,
    check_thread_count,
    is_fixed,
    is_only_kept,
    without_effect_at_run_time,
)
from odradek.config.listener_settings import own_value, parse_listener_key, parse_setting
from odradek.config.references import AUTOMATIC, PROVIDERS, Resolved, has_reference, is_of_providers, is_provider_setting
from odradek.config.topic import TopicConfig, override_problem, topic_defaults
from odradek.config.unsupported import check_supported_setting

_TOPIC_CONFIGS_KEPT = 1024

Resolve = Callable[[Mapping[str, str], Mapping[str, str]], Resolved]
"""Function that resolves the references in settings (first argument) by the providers that other settings (second) name; raises
ConfigError.
"""


Renewal = Callable[[BrokerConfig], Callable[[], object]]
"""Function that rereads files for a configuration, in any thread; its result, called on the loop, puts the content into effect."""


class SettingsRead(NamedTuple):
    """Settings of this broker and of all brokers with references resolved, for `DynamicBrokerConfig.take`."""

    asked: Mapping[str, str]
    """Settings for this broker as the metadata has them."""
    problems: list[str]
    node: Mapping[str, str]
    cluster: Mapping[str, str]
    effective: BrokerConfig | None
    """New configuration; None when it does not change."""
    renewed: list[Callable[[], object]]


class DynamicBrokerConfig:
    """Configuration of a running broker: `static` is the file's configuration, `current` the effective one.

    Callers read single values through the accessors each time they need them. `update` applies the settings in the metadata; code that
    must act on a change subscribes. Everything runs on the event loop, except `check` and `read`, which open files; other threads may also
    read single values.

    A setting may contain references to configuration providers, and is kept unresolved in `node` and `cluster`. Each broker resolves the
    references itself, whenever settings change.
    """

    __slots__ = (
        "_defaults",
        "_resolve",
        "_seen",
        "_subscribers",
        "_topic_configs",
        "cluster",
        "current",
        "node",
        "on_set",
        "renewals",
        "static",
        "validators",
    )

    def __init__(self, static: BrokerConfig, resolve: Resolve | None = None) -> None:
        self.static = static
        self._resolve = resolve
        self.current = static
        self.node: Mapping[str, str] = {}
        """Effective settings for this broker."""
        self.cluster: Mapping[str, str] = {}
        """Effective settings for all brokers."""
        self._subscribers: list[tuple[frozenset[str], Callable[[], object]]] = []
        self._defaults = topic_defaults(static)
        self._topic_configs: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self._seen: Mapping[str, str] = {}
        self.on_set: list[Callable[[], object]] = []
        """Called after each update in which a key was set for this broker, even to the value that it had."""
        self.renewals: list[Renewal] = []
        """Called with each update in which a key was set for this broker: Kafka then rereads all files, even if no file name has changed.
        """
        self.validators: list[Callable[[BrokerConfig], object]] = []
        """Additional checks of each change, in a thread. They raise ConfigError, one line, for an invalid change, and change nothing."""

    # -- current values ---------------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Key[T]) -> T:
        """Return the current value as `BrokerConfig` does."""
        name = key.name
        if name in NEVER_IN_A_FILE:
            return key.parse(self.node.get(name, self.cluster.get(name, key.default)))
        return self.current[key]

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the configuration of a topic with the settings `overrides` over the current broker's. Equal settings share one object.

        An invalid setting is left out (`without_effect.TopicWarnings` warns of it), because another version may have created the topic.
        """
        key = tuple(sorted(overrides.items()))
        known = self._topic_configs.get(key)
        if known is None:
            if len(self._topic_configs) >= _TOPIC_CONFIGS_KEPT:
                self._topic_configs.clear()
            known = self._topic_configs[key] = TopicConfig.over(
                self._defaults, {name: text for name, text in key if override_problem(name, text) is None}
            )
        return known

    # -- changes ----------------------------------------------------------------------------------------------------------------------

    def subscribe(self, keys: Iterable[Key[object]], callback: Callable[[], object]) -> None:
        """Call `callback`, on the loop, after each update in which one of the keys got another value.

        Raises KeyError for a key that cannot change at run time.
        """
        wanted = frozenset(key.name for key in keys)
        for name in wanted:
            if name not in DYNAMIC_KEYS:
                raise KeyError(name)
        self._subscribers.append((wanted, callback))

    def update(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> list[str]:
        """Apply the settings for this broker and for all brokers; return a line for each problem.

        An invalid setting (for example of another implementation in the same metadata) is left out, with a line. A key that was set without
        effect has a line, too. If the update opens files (`opens_files`), call `read` in a thread and `take` on the loop instead.
        """
        return self.take(self.read(node, cluster))

    def opens_files(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
        """Return whether `read` may open files for these settings."""
        if self._is_set(node) and self.renewals:
            return True
        named = self._resolve is not None and (PROVIDERS in node or PROVIDERS in cluster)
        return named or (self._resolve is not None and any(has_reference(text) for layer in (node, cluster) for text in layer.values()))

    def _is_set(self, node: Mapping[str, str]) -> bool:
        """Return whether these settings of this broker were set since the last update, even to equal values."""
        return node is not self._seen and bool(node or self._seen)

    def read(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> SettingsRead:
        """Return the argument of `take`. Changes nothing, and may run in a thread if no other settings are applied before `take`."""
        problems: list[str] = []
        named = self._providers(node, cluster)
        usable, node_values = self._usable(node, "this broker", problems, named)
        usable_of_all, cluster_values = self._usable(cluster, "all brokers", problems, named)
        effective: BrokerConfig | None = None
        if usable != self.node or usable_of_all != self.cluster or node_values.references or cluster_values.references:
            try:
                effective = self._effective(node_values, cluster_values)
            except ConfigError as error:
                problems.append(f"The dynamic settings of brokers contradict one another and are not applied: {error}")
        renewed: list[Callable[[], object]] = []
        if self._is_set(node):
            config = effective or self.current
            tell_each(partial(_renew, renewal, config, renewed) for renewal in self.renewals)
        return SettingsRead(node, problems, usable, usable_of_all, effective, renewed)

    def take(self, settings: SettingsRead) -> list[str]:
        """Apply the settings that `read` returned. Return the lines that `update` returns."""
        problems, new = settings.problems, settings.effective
        if new is not None:
            problems += _ineffective(self.node, settings.node, "this broker") + _ineffective(self.cluster, settings.cluster, "all brokers")
            old, self.current, self.node, self.cluster = self.current, new, settings.node, settings.cluster
            self._defaults = topic_defaults(new)
            self._topic_configs.clear()
            tell_each(callback for keys, callback in self._subscribers if any(_value(old, key) != _value(new, key) for key in keys))
        tell_each(settings.renewed)
        if self._is_set(settings.asked):
            tell_each(self.on_set)
        self._seen = settings.asked
        return problems

    def check(self, settings: Mapping[str, str], *, for_node: bool) -> None:
        """Check settings that would replace all those of this broker, or of all brokers. Opens files, so that it belongs in a thread.

        Raises ConfigError, one line, for invalid settings.
        """
        # Kafka resolves references by the providers that are set in the same request, before it validates the values.
        alone = self._follow(settings, {name: text for name, text in settings.items() if is_of_providers(name)} | self._limit())
        for name in settings:
            check_scope(name, for_node=for_node)
            _check_followed(alone, name)
        node, cluster = (settings, self.cluster) if for_node else (self.node, settings)
        named = self._providers(node, cluster)
        node_values, cluster_values = self._follow(node, named), self._follow(cluster, named)
        for values in (node_values, cluster_values):
            for name in values.references:
                _check_followed(values, name)
        new = self._effective(node_values, cluster_values)
        check_existing(self.current, new)
        check_thread_count(self.current, new)
        for validate in self.validators:
            try:
                validate(new)
            except ConfigError as error:
                raise ConfigError(cluster_values.hide(node_values.hide(str(error)))) from None

    def _effective(self, node: Resolved, cluster: Resolved) -> BrokerConfig:
        if not node and not cluster:
            return self.static
        given = dict(self.static.given)
        for layer in (cluster, node):
            for name, text in layer.items():
                # A key set at run time also overrides the file's keys for the same setting in a finer unit.
                for synonym in broker_synonyms(name):
                    given.pop(synonym, None)
                if name not in NEVER_IN_A_FILE and not is_only_kept(name):
                    given[name] = text
        if self._resolve is None:
            return BrokerConfig(given)
        references = {name: text for name, text in self.static.references.items() if name not in cluster and name not in node}
        references |= {name: text for name, text in cluster.references.items() if name not in node}
        references = {name: text for name, text in (references | node.references).items() if not is_only_kept(name)}
        return BrokerConfig(Resolved(given, references, {**self.static.found, **cluster.found, **node.found}))

    # -- references --------------------------------------------------------------------------------------------------------------------

    def _providers(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> dict[str, str]:
        """Return the file's settings with the provider settings of both layers over them; `AUTOMATIC` comes from the file only."""
        found = dict(self.static.given)
        for layer in (cluster, node):
            found |= {name: text for name, text in layer.items() if is_of_providers(name)}
        return found

    def _limit(self) -> dict[str, str]:
        """Return the file's setting for the allowed classes of providers."""
        return {AUTOMATIC: self.static.given[AUTOMATIC]} if AUTOMATIC in self.static.given else {}

    def _follow(self, settings: Mapping[str, str], named: Mapping[str, str]) -> Resolved:
        if self._resolve is None or not (PROVIDERS in settings or any(has_reference(text) for text in settings.values())):
            return Resolved(settings, {}, {})
        return self._resolve(settings, named)

    def _check_static(self, name: str, text: str) -> None:
        """Raise ConfigError for a setting that a listener of the file keeps until the next start, unless the value is the file's."""
        setting = parse_listener_key(name)
        names = [each.listener.lower() for each in self.static.listeners]
        if setting is not None and setting.listener in names and is_fixed(setting) and self.static.given.get(name) != text:
            raise ConfigError(f"the listener {setting.listener.upper()} keeps the value in the file: {name}")

    def _usable(
        self, layer: Mapping[str, str], whose: str, problems: list[str], named: Mapping[str, str]
    ) -> tuple[dict[str, str], Resolved]:
        """Return the valid settings of a layer, and their resolved values; append a line to `problems` for each invalid one."""
        usable: dict[str, str] = {}
        values: dict[str, str] = {}
        references: dict[str, str] = {}
        found: dict[str, str] = {}
        for name, text in layer.items():
            try:
                self._check_static(name, text)
                followed = self._follow({name: text}, named)
                _check_followed(followed, name)
            except ConfigError as error:
                problems.append(f"A setting of {whose} is ignored: {error}")
            else:
                usable[name] = text
                values |= followed
                references |= followed.references
                found |= followed.found
        return usable, Resolved(values, references, found)


def _renew(renewal: Renewal, config: BrokerConfig, renewed: list[Callable[[], object]]) -> None:
    renewed.append(renewal(config))


def _check_followed(values: Resolved, name: str) -> None:
    """Raise ConfigError, without showing resolved values, for a value that does not fit its key."""
    # A key that no file contains is read without resolving.
    as_set = name in NEVER_IN_A_FILE and name in values.references
    try:
        check_setting(name, values.references[name] if as_set else values[name])
    except ConfigError as error:
        raise ConfigError(values.hide(str(error))) from None


def check_setting(name: str, text: str, *, follows: bool = False) -> None:
    """Raise ConfigError when the key cannot be set at run time, or the value is invalid.

    `follows` says that brokers resolve a reference in the value, which is then not checked.
    """
    elsewhere = follows and has_reference(text)
    if name in NEVER_IN_A_FILE:
        NEVER_IN_A_FILE[name].parse(text)
        return
    if is_provider_setting(name):
        return
    setting = parse_listener_key(name)
    if setting is not None:
        check_listener_setting(name, setting)
        if not elsewhere:
            parse_setting(name, setting.key, text)
            check_supported_setting(name, text)
        return
    if name not in BROKER_CONFIG:
        return
    if name not in DYNAMIC_KEYS:
        raise ConfigError(f"Cannot update these configs dynamically: {name}")
    if not elsewhere:
        BROKER_CONFIG[name].parse(text)
        if not is_only_kept(name):
            check_supported_setting(name, text)


def _ineffective(before: Mapping[str, str], after: Mapping[str, str], whose: str) -> list[str]:
    """Return a line for each key without effect that was set since `before`; values are not shown, because they may be secret."""
    fresh = (name for name, text in after.items() if before.get(name) != text)
    reasons = ((name, without_effect_at_run_time(name)) for name in fresh)
    return [f"The setting {name} of {whose} has no effect: {reason}" for name, reason in reasons if reason is not None]


def _value(config: BrokerConfig, name: str) -> object:
    """Return the values that a subscriber to `name` watches: its own, those of synonyms, and those of single listeners."""
    found: list[object] = [config[BROKER_CONFIG[synonym]] for synonym in broker_synonyms(name)]
    if name in LIMITS_OF_LISTENERS:
        found += [own_value(config, listener, BROKER_CONFIG[name]) for listener in config.listener_security_protocols]
    return tuple(found)
