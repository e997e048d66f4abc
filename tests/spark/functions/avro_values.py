"""Avro schemas and values at random, what Spark has for them, and bytes."""

from __future__ import annotations

import json
from datetime import date, timedelta
from io import BytesIO
from random import Random
from typing import Any

from fastavro import parse_schema, schemaless_writer

_LEAVES = ("int", "long", "string", "bytes", "boolean", "float", "double", "null", "enum", "fixed", "date")
_NESTED = ("record", "array", "map", "optional", "union", "union")
_PYTHON = {"int": int, "string": str, "boolean": bool}


class Avro:
    """One source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._names = 0

    def schema(self, depth: int = 0) -> Any:
        self._names += 1
        number = self._names
        kind = self.random.choice([*_LEAVES, *(_NESTED if depth < 3 else ())])
        if kind == "enum":
            return {"type": "enum", "name": f"E{number}", "symbols": ["A", "B", "C"]}
        if kind == "fixed":
            return {"type": "fixed", "name": f"F{number}", "size": self.random.choice([1, 4])}
        if kind == "date":
            return {"type": "int", "logicalType": "date"}
        if kind == "record":
            fields = [{"name": f"f{index}", "type": self.schema(depth + 1)} for index in range(self.random.randint(1, 4))]
            return {"type": "record", "name": f"R{number}", "namespace": self.random.choice(["a.b", "", "c"]), "fields": fields}
        if kind == "array":
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth + 1)}
        if kind == "optional":
            while isinstance(inner := self.schema(depth + 1), list) or inner == "null":
                pass
            return self.random.choice([["null", inner], [inner, "null"]])
        if kind == "union":
            branches: list[Any] = self.random.sample(["null", "int", "string", "boolean"], self.random.randint(2, 4))
            if self.random.random() < 0.5:
                branches.append({"type": "record", "name": f"U{number}", "fields": [{"name": "x", "type": self.schema(depth + 1)}]})
            return branches
        return kind

    def value(self, schema: Any) -> Any:
        random = self.random
        if isinstance(schema, list):
            return self.value(random.choice(schema))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "int":
            return random.randint(-1000, 20_000) if isinstance(schema, dict) else random.choice([0, -1, -(2**31), 2**31 - 1])
        if kind == "long":
            return random.choice([0, 64, -65, -(2**63), 2**63 - 1, random.randint(-(2**40), 2**40)])
        if kind == "string":
            return random.choice(["", "a", "é" * random.randint(1, 90)])
        if kind in ("bytes", "fixed"):
            return random.randbytes(schema["size"] if kind == "fixed" else random.choice([0, 3, 200]))
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(random.choice([0, 1, 3, 70]))]
        if kind == "map":
            return {str(index): self.value(schema["values"]) for index in range(random.choice([0, 2]))}
        if kind == "enum":
            return random.choice(schema["symbols"])
        return {"boolean": random.random() < 0.5, "null": None}.get(kind, random.randint(-100, 100) / 4)

    def spoiled(self, data: bytes) -> bytes:
        """Bytes with some of them changed, cut off somewhere."""
        changed = bytearray(data)
        for _ in range(2):
            if changed:
                changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed[: self.random.randrange(len(changed) + 1)])


def encoded(schema: Any, value: Any) -> bytes:
    output = BytesIO()
    schemaless_writer(output, parse_schema(json.loads(json.dumps(schema))), value)
    return output.getvalue()


def in_arrow(schema: Any, value: Any) -> Any:
    """What pyarrow gives for a value, where Spark's type of it is the column's."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if value is None or not others:
            return None
        if len(others) == 1:
            return in_arrow(others[0], value)
        kinds = [_PYTHON[each] if isinstance(each, str) else dict for each in others]
        return {f"member{index}": in_arrow(others[index], value) if type(value) is kind else None for index, kind in enumerate(kinds)}
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {field["name"]: in_arrow(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [in_arrow(schema["items"], each) for each in value]
    if kind == "map":
        return [(key, in_arrow(schema["values"], each)) for key, each in value.items()]
    if kind == "int" and isinstance(schema, dict):
        return date(1970, 1, 1) + timedelta(value)
    return value
