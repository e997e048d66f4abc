"""Files of a project that copies a topic into a table or another topic, as text from a recipe.

A declarative project is for Spark Declarative Pipelines (`spark-pipelines`), a job is a script for `spark-submit`. Both are plain Spark
with the source `odradek`, and belong to the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.base.errors import ConfigError
from odradek.spark.recipes import blocks
from odradek.spark.recipes.lakes import LAKES

SPARK_CONF: Final = "spark.conf"
SPEC: Final = "spark-pipeline.yml"
JOB: Final = "job.py"
TARGETS: Final = ("parquet", "delta", "iceberg", "topic")
KINDS: Final = ("declarative", "job")
DECODERS: Final = ("json",)
CONNECTION: Final = "spark.odradek."
"""Prefix, in a project's spark.conf, of the source's options for the connection to the brokers."""

_ONLY_JOBS: Final = {
    "delta": "a pipeline with a table of Delta Lake 4.4 runs once and fails at its second run (DELTA_CANNOT_CHANGE_PROVIDER)",
    "iceberg": "Iceberg has no release for a Spark version that reads topics in pipelines",
}
_PROJECT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_TABLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,127}", re.ASCII)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True)
class Recipe:
    """Source, target and form of a project."""

    name: str
    topic: str
    to: str = "parquet"
    into: str = ""
    """Table or topic to write; empty for the name of the project."""
    kind: str = ""
    """Kind of project; empty for declarative where that is possible."""
    decode: str | None = None
    schema: str | None = None
    connection: Mapping[str, str] = field(default_factory=lambda: {"bootstrap.servers": "localhost:9092"})
    """Keys of the client under Kafka's names."""

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", "job" if self.to in _ONLY_JOBS else "declarative")

    @property
    def target(self) -> str:
        """Table or topic that is written."""
        return self.into or (self.name if self.to == "topic" else self.name.replace("-", "_").lower())

    @property
    def dead_letters(self) -> str:
        """Table or topic for records that cannot be read."""
        return f"{self.target}.dead-letters" if self.to == "topic" else f"{self.target}_dead_letters"


def check(recipe: Recipe) -> None:
    """Raise ConfigError, which names the option, for an invalid recipe."""
    if not _PROJECT.fullmatch(recipe.name):
        raise ConfigError(
            f"{recipe.name!r} cannot be the name of a project: a name begins with a letter and has 1 to 64 of a-z, A-Z, 0-9, '_' and '-'"
        )
    if not _TOPIC.fullmatch(recipe.topic) or recipe.topic in (".", ".."):
        raise ConfigError(f"--from {recipe.topic}: a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'")
    if recipe.to == "topic":
        if not _TOPIC.fullmatch(recipe.target):
            raise ConfigError(f"--into {recipe.target}: a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'")
        if recipe.target == recipe.topic:
            raise ConfigError(f"--into {recipe.target}: this is the source topic; name another one with --into NAME")
    elif not _TABLE.fullmatch(recipe.target):
        raise ConfigError(f"--into {recipe.target}: a table's name has 1 to 128 of a-z, 0-9 and '_', and no digit in front")
    if recipe.to in _ONLY_JOBS and recipe.kind == "declarative":
        raise ConfigError(f"--kind declarative: {_ONLY_JOBS[recipe.to]}; use --kind job")
    if recipe.decode is not None and not (recipe.schema or "").strip():
        raise ConfigError(f"--decode {recipe.decode} needs --schema with the columns in Spark's form: --schema 'id BIGINT, name STRING'")
    if recipe.decode is None and recipe.schema is not None:
        raise ConfigError("--schema has no effect without --decode")
    for key, value in recipe.connection.items():
        if value != value.strip() or len(value.splitlines()) > 1:
            raise ConfigError(f"-X {key}: {SPARK_CONF} cannot contain a value with spaces around it, or with several lines")


def files(recipe: Recipe, folder_uri: str) -> dict[str, str]:
    """Return the text of each file by its path in the project.

    `folder_uri` is the project's folder, as Spark needs an absolute storage URI.
    """
    check(recipe)
    written = {SPARK_CONF: _spark_conf(recipe), ".gitignore": blocks.GITIGNORE}
    if recipe.kind == "declarative":
        written[SPEC] = blocks.SPEC.format(name=recipe.name, storage=f"{folder_uri}/storage")
        written[f"transformations/{_module(recipe)}.py"] = _filled(recipe, *_declarative(recipe))
    else:
        written[JOB] = _filled(recipe, *_job(recipe))
    return written


def _declarative(recipe: Recipe) -> list[str]:
    parts = [blocks.DECLARATIVE_HEAD, blocks.ACTIVE_SESSION, blocks.settings(recipe.decode), blocks.RECORDS, blocks.decoding(recipe.decode)]
    if recipe.to == "topic":
        parts += [blocks.messages(recipe.decode), blocks.SINK]
        return [*parts, blocks.SINK_DEAD_LETTERS] if recipe.decode else parts
    return [*parts, blocks.TABLE, blocks.TABLE_DEAD_LETTERS] if recipe.decode else [*parts, blocks.TABLE]


def _job(recipe: Recipe) -> list[str]:
    head = [blocks.NEW_SESSION, blocks.settings(recipe.decode)]
    if recipe.to == "iceberg":
        return [blocks.BATCH_HEAD, *head, blocks.decoding(recipe.decode), blocks.LAND_BATCHES, blocks.main_of_batches(recipe.decode)]
    write = [blocks.messages(recipe.decode), blocks.WRITE_TOPIC] if recipe.to == "topic" else [blocks.WRITE_TABLE]
    main = blocks.main_of_streams(recipe.decode, recipe.to)
    return [blocks.JOB_HEAD, *head, blocks.RECORDS, blocks.decoding(recipe.decode), *write, main]


def _filled(recipe: Recipe, *parts: str) -> str:
    """Return the parts as one module, with the recipe's names filled in."""
    names = {
        "@name@": recipe.name,
        "@topic@": recipe.topic,
        "@target@": recipe.target,
        "@dead@": recipe.dead_letters,
        "@function@": _module(recipe),
        "@format@": recipe.to,
        "@merge@": '.option("mergeSchema", True)' if recipe.to == "delta" else "",
        "@schema@": _quoted(" ".join((recipe.schema or "").split())),
    }
    text = "".join(parts)
    for mark, value in names.items():
        text = text.replace(mark, value)
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip("\n") + "\n"


def _quoted(text: str) -> str:
    """Return a Python literal with the quotation marks that formatters want."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(value: str) -> str:
    """Return a value escaped for Java's properties."""
    return value.replace("\\", "\\\\")


def _module(recipe: Recipe) -> str:
    return re.sub(r"\W", "_", recipe.target.lower())


def _spark_conf(recipe: Recipe) -> str:
    lines = [blocks.CONF_HEAD]
    lines += [f"{CONNECTION}kafka.{key} {_escaped(value)}" for key, value in recipe.connection.items()]
    if recipe.kind == "declarative" and recipe.to != "topic":
        lines += [blocks.CONF_CATALOG]
    if lake := LAKES.get(recipe.to):
        lines += [blocks.CONF_LAKE.format(title=lake.title), *(f"{key} {value}" for key, value in lake.settings)]
    return "\n".join(lines) + "\n"
