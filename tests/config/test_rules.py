"""What two keys say together, and the edges of what one may say."""

from __future__ import annotations

from typing import cast

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, BrokerConfig, standalone_config
from odradek.config.definition import INT, LIST, at_least, between, format_double, invalid, parse_value
from odradek.config.describe import BrokerLayers, DescribedConfig, describe_broker, describe_cluster_default, describe_topic
from odradek.config.dynamic import NEVER_IN_A_FILE
from odradek.config.dynamic_broker import DynamicBrokerConfig, check_setting
from odradek.config.group import check_group_overrides
from odradek.config.keys.cluster import BROKER_ID, NODE_ID
from odradek.config.keys.groups import GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS
from odradek.config.keys.log import CORDONED_LOG_DIRS
from odradek.config.keys.topics import RETENTION_MS
from odradek.config.listeners import Endpoint
from odradek.config.properties import parse_properties
from odradek.config.topic import TopicConfig, check_topic_overrides, effective_topic_value
from odradek.config.unsupported import check_supported_topic

BOTH = "PLAINTEXT://h:9092,CONTROLLER://h:9093"
ALONE = {"process.roles": "controller", "node.id": "1", "controller.listener.names": "CONTROLLER", "listeners": "CONTROLLER://h:9093"}
BROKER = {"process.roles": "broker", "node.id": "1", "controller.listener.names": "CONTROLLER", "listeners": "PLAINTEXT://h:9092"}
QUORUM = {"controller.quorum.bootstrap.servers": "h:9093"}


def refused(settings: dict[str, str], *words: str) -> None:
    """Checks that the settings, over those of a single node, are refused in a line with these words."""
    with pytest.raises(ConfigError) as caught:
        standalone_config(settings)
    for word in words:
        assert word in str(caught.value)


# -- listeners -----------------------------------------------------------------------------------------------------------------------------


def test_a_free_port_may_be_asked_for_twice_and_another_once() -> None:
    config = standalone_config({"listeners": "PLAINTEXT://h:0,CONTROLLER://h:0"})
    assert [endpoint.port for endpoint in config.listeners] == [0, 0]
    refused({"listeners": "PLAINTEXT://h:7,CONTROLLER://h:7"}, "listeners", "different port", "7")
    refused({"listeners": "PLAINTEXT://[::1]:7,CONTROLLER://[::2]:7"}, "different port")


@pytest.mark.parametrize(("port", "fits"), [("65535", True), ("65536", False), ("-1", True), ("-2", False)])
def test_ports_end_where_tcps_do(port: str, fits: bool) -> None:
    listeners = {"listeners": f"PLAINTEXT://h:{port},CONTROLLER://h:1"}
    if fits:
        assert standalone_config(listeners).listeners[0].port == int(port)
    else:
        refused(listeners, "port", port)


def test_names_of_listeners_and_protocols_are_written_in_any_case() -> None:
    config = standalone_config({"listeners": "plaintext://h:1,Controller://h:2", "controller.listener.names": "controller"})
    assert [endpoint.listener for endpoint in config.listeners] == ["PLAINTEXT", "CONTROLLER"]
    mapped = standalone_config(
        {
            "listeners": "inside://h:1,CONTROLLER://h:2",
            "listener.security.protocol.map": "Inside:plaintext,controller:Plaintext",
            "inter.broker.listener.name": "inside",
        }
    )
    assert mapped.broker_listeners == [Endpoint("INSIDE", "PLAINTEXT", "h", 1)]


