"""A Spark session that does what `spark_sessions.Session` asks for: a line of JSON each on standard input, a line of JSON in answer.

Run with the interpreter of the environment, `spark_jobs.py FORMAT JARS FOLDER`; imports nothing of the project.
"""

from __future__ import annotations

import json
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_ROW = (
    "spark_partition_id() task",
    "topic",
    "partition",
    "offset",
    "cast(base64(key) as string) key",
    "cast(base64(value) as string) value",
    "unix_micros(timestamp) timestamp",
    "timestampType",
)
_HEADERS = "to_json(headers, map('ignoreNullFields', 'false')) headers"


def rows_of(frame: DataFrame) -> list[list[Any]]:
    """Task, topic, partition, offset, key, value, microseconds, type of the timestamp, headers."""
    wanted = [*_ROW, _HEADERS if "headers" in frame.columns else "null headers"]
    return [list(row) for row in frame.selectExpr(*wanted).collect()]


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:20_000]


class Jobs:
    def __init__(self, spark: SparkSession, kind: str, folder: Path) -> None:
        self._spark = spark
        self._kind = kind
        self._folder = folder
        self._queries: dict[str, Any] = {}

    def read(self, job: dict[str, Any]) -> dict[str, Any]:
        frame = self._spark.read.format(self._kind).options(**job["options"]).load()
        return {"schema": frame.schema.simpleString(), "rows": rows_of(frame)}

    def write(self, job: dict[str, Any]) -> dict[str, Any]:
        writer = self._spark.sql(job["sql"]).write.format(self._kind).options(**job["options"])
        (writer if job["mode"] is None else writer.mode(job["mode"])).save()
        return {}

    def start(self, job: dict[str, Any]) -> dict[str, Any]:
        """Starts a query whose rows go into a table of their own; `process`, `progress` and `stop` name it by what this answers."""
        frame = self._spark.readStream.format(self._kind).options(**job["options"]).load()
        name = f"query_{uuid.uuid4().hex}"
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / name)).queryName(name)
        self._queries[name] = writer.option("checkpointLocation", str(self._folder / job["checkpoint"])).trigger(**job["trigger"]).start()
        return {"query": name}

    def stream(self, job: dict[str, Any]) -> dict[str, Any]:
        """A query with AvailableNow from its start to its end; its progress and its rows also when it fails."""
        frame = self._spark.readStream.format(self._kind).options(**job["options"]).load()
        name = f"query_{uuid.uuid4().hex}"
        writer = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._folder / job["checkpoint"])).start()
        error = {}
        try:
            query.awaitTermination()
        except Exception as failure:
            error = {"error": said(failure)}
        progress = [json.loads(each if isinstance(each, str) else each.json) for each in query.recentProgress]
        return {"progress": progress, "rows": rows_of(self._spark.table(name)), **error}

    def start_sink(self, job: dict[str, Any]) -> dict[str, Any]:
        """Starts a query that writes rows of `sql`, over the numbers of a file, to the topic."""
        source = self._folder / f"{uuid.uuid4().hex}"
        source.mkdir()
        (source / "numbers.json").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(job["rows"])))
        self._spark.readStream.schema("id bigint").json(str(source)).createOrReplaceTempView(job["view"])
        writer = self._spark.sql(job["sql"]).writeStream.format(self._kind).options(**job["options"]).outputMode(job["mode"])
        query = writer.option("checkpointLocation", str(self._folder / job["checkpoint"])).trigger(availableNow=True).start()
        query.awaitTermination()
        return {}

    def process(self, job: dict[str, Any]) -> dict[str, Any]:
        """Waits until the query has read all that is there."""
        self._queries[job["query"]].processAllAvailable()
        return {}

    def finish(self, job: dict[str, Any]) -> dict[str, Any]:
        """Waits for the end of a query that ends by itself."""
        self._queries[job["query"]].awaitTermination()
        return {}

    def stop(self, job: dict[str, Any]) -> dict[str, Any]:
        """Stops the query; its progress and its rows."""
        query = self._queries.pop(job["query"])
        query.stop()
        progress = [json.loads(each if isinstance(each, str) else each.json) for each in query.recentProgress]
        # The files by their names: a query that goes on writes into a folder that its checkpoint does not know.
        files = [str(file) for file in (self._folder / job["query"]).glob("*.parquet")]
        read = self._spark.read.parquet(*files) if files else None
        return {"progress": progress, "rows": [] if read is None else rows_of(read)}


def main() -> None:
    kind, jars, folder = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    builder = builder.config("spark.sql.streaming.pollingDelay", "50ms").config("spark.sql.streaming.noDataProgressEventInterval", "0")
    builder = builder.config("spark.sql.warehouse.dir", str(Path(folder) / "warehouse"))
    # Many small queries: what is compiled for one is not worth it.
    builder = builder.config("spark.sql.codegen.wholeStage", "false").config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").config("spark.ui.showConsoleProgress", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jobs = Jobs(spark, kind, Path(folder))

    def answer(line: str) -> str:
        job = json.loads(line)
        try:
            return json.dumps(getattr(jobs, job["job"])(job))
        except Exception as error:
            return json.dumps({"error": said(error)})

    print(json.dumps({"spark": spark.version}), flush=True)

    def begin() -> None:
        # In Spark 4.0 a source in Python is found for writing by the active session only, which a thread does not have by itself.
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]

    with ThreadPoolExecutor(2, initializer=begin) as pool:
        for line in sys.stdin:
            # A list of jobs is done two at a time.
            jobs_of_line = json.loads(line)
            for done in pool.map(answer, [json.dumps(each) for each in jobs_of_line]):
                print(done, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
