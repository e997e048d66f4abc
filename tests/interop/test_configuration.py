"""Configuration changed and records deleted by unmodified clients: JVM Kafka's tools, confluent-kafka, kafka-python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from interop.peers import BrokerProcess
from interop.tools import JvmTools

CONFIGS = "kafka.admin.ConfigCommand"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
"""The clients' own, not ours."""


Tool = Callable[..., str]


@pytest.fixture
def jvm(jvm_tools: JvmTools) -> Tool:
    """Runs a tool, which has to succeed, and gives its output."""

    def run(main_class: str, *arguments: str) -> str:
        done = jvm_tools.run(main_class, *arguments)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    return run


@pytest.fixture
def refused(jvm_tools: JvmTools) -> Tool:
    """Runs a tool, which has to fail, and gives all that it says."""

    def run(main_class: str, *arguments: str) -> str:
        done = jvm_tools.run(main_class, *arguments)
        assert done.returncode != 0
        return (done.stdout + done.stderr).decode()

    return run


def offsets(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "interop"})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    consumer.close()
    return low, high


@pytest.fixture
def filled(broker: BrokerProcess, new_topic: Callable[..., str]) -> str:
    """A topic with ten records, each in a batch of its own."""
    topic = new_topic("configured")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, f"v{number}", partition=0)
        producer.flush(10)
    return topic