def test_a_map_that_is_given_must_name_the_controllers_listener() -> None:
    assert standalone_config({"controller.listener.names": "MINE", "listeners": "PLAINTEXT://h:1,MINE://h:2"}).controller_listeners
    refused({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER", "listener.security.protocol.map")


def test_what_is_advertised_may_share_a_port_as_behind_a_proxy() -> None:
    config = standalone_config(
        {
            "listeners": "PLAINTEXT://h:1,INSIDE://h:2,CONTROLLER://h:3",
            "advertised.listeners": "PLAINTEXT://proxy:9,INSIDE://proxy:9",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
    )
    assert [endpoint.port for endpoint in config.advertised_listeners] == [9, 9]


def test_clients_are_told_of_no_controller_and_of_no_listener_that_is_none() -> None:
    config = standalone_config({"listeners": BOTH})
    assert [endpoint.listener for endpoint in config.advertised_listeners] == ["PLAINTEXT"]
    more = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    refused({"advertised.listeners": "PLAINTEXT://h:1,MORE://h:2", **more}, "advertised.listeners", "MORE", "not one of listeners")


def test_brokers_talk_to_one_another_by_one_listener_of_their_own() -> None:
    refused({"inter.broker.listener.name": "CONTROLLER"}, "must not be a controller listener")
    refused({"security.inter.broker.protocol": "PLAINTEXT"}, "Only one of inter.broker.listener.name")


# -- roles ---------------------------------------------------------------------------------------------------------------------------------


def test_a_node_listens_for_its_roles_only() -> None:
    assert BrokerConfig({**ALONE, **QUORUM}).controller_listeners
    with pytest.raises(ConfigError, match="listeners must only name controller listeners"):
        BrokerConfig({**ALONE, **QUORUM, "listeners": BOTH})
    assert BrokerConfig({**BROKER, **QUORUM}).broker_listeners
    with pytest.raises(ConfigError, match=r"must not contain a value appearing in the 'listeners'.*process.roles=broker"):
        BrokerConfig({**BROKER, **QUORUM, "listeners": BOTH})


def test_a_node_knows_its_quorum_and_whether_it_votes() -> None:
    with pytest.raises(ConfigError, match=r"controller.quorum.bootstrap.servers .* must name the controllers"):
        BrokerConfig(ALONE)
    with pytest.raises(ConfigError, match=r"must not contain node.id 1, since process.roles=broker"):
        BrokerConfig({**BROKER, "controller.quorum.voters": "1@h:1"})
    with pytest.raises(ConfigError, match=r"must contain node.id 1, since process.roles contains controller"):
        BrokerConfig({**ALONE, "controller.quorum.voters": "2@h:1"})


def test_an_id_by_its_old_name_is_an_id() -> None:
    given = {key: value for key, value in {**BROKER, **QUORUM}.items() if key != "node.id"}
    assert BrokerConfig({**given, "broker.id": "7"})[NODE_ID] == 7
    assert BrokerConfig({**given, "node.id": "7"})[BROKER_ID] == 7
    refused({"broker.id": "7"}, "broker.id must be the same as node.id")


# -- numbers -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fitting", "wrong", "words"),
    [
        ({"log.roll.ms": "1"}, {"log.roll.ms": "0"}, "log.roll.ms"),
        ({"log.roll.jitter.ms": "0"}, {"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms"),
        (
            {"replica.fetch.wait.max.ms": "20", "replica.lag.time.max.ms": "20"},
            {"replica.fetch.wait.max.ms": "21", "replica.lag.time.max.ms": "20"},
            "replica.lag.time.max.ms",
        ),
        (
            {"queued.max.request.bytes": "2000", "socket.request.max.bytes": "2000"},
            {"queued.max.request.bytes": "1999", "socket.request.max.bytes": "2000"},
            "queued.max.request.bytes",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1048577", "log.cleaner.threads": "1"},
            {"log.cleaner.dedupe.buffer.size": "1048576", "log.cleaner.threads": "1"},
            "log.cleaner.dedupe.buffer.size",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "14999", "group.consumer.session.timeout.ms": "15000"}
            | {"group.consumer.min.session.timeout.ms": "15000", "group.consumer.max.heartbeat.interval.ms": "15000"},
            {"group.consumer.heartbeat.interval.ms": "15000", "group.consumer.session.timeout.ms": "15000"}
            | {"group.consumer.min.session.timeout.ms": "15000", "group.consumer.max.heartbeat.interval.ms": "15000"},
            "group.consumer.heartbeat.interval.ms must be less",
        ),
        ({"group.max.session.timeout.ms": "6000"}, {"group.max.session.timeout.ms": "5999"}, "group.min.session.timeout.ms"),
        ({"offsets.topic.compression.codec": "4"}, {"offsets.topic.compression.codec": "5"}, "offsets.topic.compression.codec"),
        ({"cordoned.log.dirs": "*"}, {"cordoned.log.dirs": "*,/tmp/kafka-logs"}, "must not contain other values"),
        ({"cordoned.log.dirs": "/tmp/kafka-logs"}, {"cordoned.log.dirs": "/elsewhere"}, "/elsewhere must be present in log.dirs"),
        (
            {"max.connections.per.ip.overrides": "h:5"},
            {"max.connections.per.ip.overrides": "h:many"},
            "h:many must have the form host:count",
        ),
    ],
)
def test_the_edge_of_what_fits(fitting: dict[str, str], wrong: dict[str, str], words: str) -> None:
    standalone_config(fitting)
    refused(wrong, words)


_BOUNDED = [
    f"group.{kind}.{{}}{setting}"
    for kind, settings in {
        "consumer": ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"),
        "share": ("heartbeat.interval.ms", "session.timeout.ms", "record.lock.duration.ms"),
        "streams": ("heartbeat.interval.ms", "session.timeout.ms"),
    }.items()
    for setting in settings
]
"""Settings of groups that lie between a `min.` and a `max.` of theirs (GroupCoordinatorConfig, ShareGroupConfig)."""


@pytest.mark.parametrize("name", _BOUNDED)
def test_a_groups_setting_lies_between_its_bounds(name: str) -> None:
    least, value, most = name.format("min."), name.format(""), name.format("max.")
    parsed = standalone_config({})
    smallest, at, largest = (cast(int, parsed[BROKER_CONFIG[name]]) for name in (least, value, most))
    assert smallest <= at <= largest
    standalone_config({least: str(at), most: str(at)})
    refused({least: str(at), value: str(at - 1)}, value, least)
    refused({most: str(at), value: str(at + 1)}, value, most)


def test_a_pause_after_a_failed_login_ends_before_an_idle_connection_does() -> None:
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    standalone_config({delay: "100", idle: "101"})
    standalone_config({delay: "100", idle: "-1"})
    refused({delay: "100", idle: "100"}, delay, idle)


@pytest.mark.parametrize(
    ("cordoned", "fits"), [("*", True), ("/a", True), ("/a,/b", True), ("*,/a", False), ("/a,*", False), ("/c", False)]
)
def test_cordoned_directories_are_some_or_all(cordoned: str, fits: bool) -> None:
    settings = {"log.dirs": "/a,/b", "cordoned.log.dirs": cordoned}
    if fits:
        assert standalone_config(settings)[CORDONED_LOG_DIRS] == cordoned.split(",")
    else:
        refused(settings, "cordoned.log.dirs")


@pytest.mark.parametrize(("id_", "voters", "fits"), [("1", "2@h:1,3@h:1", True), ("2", "2@h:1,3@h:1", False), ("3", "2@h:1,3@h:1", False)])
def test_a_broker_is_no_voter(id_: str, voters: str, fits: bool) -> None:
    given = {**BROKER, "node.id": id_, "controller.quorum.voters": voters}
    if fits:
        assert set(BrokerConfig(given).controller_quorum_voters) == {2, 3}
    else:
        with pytest.raises(ConfigError, match=f"must not contain node.id {id_}"):
            BrokerConfig(given)


def test_a_voter_has_one_address_and_any_port() -> None:
    config = standalone_config({"controller.quorum.voters": "1@h:65535,2@[::1]:1,2@other:2"})
    assert config.controller_quorum_voters == {1: ("h", 65535), 2: ("other", 2)}
    refused({"controller.quorum.voters": "1@h:65536"}, "controller.quorum.voters", "65536")


def test_values_that_stand_for_others() -> None:
    assert standalone_config({"log.retention.ms": "-5"}).log_retention_ms == -1
    assert standalone_config({"log.retention.ms": "9", "log.retention.minutes": "2"}).log_retention_ms == 9
    assert standalone_config({"log.retention.minutes": "2"}).log_retention_ms == 120_000
    assert standalone_config({"log.roll.jitter.hours": "2"}).log_roll_jitter_ms == 7_200_000
    assert standalone_config({"log.roll.jitter.ms": "0", "log.roll.jitter.hours": "2"}).log_roll_jitter_ms == 0
    scheduler = {"log.flush.scheduler.interval.ms": "7"}
    given = [scheduler, {**scheduler, "log.flush.interval.ms": "0"}, {**scheduler, "log.flush.interval.ms": "9"}]
    assert [standalone_config(each).log_flush_interval_ms for each in given] == [7, 0, 9]
    config = standalone_config({"log.dirs": "/a,/b", "cordoned.log.dirs": "*"})
    assert (config.metadata_log_dir, config.cordoned_log_dirs) == ("/a", ["/a", "/b"])
    assert standalone_config({"log.dirs": "/a,/b", "cordoned.log.dirs": "/b"}).cordoned_log_dirs == ["/b"]


# -- single values -------------------------------------------------------------------------------------------------------------------------


def test_texts_become_values_as_in_java() -> None:
    assert parse_value("k", LIST, " a , b ") == ["a", "b"]
    assert standalone_config({"auto.create.topics.enable": " TRUE "}).auto_create_topics_enable
    assert parse_value("k", INT, "2147483647") == 2147483647
    with pytest.raises(ConfigError):
        parse_value("k", INT, "2147483648")
    for value in (1, 5):
        between(1, 5)("k", value)
    for value in (0, 6):
        with pytest.raises(ConfigError, match="Invalid value"):
            between(1, 5)("k", value)
    at_least(0)("k", 0)
    refused({"log.dirs": "/a,/a"}, "log.dirs", "duplicated")
    assert "\n" not in str(invalid("k", "a\nb\rc"))
    assert [format_double(value) for value in (1e7, 1.5e-5, 0.5)] == ["1.0E7", "1.5E-5", "0.5"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"compression.gzip.level": "0"}, "compression.gzip.level"),
        ({"controller.quorum.bootstrap.servers": "h:65536"}, "65536"),
        ({"controller.quorum.voters": "1@a:9@b"}, "controller.quorum.voters"),
    ],
)
def test_values_that_no_key_takes(settings: dict[str, str], word: str) -> None:
    refused(settings, word)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttled_replicas_are_pairs_or_all(side: str) -> None:
    key = f"{side}.replication.throttled.replicas"
    for value in ("", "0:1", "0:1,1:2", "*"):
        check_topic_overrides({key: value})
    for value in ("nonsense", "0", "0:1,nonsense", "nonsense,0:1", "0:1,*", "*,0:1", "*,nonsense", "0:*", "-1:0"):
        with pytest.raises(ConfigError, match="must be '\\*' or a list"):
            check_topic_overrides({key: value})


