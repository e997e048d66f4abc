"""Settings and records of controllers whose logs are short."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import ConfigRecord

DIRECTORY = "/data/__cluster_metadata-0"
SHORT_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "40000",
    "metadata.max.retention.bytes": "300",
    "internal.metadata.log.segment.bytes": "40000",
    "internal.metadata.max.batch.size.in.bytes": "20000",
}
"""A few thousand records, and a snapshot takes their place."""


def config(name: str) -> VersionedRecord:
    return VersionedRecord(ConfigRecord(resource_type=4, resource_name="", name=name, value="1"), 0)


def write(count: int) -> Callable[[ControllerContext], ControllerResult[str]]:
    def operation(_: ControllerContext) -> ControllerResult[str]:
        return ControllerResult([config(f"key {number}") for number in range(count)], "done")

    return operation


def code_of(deferred: Deferred[object]) -> ErrorCode:
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code


def read_only(_: ControllerContext) -> ControllerResult[str]:
    return ControllerResult([], "seen")
