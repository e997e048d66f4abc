"""Projects of `odradek pipeline init` as text, and the table of packages. What they do in Spark is in tests/interop/test_lakes.py."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from interop.peers import REPOSITORY
from odradek.base.errors import ConfigError, OdradekError
from odradek.config.properties import parse_properties
from odradek.spark.recipes.lakes import DELTA, ICEBERG, LAKES, lakes_of, package_for
from odradek.spark.recipes.project import KINDS, TARGETS, Recipe, files

JSON = {"decode": "json", "schema": "id BIGINT"}


def all_recipes() -> Iterator[Recipe]:
    for to, kind, decoding in itertools.product(TARGETS, KINDS, ({}, JSON)):
        if not (kind == "declarative" and to in LAKES):
            yield Recipe(name=f"a-{to}-{kind}-{len(decoding)}", topic="orders.new", to=to, kind=kind, **decoding)


def test_every_project_is_clean_python(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((REPOSITORY / "pyproject.toml").read_text())
    for recipe in all_recipes():
        for path, text in files(recipe, "file:///somewhere").items():
            assert "@" not in text.replace("@dp.", ""), "a mark is left"
            if path.endswith(".py"):
                compile(text, path, "exec")
                (tmp_path / f"{recipe.name}.py").write_text(text)
    assert len(list(tmp_path.glob("*.py"))) == 12
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--no-cache", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_a_kind_is_chosen_by_what_the_format_can_do() -> None:
    assert {to: Recipe("orders", "orders", to).kind for to in TARGETS} == {
        "parquet": "declarative",
        "delta": "job",
        "iceberg": "job",
        "topic": "declarative",
    }


def test_names_of_tables_and_topics() -> None:
    assert Recipe("My-Orders", "t").target == "my_orders"
    assert Recipe("My-Orders", "t").dead_letters == "my_orders_dead_letters"
    assert Recipe("My-Orders", "t", "topic").dead_letters == "My-Orders.dead-letters"
    assert Recipe("orders", "t", into="other").target == "other"
    assert set(files(Recipe("My-Orders", "t"), "file:///x")) == {
        "spark.conf",
        ".gitignore",
        "spark-pipeline.yml",
        "transformations/my_orders.py",
    }


def test_settings_are_read_as_they_were_given() -> None:
    connection = {"bootstrap.servers": "a:1,b:2", "sasl.password": "back\\slash and = spaces", "ssl.ca.location": "C:\\certificates"}
    written = parse_properties(files(Recipe("orders", "t", "delta", connection=connection), "file:///x")["spark.conf"])
    assert {key: value for key, value in written.items() if key.startswith("spark.odradek.")} == {
        f"spark.odradek.kafka.{key}": value for key, value in connection.items()
    }
    assert lakes_of(written) == [DELTA]


def test_the_specification_names_an_absolute_storage() -> None:
    specification = yaml.safe_load(files(Recipe("orders", "t"), "file:///home/me/orders")["spark-pipeline.yml"])
    assert specification == {
        "name": "orders",
        "storage": "file:///home/me/orders/storage",
        "libraries": [{"glob": {"include": "transformations/**"}}],
    }


def test_a_schema_is_a_literal_whatever_it_has() -> None:
    text = files(Recipe("orders", "t", decode="json", schema='id BIGINT COMMENT "a \\"number\\"",\n  `x` INT'), "file:///x")
    names: dict[str, str] = {}
    (line,) = re.findall(r"^SCHEMA = .*$", text["transformations/orders.py"], re.MULTILINE)
    exec(line, names)
    assert names["SCHEMA"] == 'id BIGINT COMMENT "a \\"number\\"", `x` INT'


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        (Recipe("../orders", "t"), "cannot be the name of a project"),
        (Recipe("orders", ".."), "--from"),
        (Recipe("orders", "t", into="Großes"), "--into"),
        (Recipe("orders", "orders", "topic"), "--into orders: this is the source topic"),
        (Recipe("orders", "t", "delta", kind="declarative"), "DELTA_CANNOT_CHANGE_PROVIDER"),
        (Recipe("orders", "t", "iceberg", kind="declarative"), "--kind declarative: Iceberg"),
        (Recipe("orders", "t", decode="json"), "needs --schema"),
        (Recipe("orders", "t", schema="id INT"), "without --decode"),
        (Recipe("orders", "t", connection={"bootstrap.servers": "a:1", "ssl.key": "a\nspark.master b"}), "-X ssl.key"),
        (Recipe("orders", "t", connection={"bootstrap.servers": "a:1", "sasl.password": " sesame"}), "-X sasl.password"),
    ],
    ids=lambda each: "",
)
def test_recipes_that_give_no_project(recipe: Recipe, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        files(recipe, "file:///x")


def test_which_package_runs_where() -> None:
    assert package_for(DELTA, "4.2.1") == "io.delta:delta-spark_4.2_2.13:4.4.0"
    assert package_for(ICEBERG, "4.0.0") == "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
    assert package_for(ICEBERG, "4.1.4") == "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    with pytest.raises(OdradekError, match=re.escape("Delta Lake runs on Spark 4.2, but this is 4.3.0; ")):
        package_for(DELTA, "4.3.0")
    with pytest.raises(
        OdradekError, match=re.escape("Iceberg runs on Spark 4.0 and 4.1, but this is 4.10.0; ") + r".*pipelines\]==4\.1\.\*"
    ):
        package_for(ICEBERG, "4.10.0")


def test_the_tests_jars_and_the_page_are_those_of_the_table() -> None:
    page = (REPOSITORY / "docs" / "lake-tables.md").read_text()
    fetched = set(
        re.findall(r"<artifactId>(.*?)</artifactId>\s*<version>(.*?)</version>", (REPOSITORY / "interop/lake/pom.xml").read_text())
    )
    for lake, spark in ((DELTA, (4, 2)), (ICEBERG, (4, 0))):
        group, artifact, version = lake.packages[spark].split(":")
        assert (artifact, version) in fetched
        assert f"{group}:{artifact}:{version}" in page
    assert "…-4.1_2.13:1.12.0" in page
