"""Bugs of the room config."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ALL = "config/test_rules.py config/test_broker.py config/test_properties.py config/test_dynamic_broker.py -k 'not followed'"


def _bug(name: str, module: str, before: str, after: str, breaks: str, tests: str = _ALL) -> Mutant:
    return Mutant(name, f"config/{module}.py", before, after, breaks, tests)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # Listeners.
    _bug("any-port-once", "listeners", "if endpoint.port > 0:", "if endpoint.port >= 0:", "two listeners cannot both ask for a free port"),
    _bug("port-too-high", "listeners", "if not -1 <= port <= 65535:", "if not -1 <= port <= 65536:", "port 65536 is accepted"),
    _bug("listener-case", "listeners", "match[1].upper(), match[2]", "match[1], match[2]", "plaintext:// names no listener"),
    _bug("same-listener-twice", "listeners", "if len(set(names)) != len(names):", "if not names:", "two listeners may have one name"),
    _bug("two-families", "listeners", 'families != ["4", "6"]', "len(families) > 2", "two listeners of one family share a port"),
    _bug(
        "map-case",
        "listeners",
        "listener.strip().upper(), protocol.strip().upper()",
        "listener.strip(), protocol.strip().upper()",
        "a listener written in small letters in the security map has no protocol",
    ),
    _bug(
        "controller-advertised",
        "broker",
        "for endpoint in given or self.listeners if endpoint.listener not in names",
        "for endpoint in given or self.listeners",
        "clients are told of the controller's listener",
    ),
    _bug(
        "controller-advertised-bound",
        "broker",
        "advertised.get(endpoint.listener, endpoint) for endpoint",
        "endpoint for endpoint",
        "other controllers are told where a controller listens and not what it advertises",
    ),
    _bug(
        "controller-plaintext",
        "broker",
        'protocols.setdefault(name, "PLAINTEXT")',
        "pass",
        "a controller listener needs a security map of its own",
    ),
    _bug(
        "controller-plaintext-always",
        "broker",
        'if not self.is_set("listener.security.protocol.map"):',
        "if True:",
        "a controller listener that the given map leaves out is taken for plaintext",
    ),
    _bug(
        "advertised-ports", "broker", "protocols, distinct_ports=False)", "protocols)", "a proxy cannot advertise two listeners on one port"
    ),
    # Rules between keys.
    _bug("meta-address", "rules", 'if endpoint.host == "0.0.0.0":', "if False:", "0.0.0.0 is advertised"),
    _bug(
        "advertised-unbound", "rules", "if endpoint.listener not in bound:", "if False:", "a listener is advertised that nobody listens on"
    ),
    _bug(
        "inter-broker-on-controller",
        "rules",
        "if inter_broker in config.controller_listener_names:",
        "if False:",
        "brokers talk to one another by a controller's listener",
    ),
    _bug(
        "two-inter-broker-keys",
        "rules",
        'if config.is_set("inter.broker.listener.name") and config.is_set("security.inter.broker.protocol"):',
        "if False:",
        "inter.broker.listener.name and security.inter.broker.protocol may contradict one another",
    ),
    _bug(
        "controller-only-listeners",
        "rules",
        "if not config.is_broker and config.broker_listeners:",
        "if False:",
        "a node that is a controller alone listens for clients",
    ),
    _bug(
        "broker-only-controller-listener",
        "rules",
        "    if config.controller_listeners:\n",
        "    if False:\n",
        "a node that is a broker alone listens for controllers",
    ),
    _bug(
        "voter-is-no-controller",
        "rules",
        "if voters and not config.is_controller and config.node_id in voters:",
        "if False:",
        "a broker alone may be named as a voter",
    ),
    _bug(
        "no-quorum",
        "rules",
        "if not voters and not config.controller_quorum_bootstrap_servers:",
        "if False:",
        "a node starts without knowing any controller",
    ),
    _bug("ids-differ", "rules", 'config.integer("broker.id") != config.integer("node.id"):', "False:", "broker.id and node.id may differ"),
    _bug(
        "zero-jitter", "rules", "if config.log_roll_jitter_ms < 0:", "if config.log_roll_jitter_ms <= 0:", "no broker starts without jitter"
    ),
    _bug("roll-at-once", "rules", "if config.log_roll_ms < 1:", "if config.log_roll_ms < 0:", "log.roll.ms=0 rolls with every append"),
    _bug(
        "wait-longer-than-lag",
        "rules",
        'if wait > config.integer("replica.lag.time.max.ms"):',
        "if False:",
        "followers that wait for data fall out of the ISR",
    ),
    _bug(
        "queue-of-one-request", "rules", "if 0 < queued < config", "if 0 < queued <= config", "a queue for exactly one request is refused"
    ),
    _bug(
        "small-dedupe-buffer",
        "rules",
        "// threads <= 1024 * 1024:",
        "// threads < 1024 * 1024:",
        "cleaner threads with 1 MiB each are accepted",
    ),
    _bug(
        "heartbeat-equals-session",
        "rules",
        'config.integer("group.consumer.heartbeat.interval.ms") >= config',
        'config.integer("group.consumer.heartbeat.interval.ms") > config',
        "members are thrown out at their first heartbeat",
    ),
    _bug(
        "ordered-only-when-both-set",
        "rules",
        "(config.is_set(smaller) or config.is_set(larger))",
        "(config.is_set(smaller) and config.is_set(larger))",
        "a maximum below the default minimum is accepted",
    ),
    _bug("codec-five", "rules", "not in range(5):", "not in range(6):", "offsets.topic.compression.codec=5 is accepted"),
    _bug("star-and-more", "rules", 'if "*" in given and len(given) > 1:', "if False:", "cordoned.log.dirs=*,/a is accepted"),
    _bug(
        "cordon-nowhere",
        "rules",
        'if path != "*" and path not in config.log_dirs]',
        'if path != "*" and not path]',
        "a directory that is none is cordoned in silence",
    ),
    _bug(
        "overrides-without-number",
        "rules",
        "if not colon or not host or not count.isdecimal():",
        "if not colon or not host:",
        "max.connections.per.ip.overrides=host:many is accepted",
    ),
    # Values of the broker.
    _bug(
        "id-by-other-name",
        "broker",
        '(("node.id", "broker.id"), ("broker.id", "node.id"))',
        '(("node.id", "broker.id"),)',
        "a node whose file says broker.id has no id",
    ),
    _bug(
        "forever-is-minus-five", "broker", "return -1 if retention < 0 else retention", "return retention", "log.retention.ms=-5 is a time"
    ),
    _bug(
        "minutes-over-ms",
        "broker",
        'retention = self.optional_integer("log.retention.ms")\n',
        'retention = self.optional_integer("log.retention.minutes")\n',
        "log.retention.ms is not looked at",
    ),
    _bug(
        "metadata-in-the-last",
        "broker",
        "or self.log_dirs[0]",
        "or self.log_dirs[-1]",
        "the metadata log lies in another directory than Kafka's",
    ),
    _bug("cordon-star", "broker", 'return self.log_dirs if "*" in given else given', "return given", "cordoned.log.dirs=* cordons nothing"),
    _bug(
        "jitter-in-hours",
        "broker",
        'self.integer("log.roll.jitter.hours") * MS_PER_HOUR',
        'self.integer("log.roll.jitter.hours")',
        "log.roll.jitter.hours counts milliseconds",
    ),
    # Dynamic layers.
    _bug(
        "cluster-over-broker",
        "dynamic_broker",
        "for layer in (cluster, node):\n            for name, text in layer.items():\n",
        "for layer in (node, cluster):\n            for name, text in layer.items():\n",
        "what is set for all brokers outdoes what is set for this one",
    ),
    _bug(
        "finer-key-stays",
        "dynamic_broker",
        "given.pop(synonym, None)",
        "given.get(synonym)",
        "log.retention.minutes of the file outdoes log.retention.ms",
    ),
    _bug(
        "topics-keep-old-defaults",
        "dynamic_broker",
        "            self._topic_configs.clear()\n            tell_each(callback",
        "            tell_each(callback",
        "topics keep the defaults that were in force when they were first asked for",
    ),
    _bug(
        "unbounded-topic-configs",
        "dynamic_broker",
        "if len(self._topic_configs) >= _TOPIC_CONFIGS_KEPT:",
        "if False:",
        "every combination of settings that a topic ever had is kept",
    ),
    _bug(
        "check-the-other-layer",
        "dynamic_broker",
        "(settings, self.cluster) if for_node else",
        "(settings, {}) if for_node else",
        "settings of a broker are checked as if nothing were set for all",
    ),
    _bug(
        "threads-unchecked", "dynamic_broker", "        check_thread_count(self.current, new)\n", "", "a pool grows a hundredfold at once"
    ),
    _bug("half-rounded-up", "dynamic", "if count < old_count // 2:", "if count < old_count / 2:", "a pool of 5 cannot shrink to 2"),
    _bug(
        "subscribers-of-anything",
        "dynamic_broker",
        " if any(_value(old, key) != _value(new, key) for key in keys))",
        " if keys)",
        "whoever follows a key acts on changes of others",
    ),
    _bug(
        "read-only-at-run-time",
        "dynamic_broker",
        "    if name not in DYNAMIC_KEYS:\n        raise ConfigError",
        "    if False:\n        raise ConfigError",
        "read-only keys are set and do nothing",
    ),
    _bug(
        "never-in-a-file-unread",
        "dynamic_broker",
        "self.node.get(name, self.cluster.get(name, key.default))",
        "self.cluster.get(name, key.default)",
        "a limit for moves that is set for one broker does not hold",
    ),
    # Where values come from.
    _bug(
        "source-order",
        "describe",
        "(self.dynamic, SOURCE_DYNAMIC_BROKER),\n            (self.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),",
        "(self.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),\n            (self.dynamic, SOURCE_DYNAMIC_BROKER),",
        "the first synonym is not the one that gives the value",
    ),
    _bug(
        "file-as-default",
        "describe",
        "(self.config.given, SOURCE_STATIC_BROKER),",
        "(self.config.given, SOURCE_DEFAULT),",
        "what stands in the file is shown as a default",
    ),
    _bug(
        "coarser-synonyms-of-finer",
        "describe",
        "        while found and found[0].name != name:\n            del found[0]\n",
        "",
        "log.retention.hours is shown with the value of log.retention.ms as its own",
    ),
    _bug(
        "password-in-synonyms",
        "describe",
        "Synonym(each, None if sensitive else layer[each], source)",
        "Synonym(each, layer[each], source)",
        "a password is shown",
    ),
    _bug(
        "internal-keys-shown", "describe", "if (key.internal and name not in config.given) or", "if", "internal keys are shown to everybody"
    ),
    _bug(
        "value-without-dynamic",
        "describe",
        "for layer in (layers.dynamic, layers.dynamic_default):\n        if name in layer:",
        "for layer in (layers.dynamic_default,):\n        if name in layer:",
        "the value that is set for a broker is not the one that is shown",
    ),
    _bug(
        "broken-override-shown",
        "describe",
        "if override_problem(name, text) is None}",
        "}",
        "a topic with a setting of another version cannot be described",
    ),
    # Definitions.
    _bug("int-overflow", "definition", "if -limit <= number < limit:", "if -limit <= number <= limit:", "2147483648 is an int"),
    _bug(
        "unstripped-items", "definition", '[item.strip() for item in trimmed.split(",")]', 'trimmed.split(",")', "`a, b` has an item ` b`"
    ),
    _bug("boolean-case", "definition", "lowered = trimmed.lower()\n", "lowered = trimmed\n", "TRUE is no boolean"),
    _bug(
        "range-end",
        "definition",
        "if self.maximum is not None and value > self.maximum:",
        "if self.maximum is not None and value >= self.maximum:",
        "the largest value that Kafka allows is refused",
    ),
    _bug("repeated-items", "definition", "if len(set(value)) != len(value):", "if False:", "a list may name something twice"),
    _bug(
        "two-lines",
        "definition",
        'return ConfigError(" ".join(line.splitlines()))',
        "return ConfigError(line)",
        "a value with a line break makes two lines of an error",
    ),
    _bug(
        "double-as-repr",
        "definition",
        "return f\"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}\"",
        "return text",
        "large doubles are not shown as Java shows them",
    ),
    # Topics.
    _bug(
        "lags-equal",
        "topic",
        "if config.min_compaction_lag_ms > config.max_compaction_lag_ms:",
        "if config.min_compaction_lag_ms >= config.max_compaction_lag_ms:",
        "equal compaction lags are refused",
    ),
    _bug(
        "lag-rolls-always",
        "topic",
        "if self.compact and self.max_compaction_lag_ms > 0 else",
        "if self.max_compaction_lag_ms > 0 else",
        "max.compaction.lag.ms rolls segments of topics that are not compacted",
    ),
    _bug(
        "factor-forgotten",
        "topic",
        "text if factor == 1 else str(int(text) * factor)",
        "text",
        "log.retention.hours is shown as milliseconds for topics",
    ),
    _bug(
        "dynamic-layers-reversed",
        "topic",
        "for layer in reversed(dynamic):",
        "for layer in dynamic:",
        "settings of all brokers outdo those of one in what topics show",
    ),
    _bug(
        "forever-of-a-topic",
        "topic",
        'return -1 if number < 0 and name == "retention.ms" else number * factor',
        "return number * factor",
        "log.retention.hours=-1 keeps records for minus an hour",
    ),
    # What is refused, and what is warned about.
    _bug(
        "unserved-topic-key",
        "unserved",
        "text.strip().lower() not in allowed:",
        "text.strip() not in allowed:",
        "remote.storage.enable=FALSE is refused",
    ),
    _bug("passwords-in-errors", "unserved", 'shown = "" if key.type is PASSWORD else', "shown =", "a password is in the error message"),
    _bug(
        "no-warning-without-effect",
        "dynamic_broker",
        '            problems += _ineffective(self.node, settings.node, "this broker")'
        ' + _ineffective(self.cluster, settings.cluster, "all brokers")\n',
        "",
        "an operator believes that a setting works when it does nothing",
        "config/test_dynamic_broker.py -k changes_nothing",
    ),
    _bug(
        "a-warning-at-each-change",
        "dynamic_broker",
        "if before.get(name) != text)",
        "if name)",
        "the log fills with one warning at each change of any setting",
        "config/test_dynamic_broker.py -k changes_nothing",
    ),
    _bug(
        "warned-each-time",
        "without_effect",
        "                self._said.add(name)\n",
        "",
        "each topic warns of the same key",
        "config/test_without_effect.py",
    ),
    # Single validators.
    _bug(
        "gzip-level-zero",
        "validators",
        "(1 <= value <= 9 or value == -1)",
        "(0 <= value <= 9 or value == -1)",
        "compression.gzip.level=0 is accepted",
    ),
    _bug("any-throttled-replica", "validators", 'r"([0-9]+:[0-9]+)?"', 'r".*"', "nonsense is accepted as throttled replicas"),
    _bug("host-port-65536", "validators", "if port > 65535:", "if port > 65536:", "the quorum is looked for at port 65536"),
    _bug("voter-id-text", "validators", "if len(parts) != 2:", "if len(parts) < 2:", "1@a:9@b is a voter"),
    _bug(
        "group-bounds",
        "group",
        '(value < limit if bound == "min" else value > limit)',
        '(value <= limit if bound == "min" else value > limit)',
        "a group cannot have the least session time-out that the broker allows",
    ),
    _bug(
        "group-session-equals-heartbeat",
        "group",
        "and session <= heartbeat:",
        "and session < heartbeat:",
        "a group's members are thrown out at their first heartbeat",
    ),
    # The file.
    _bug(
        "comment-continues",
        "properties",
        "        if pending is None:\n            if not line",
        "        if True:\n            if not line",
        "a continued value ends where its next line begins with #",
    ),
    _bug(
        "even-backslashes", "properties", "if backslashes % 2:", "if backslashes:", "a value that ends in a backslash swallows the next key"
    ),
    _bug(
        "colon-in-key",
        "properties",
        'if character in "=:" or character in _WHITE:',
        'if character == "=" or character in _WHITE:',
        "a: b is a key with a colon",
    ),
    _bug(
        "first-wins",
        "properties",
        "for setting in read_settings(text)}",
        "for setting in read_settings(text)[::-1]}",
        "the first of several values for a key wins",
    ),
    Mutant(
        "halving-a-pool-refused",
        "config/dynamic.py",
        "        if count < old_count // 2:\n",
        "        if count <= old_count // 2:\n",
        "A number of threads cannot be halved in one step.",
        "config/test_dynamic_broker.py -k pools_grow",
    ),
    Mutant(
        "segments-outlast-the-compaction-lag",
        "config/topic.py",
        "        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact and self.max_compaction_lag_ms > 0 else self.segment_ms\n",
        "        return self.segment_ms\n",
        "max.compaction.lag.ms does not roll the active segment, whose records then are compacted only after segment.ms.",
        "config/test_rules.py -k lags_may_be_equal",
    ),
    Mutant(
        "unknown-key-shown",
        "config/describe.py",
        "sensitive = not known or BROKER_CONFIG[name].type is PASSWORD",
        "sensitive = known and BROKER_CONFIG[name].type is PASSWORD",
        "The value of a key that is not known, and may be secret, is shown.",
        "config/test_rules.py -k secret",
    ),
    Mutant(
        "continuation-skips-blank",
        "config/properties.py",
        '        if pending is None:\n            if not line or line[0] in "#!":\n                continue\n            pending, first = "", number\n',
        '        if not line or line[0] in "#!":\n            continue\n        if pending is None:\n            pending, first = "", number\n',
        "A value that goes on in the next line swallows the setting behind a blank line, or loses what begins with a number sign.",
        "config/test_properties.py::test_lines",
    ),
    Mutant(
        "what-is-over-all-stays-set",
        "config/dynamic_broker.py",
        "self.current, new, settings.node, settings.cluster",
        "self.current, new, settings.node, {**self.cluster, **settings.cluster}",
        "a setting of all brokers that was taken back is still shown",
        "config/test_model.py",
    ),
    Mutant(
        "three-share-a-port",
        "config/listeners.py",
        '        if families != ["4", "6"]:',
        '        if set(families) != {"4", "6"}:',
        "two listeners of one family on one port are found out by the socket only",
        "config/test_listeners.py",
    ),
    Mutant(
        "a-port-of-none-is-taken",
        "config/listeners.py",
        "        if endpoint.port > 0:",
        "        if endpoint.port >= 0:",
        "two listeners on free ports are refused",
        "config/test_listeners.py",
    ),
    Mutant(
        "renewed-for-settings-of-all",
        "config/dynamic_broker.py",
        "        return node is not self._seen and bool(node or self._seen)",
        "        return True",
        "files are looked at with every setting of all brokers",
        "server/test_publisher.py",
    ),
    Mutant(
        "not-renewed-when-taken-back",
        "config/dynamic_broker.py",
        "        return node is not self._seen and bool(node or self._seen)",
        "        return node is not self._seen and bool(node)",
        "a store that is set back to the file's is not read",
        "server/test_publisher.py",
    ),
    Mutant(
        "taken-back-from-a-listener",
        "config/dynamic.py",
        "    for name in {**old.given, **new.given}:\n",
        "    for name in new.given:\n",
        "a setting that a listener was made with is taken back, and holds on",
        "config/test_dynamic_broker.py -k made_with",
    ),
    Mutant(
        "read-timeout-of-connect",
        "config/sasl.py",
        "read_s=(read_ms or _WAIT_MS) / 1000,",
        "read_s=(connect_ms or _WAIT_MS) / 1000,",
        "sasl.login.read.timeout.ms has no effect",
        "config/test_sasl.py -k nothing_else",
    ),
    Mutant(
        "client-secret-as-text",
        "config/keys/security.py",
        '"sasl.oauthbearer.client.credentials.client.secret", PASSWORD,',
        '"sasl.oauthbearer.client.credentials.client.secret", STRING,',
        "the secret is shown",
        "config/test_broker.py -k secret",
    ),
    Mutant(
        "all-among-others",
        "config/validators.py",
        'if items == ["*"] or all(',
        'if "*" in items or all(',
        "`*` beside others is taken",
        "config/test_rules.py -k throttled",
    ),
    Mutant(
        "secret-in-refusal",
        "config/unserved.py",
        'shown = "" if key.type is PASSWORD else f"={text.strip()}"',
        'shown = f"={text.strip()}"',
        "a refused secret stands in the log",
        "config/test_without_effect.py -k 'refusal or by_name'",
    ),
    Mutant(
        "lz4-to-twelve",
        "config/keys/topics.py",
        'Key("compression.lz4.level", INT, "9", MEDIUM, "Level for lz4 when the broker compresses.", between(1, 17)),',
        'Key("compression.lz4.level", INT, "9", MEDIUM, "Level for lz4 when the broker compresses.", between(1, 12)),',
        "levels 13 to 17 are refused",
        "config/test_ranges.py",
    ),
    Mutant(
        "flush-every-zero",
        "config/keys/log.py",
        '        "Messages in a partition before it is flushed to disk.",\n        at_least(1),',
        '        "Messages in a partition before it is flushed to disk.",\n        at_least(0),',
        "log.flush.interval.messages=0 is taken",
        "config/test_ranges.py",
    ),
    Mutant(
        "flush-at-once",
        "config/broker.py",
        'given = self.optional_integer("log.flush.interval.ms")\n        return given if given is not None else',
        'given = self.optional_integer("log.flush.interval.ms")\n        return given if given else',
        "log.flush.interval.ms=0 is left out",
        "config/test_rules.py -k stand_for_others",
    ),
)
