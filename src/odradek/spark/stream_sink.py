"""Sink for the micro-batches of streaming queries. pyspark has its base class since Spark 4.1."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from odradek.base.errors import OdradekError
from odradek.spark.decisions import Sink, TaskId
from odradek.spark.options import WriteOptions
from odradek.spark.sink import QUERY_ID, abort_rows, commit_rows, prepare_rows, task_context, write_rows
from odradek.spark.worker_upkeep import SentToWorkers

if TYPE_CHECKING:
    import pyarrow as pa


class StreamWriter(SentToWorkers, DataSourceStreamArrowWriter):
    """Writer of `df.writeStream.format("odradek")`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a micro-batch, and return when all are acknowledged."""
        options = self._options
        if not options.exactly_once:
            return write_rows(options, iterator)
        context = task_context()
        query = _property(context, QUERY_ID)
        batch = int(_property(context, "streaming.sql.batchId"))
        run = _property(context, "spark.jobGroup.id")[:8]
        return prepare_rows(
            options, Sink(options.app_id or query, query), TaskId(run, batch, context.partitionId(), context.attemptNumber()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of all tasks visible, with exactlyOnce."""
        commit_rows(self._options, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the rows of all tasks, with exactlyOnce."""
        abort_rows(self._options, batchId, messages)


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise OdradekError(f"exactlyOnce: the task does not have Spark's property {name}")
    return value
