"""What `test_peer` runs on Spark 4.0 with Spark's own Avro: `peer.py JAR SEED COUNT` prints a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro as theirs

from odradek.spark.functions import from_avro as ours
from tests.spark.functions.avro_values import Avro, encoded

LOGICAL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": name.replace("-", "_"), "type": {"type": kind, "logicalType": name, **more}}
        for kind, name, more in (
            ("int", "date", {}),
            ("int", "time-millis", {}),
            ("long", "time-micros", {}),
            ("long", "timestamp-millis", {}),
            ("long", "timestamp-micros", {}),
            ("long", "local-timestamp-millis", {}),
            ("long", "local-timestamp-micros", {}),
            ("string", "uuid", {}),
            ("bytes", "decimal", {"precision": 10, "scale": 2}),
        )
    ],
}
LOGICAL_BYTES = b"\xc8\x01" + b"\xc9\x01" * 2 + b"\x80\xa0\xa7\xf7\xc9\x63" * 4 + b"\x04ab" + b"\x04\xff\x00"
OLD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"},{"name":"c","type":["null","long"]}]}'
NEW = """{"type":"record","name":"R","fields":[{"name":"c","type":["null","long"]},{"name":"a","type":"double"},
    {"name":"d","type":{"type":"map","values":"int"},"default":{"x":1}},{"name":"e","type":["null","string"],"default":null}]}"""


def main() -> None:
    jar, seed, count = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jar)
    spark = builder.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    cases: list[tuple[Any, list[bytes], str | None]] = [
        (LOGICAL, [LOGICAL_BYTES], None),
        (
            json.loads(OLD),
            [encoded(json.loads(OLD), {"a": 1, "b": "x", "c": 2}), encoded(json.loads(OLD), {"a": 1, "b": "", "c": None})],
            NEW,
        ),
    ]
    chance = Avro(int(seed))
    while len(cases) < int(count):
        schema = {"type": "record", "name": "Top", "fields": [{"name": f"f{index}", "type": chance.schema()} for index in range(4)]}
        cases.append((schema, [encoded(schema, chance.value(schema)) for _ in range(5)], None))
    answer: dict[str, Any] = {"release": spark.version, "cases": len(cases), "different": [], "theirs refuses": 0}
    for schema, records, reader in cases:
        text = json.dumps(schema)
        rows = spark.createDataFrame([(bytearray(each),) for each in records] + [(None,)], "value binary")
        try:
            expected = rows.select(theirs("value", text, {"avroSchema": reader} if reader else {}).alias("v"))
            wanted = expected.collect()
        except Exception:
            answer["theirs refuses"] += 1
            continue
        for mode in ("FAILFAST", "PERMISSIVE"):
            found = rows.select(ours("value", text, reader_schema=reader, mode=mode).alias("v"))
            if found.schema != (expected.schema if mode == "FAILFAST" else _permissive(rows, text, reader)):
                answer["different"].append([text, "type", expected.schema.simpleString(), found.schema.simpleString()])
            if found.collect() != wanted:
                answer["different"].append([text, "rows", str(wanted)[:500], str(found.collect())[:500]])
    print(json.dumps(answer))
    spark.stop()


def _permissive(rows: Any, text: str, reader: str | None) -> Any:
    options = {"mode": "PERMISSIVE", **({"avroSchema": reader} if reader else {})}
    return rows.select(theirs("value", text, options).alias("v")).schema


if __name__ == "__main__":
    main()