@pytest.mark.jvm
def test_kafka_configs_for_topics(broker: BrokerProcess, new_topic: Callable[..., str], jvm: Tool, refused: Tool) -> None:
    topic = new_topic("kafka-configs", retention_ms="100000")
    of_topic = ("--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", topic)
    assert "Completed updating config" in jvm(
        CONFIGS, *of_topic, "--alter", "--add-config", "cleanup.policy=[compact,delete],segment.bytes=2000000"
    )
    described = jvm(CONFIGS, *of_topic, "--describe")
    for expected in ("cleanup.policy=compact,delete", "segment.bytes=2000000", "retention.ms=100000", "DYNAMIC_TOPIC_CONFIG"):
        assert expected in described
    jvm(CONFIGS, *of_topic, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    described = jvm(CONFIGS, *of_topic, "--describe")
    assert "retention.ms" not in described
    assert "cleanup.policy" not in described
    everything = jvm(CONFIGS, *of_topic, "--describe", "--all")
    assert "retention.ms=604800000" in everything
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything
    assert "InvalidConfigurationException" in refused(CONFIGS, *of_topic, "--alter", "--add-config", "segment.bytes=5")


@pytest.mark.jvm
def test_kafka_configs_for_brokers(broker: BrokerProcess, new_topic: Callable[..., str], jvm: Tool, refused: Tool) -> None:
    server = ("--bootstrap-server", broker.bootstrap, "--entity-type", "brokers")
    one, all_of_them = (*server, "--entity-name", "1"), (*server, "--entity-default")
    topic = new_topic("follows-its-broker")
    of_topic = ("--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", topic)
    jvm(CONFIGS, *all_of_them, "--alter", "--add-config", "log.retention.ms=111000,max.connections=900")
    jvm(CONFIGS, *one, "--alter", "--add-config", "log.retention.ms=222000")
    assert "log.retention.ms=111000" in jvm(CONFIGS, *all_of_them, "--describe")
    described = jvm(CONFIGS, *one, "--describe")
    assert "DYNAMIC_BROKER_CONFIG:log.retention.ms=222000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=111000" in described
    assert "max.connections=900" in jvm(CONFIGS, *one, "--describe", "--all")
    assert "retention.ms=222000" in jvm(CONFIGS, *of_topic, "--describe", "--all")
    jvm(CONFIGS, *one, "--alter", "--delete-config", "log.retention.ms")
    assert "retention.ms=111000" in jvm(CONFIGS, *of_topic, "--describe", "--all")
    jvm(CONFIGS, *all_of_them, "--alter", "--delete-config", "log.retention.ms,max.connections")
    assert "retention.ms=604800000" in jvm(CONFIGS, *of_topic, "--describe", "--all")
    for problem, setting in {
        "Cannot update these configs dynamically": "num.partitions=5",
        "greater than double": "num.io.threads=90",
        "message.max.bytes": "message.max.bytes=-7",
    }.items():
        assert problem in refused(CONFIGS, *one, "--alter", "--add-config", setting)


@pytest.mark.jvm
def test_kafka_configs_for_loggers(broker: BrokerProcess, jvm: Tool) -> None:
    loggers = ("--bootstrap-server", broker.bootstrap, "--entity-type", "broker-loggers", "--entity-name", "1")
    assert "odradek.server.start.broker=INFO" in jvm(CONFIGS, *loggers, "--describe")
    jvm(CONFIGS, *loggers, "--alter", "--add-config", "odradek.server.start.broker=DEBUG")
    assert "odradek.server.start.broker=DEBUG" in jvm(CONFIGS, *loggers, "--describe")
    jvm(CONFIGS, *loggers, "--alter", "--delete-config", "odradek.server.start.broker")
    assert "odradek.server.start.broker=INFO" in jvm(CONFIGS, *loggers, "--describe")


@pytest.mark.jvm
def test_kafka_delete_records(broker: BrokerProcess, filled: str, new_topic: Callable[..., str], tmp_path: Path, jvm: Tool) -> None:
    compacted = new_topic("only-compacted", cleanup_policy="compact")

    def delete(*wanted: tuple[str, int, int]) -> str:
        entries = [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in wanted]
        file = tmp_path / "offsets.json"
        file.write_text(json.dumps({"partitions": entries, "version": 1}))
        tool = "org.apache.kafka.tools.DeleteRecordsCommand"
        return jvm(tool, "--bootstrap-server", broker.bootstrap, "--offset-json-file", str(file))

    assert f"partition: {filled}-0\tlow_watermark: 4" in delete((filled, 0, 4))
    assert offsets(broker, filled) == (4, 10)
    answer = delete((filled, 0, 11), (compacted, 0, 0))
    assert "OffsetOutOfRangeException" in answer
    assert "PolicyViolationException" in answer
    assert f"partition: {filled}-0\tlow_watermark: 10" in delete((filled, 0, -1))
    assert offsets(broker, filled) == (10, 10)


@pytest.mark.jvm
def test_kafka_leader_election(broker: BrokerProcess, filled: str, jvm: Tool) -> None:
    tool = ("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", broker.bootstrap)
    answer = jvm(*tool, "--election-type", "preferred", "--topic", filled, "--partition", "0")
    assert "Valid replica already elected" in answer


def test_confluent_kafka_alters_and_describes(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("confluent-configs", retention_ms="100000")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def alter(name: str, *entries: tuple[str, str | None, AlterConfigOpType], kind: ResourceType = ResourceType.TOPIC) -> None:
        incremental = [ConfigEntry(key, value, incremental_operation=operation) for key, value, operation in entries]
        resource = ConfigResource(kind, name, incremental_configs=incremental)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def value(key: str) -> tuple[str, bool]:
        ((_, future),) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).items()
        entry = future.result(30)[key]
        return entry.value, entry.is_default

    alter(topic, ("cleanup.policy", "compact", AlterConfigOpType.APPEND), ("retention.ms", None, AlterConfigOpType.DELETE))
    assert value("cleanup.policy") == ("delete,compact", False)
    assert value("retention.ms") == ("604800000", True)
    alter(topic, ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT), ("retention.ms", "7000", AlterConfigOpType.SET))
    assert value("cleanup.policy") == ("compact", False)
    assert value("retention.ms") == ("7000", False)
    with pytest.raises(Exception, match="INVALID_CONFIG"):
        alter(topic, ("segment.bytes", "1", AlterConfigOpType.SET))
    alter("1", ("message.max.bytes", "7000000", AlterConfigOpType.SET), kind=ResourceType.BROKER)
    assert value("max.message.bytes")[0] == "7000000"
    alter("1", ("message.max.bytes", None, AlterConfigOpType.DELETE), kind=ResourceType.BROKER)
    assert value("max.message.bytes")[0] == "8388608"


def test_confluent_kafka_deletes_records(broker: BrokerProcess, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    ((_, future),) = admin.delete_records([TopicPartition(filled, 0, 6)]).items()
    assert future.result(30).low_watermark == 6
    assert offsets(broker, filled) == (6, 10)


@pytest.fixture
def kafka_python(broker: BrokerProcess) -> Iterator[object]:
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield admin
    admin.close()


def test_kafka_python(broker: BrokerProcess, filled: str, kafka_python: object) -> None:
    from kafka import TopicPartition as Partition
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType

    assert hasattr(kafka_python, "delete_records")
    deleted = kafka_python.delete_records({Partition(filled, 0): 3})
    assert offsets(broker, filled) == (3, 10), deleted
    kafka_python.alter_configs([Resource(ConfigResourceType.TOPIC, filled, configs={"retention.ms": "123456"})])  # type: ignore[attr-defined]
    described = str(kafka_python.describe_configs([Resource(ConfigResourceType.TOPIC, filled)]))  # type: ignore[attr-defined]
    assert "123456" in described
