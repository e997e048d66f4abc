"""docs/compatibility.md is what its generator writes, and the named tests exist and use the named clients."""

from __future__ import annotations

import re

import pytest

from interop.compatibility import PAGE, SUITES, TESTS, Suite, document, names_of_tests
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import API_INFO

USES = {
    "librdkafka (confluent-kafka)": "confluent_kafka|librdkafka",
    "aiokafka": "aiokafka",
    "kafka-python": r"(import|from) kafka\b|kafka_python",
    "kcat": "kcat",
    "Kafka's Java clients and scripts": "jvm_tools|JvmTools|run_jvm_tool|jvm",
    "Spark's Kafka connector": "connector",
    "JVM Kafka nodes": "jvm",
    "JVM Kafka's answers": "jvm",
}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == document(), "run: python -m interop.compatibility > docs/compatibility.md"


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_the_named_tests_use_the_client(suite: Suite) -> None:
    for module in suite.modules:
        path = TESTS / f"test_{module}.py"
        assert names_of_tests(path), module
        shared = re.findall(r"^from tests\.interop\.(\w+) import", path.read_text(), re.MULTILINE)
        texts = [path.read_text(), *((TESTS / f"{name}.py").read_text() for name in shared)]
        assert any(re.search(USES[suite.name], text) for text in texts), f"{module} does not use {suite.name}"


def test_every_served_api_is_named_once() -> None:
    names = re.findall(r"^\| (\w+) \| \d+ \|", PAGE.read_text(), re.MULTILINE)
    assert names == [API_INFO[api.api_key].name for api in APIS]