def test_what_is_off_may_be_written_in_any_case_and_no_password_is_told() -> None:
    check_supported_topic({"remote.storage.enable": " FALSE"})
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config has no effect") as caught:
        standalone_config({"sasl.jaas.config": "hunter2"})
    assert "hunter2" not in str(caught.value)


# -- topics and groups ---------------------------------------------------------------------------------------------------------------------


def test_lags_may_be_equal_and_roll_what_is_compacted() -> None:
    check_topic_overrides({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match="conflict"):
        check_topic_overrides({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    lag = {"max.compaction.lag.ms": "1000", "segment.ms": "5000"}
    assert TopicConfig.build(None, lag).max_segment_ms == 5000
    assert TopicConfig.build(None, {**lag, "cleanup.policy": "compact"}).max_segment_ms == 1000


def test_hours_of_the_broker_are_milliseconds_of_a_topic() -> None:
    assert effective_topic_value(RETENTION_MS, {"log.retention.hours": "2"}, {}, {}, {}).value == "7200000"
    forever = standalone_config({"log.retention.hours": "-1"})
    assert TopicConfig.build(forever, {}).retention_ms == -1


def test_what_is_set_for_a_broker_outdoes_what_is_set_for_all_in_a_topic() -> None:
    config = TopicConfig.build(
        standalone_config(), {}, ({"message.max.bytes": "1"}, {"message.max.bytes": "2", "log.segment.bytes": "2000000"})
    )
    assert (config.max_message_bytes, config.segment_bytes) == (1, 2_000_000)


def test_a_group_may_go_to_the_brokers_bounds() -> None:
    broker = standalone_config()
    low = str(broker[GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS])
    check_group_overrides({"consumer.session.timeout.ms": low}, broker)
    with pytest.raises(ConfigError, match=r"greater than or equal to group.consumer.min.session.timeout.ms"):
        check_group_overrides({"consumer.session.timeout.ms": str(int(low) - 1)}, broker)
    wide = standalone_config({"group.consumer.max.heartbeat.interval.ms": "45000"})
    with pytest.raises(ConfigError, match=r"must be greater than consumer.heartbeat.interval.ms"):
        check_group_overrides({"consumer.session.timeout.ms": "45000", "consumer.heartbeat.interval.ms": "45000"}, wide)


# -- while the broker runs -----------------------------------------------------------------------------------------------------------------


def test_both_layers_are_looked_at_before_something_is_set() -> None:
    config = DynamicBrokerConfig(standalone_config())
    config.update({}, {"max.connections.per.ip.overrides": "127.0.0.1:5"})
    config.check({"max.connections.per.ip": "0"}, for_node=True)
    with pytest.raises(ConfigError, match="overrides is set"):
        config.check({"max.connections.per.ip": "0"}, for_node=False)


def test_a_pool_of_five_may_shrink_to_two() -> None:
    config = DynamicBrokerConfig(standalone_config({"background.threads": "5"}))
    config.check({"background.threads": "2"}, for_node=True)
    with pytest.raises(ConfigError, match="at least half"):
        config.check({"background.threads": "1"}, for_node=True)


def test_a_limit_that_no_file_knows_is_taken_from_the_nearest_layer() -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    config = DynamicBrokerConfig(standalone_config())
    assert config[NEVER_IN_A_FILE[key]] == 2**63 - 1
    config.update({}, {key: "7"})
    assert config[NEVER_IN_A_FILE[key]] == 7
    config.update({key: "5"}, {key: "7"})
    assert config[NEVER_IN_A_FILE[key]] == 5


def test_configurations_of_topics_that_came_and_went_are_not_kept_for_ever() -> None:
    config = DynamicBrokerConfig(standalone_config())
    first = config.topic_config({"retention.ms": "0"})
    for number in range(1, 1100):
        config.topic_config({"retention.ms": str(number)})
    assert config.topic_config({"retention.ms": "0"}) is not first


def test_a_key_that_only_a_start_can_set_is_not_set_at_run_time() -> None:
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: num.partitions"):
        check_setting("num.partitions", "3")


# -- where values come from ----------------------------------------------------------------------------------------------------------------


def described(layers: BrokerLayers) -> dict[str, DescribedConfig]:
    return {each.name: each for each in describe_broker(layers)}


def test_every_key_that_was_given_is_shown_as_given_whoever_gave_it() -> None:
    """From a file, from --override, or from what a node that is all of its cluster starts with."""
    text = (
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://h:1,CONTROLLER://h:2\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@h:2\nlog.dirs=/a\nlog.retention.minutes=5\n"
    )
    of_file = BrokerConfig({**parse_properties(text), "num.partitions": "3", "advertised.listeners": "PLAINTEXT://proxy:1"})
    shown = described(BrokerLayers(of_file))
    static = {name for name, each in shown.items() if each.source == 4}
    assert static == {
        *("process.roles", "node.id", "broker.id", "listeners", "controller.listener.names", "controller.quorum.voters"),
        *("log.dirs", "log.retention.minutes", "num.partitions", "advertised.listeners"),
    }
    alone = standalone_config({"log.dirs": "/a"})
    assert {name for name, each in described(BrokerLayers(alone)).items() if each.source == 4} == {*alone.given}
    for name in static - {"broker.id", "log.retention.minutes"}:
        assert shown[name].synonyms[0] == (name, of_file.given[name], 4)


def test_synonyms_stand_in_the_order_in_which_they_count() -> None:
    config = standalone_config({"log.retention.ms": "5", "log.retention.hours": "7"})
    layers = BrokerLayers(config, {"log.retention.ms": "1"}, {"log.retention.ms": "2"})
    shown = described(layers)
    assert [(each.name, each.value, each.source) for each in shown["log.retention.ms"].synonyms] == [
        ("log.retention.ms", "1", 2),
        ("log.retention.ms", "2", 3),
        ("log.retention.ms", "5", 4),
        ("log.retention.hours", "7", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert (shown["log.retention.ms"].value, shown["log.retention.ms"].source) == ("1", 2)
    assert [(each.name, each.source) for each in shown["log.retention.hours"].synonyms][:1] == [("log.retention.hours", 4)]
    assert [each.name for each in shown["log.retention.minutes"].synonyms] == []


def test_passwords_and_internal_keys_are_not_shown() -> None:
    config = standalone_config()
    shown = described(BrokerLayers(config, {"ssl.key.password": "hunter2"}))
    assert "hunter2" not in repr(shown["ssl.key.password"])
    assert shown["ssl.key.password"].synonyms[0].source == 2
    assert "log.initial.task.delay.ms" not in shown
    assert "log.initial.task.delay.ms" in described(BrokerLayers(standalone_config({"log.initial.task.delay.ms": "5"})))


def test_a_topic_with_a_setting_of_another_version_can_be_described() -> None:
    shown = {each.name: each for each in describe_topic(BrokerLayers(standalone_config()), {"segment.bytes": "many", "retention.ms": "5"})}
    assert (shown["segment.bytes"].source, shown["retention.ms"].value) == (5, "5")


# -- the file ------------------------------------------------------------------------------------------------------------------------------


def test_lines_of_a_file() -> None:
    assert parse_properties("a=1,\\\n  !2\nb=c\\\\\nd: e\nd=f") == {"a": "1,!2", "b": "c\\", "d": "f"}


def test_what_nobody_knows_may_be_secret() -> None:
    """A key of a plugin, say, that another implementation has set for all brokers."""
    known, unknown = describe_cluster_default(BrokerLayers(standalone_config(), {}, {"message.max.bytes": "5", "plugin.key": "hunter2"}))
    assert (known.name, known.value, known.sensitive) == ("message.max.bytes", "5", False)
    assert (unknown.name, unknown.value, unknown.sensitive) == ("plugin.key", None, True)
    assert "hunter2" not in repr(unknown)
