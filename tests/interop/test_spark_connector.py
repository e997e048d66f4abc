"""Batch queries of our source and sink beside those of Spark's Kafka connector, on the same topics: rows, tasks, and kinds of error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interop.peers import both
from odradek.client import NewTopic
from tests.interop import spark_direct
from tests.interop.spark_differences import DIFFERENCES, Outcome
from tests.interop.spark_options import READS, Case
from tests.interop.spark_sessions import Answer, Session, by_partition, kind_of, tasks
from tests.interop.spark_sinks import WRITES, SinkCase
from tests.interop.spark_topics import Topics

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
