"""`odradek pipeline`: Spark projects that write topics to tables. `init` writes a project, `run` runs it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from odradek.base.errors import ConfigError
from odradek.cli.shared import profiles
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, connection_options, run
from odradek.spark.recipes import project as recipes


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Write topics to tables with Spark.

    `init` writes a small Spark project, which you can then edit. `run` runs the project.
    """


@command.command()
@click.argument("name")
@click.option("-t", "--from", "topic", metavar="TOPIC", help="Topic to read; NAME by default.")
@click.option(
    "--to",
    type=click.Choice(recipes.TARGETS),
    default="parquet",
    show_default=True,
    help="Format of the tables, or topic to write to another topic.",
)
@click.option("--into", default="", metavar="NAME", help="Table or topic to write; NAME by default.")
@click.option(
    "--kind",
    type=click.Choice(recipes.KINDS),
    default=None,
    help="declarative is for spark-pipelines, job for spark-submit; declarative by default if the format supports it.",
)
@click.option("--decode", type=click.Choice(recipes.DECODERS), default=None, help="Format of the values; by default they stay bytes.")
@click.option("--schema", metavar="COLUMNS", help="Columns of the values in Spark's notation: 'id BIGINT, name STRING'.")
@connection_options
def init(
    name: str,
    topic: str | None,
    to: str,
    into: str,
    kind: str | None,
    decode: str | None,
    schema: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Write a project into the new folder NAME."""
    recipe = recipes.Recipe(
        name=name,
        topic=name if topic is None else topic,
        to=to,
        into=into,
        kind=kind or "",
        decode=decode,
        schema=schema,
        connection=_connection(bootstrap, settings),
    )
    folder = Path(name)
    files = recipes.files(recipe, folder.resolve().as_uri())
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{name} already exists; nothing was written")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        # Client settings may contain passwords.
        mode = 0o600 if path == recipes.SPARK_CONF and len(recipe.connection) > 1 else 0o666
        with os.fdopen(os.open(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    for path in files:
        click.echo(f"Wrote {folder / path}.")
    click.echo(f"`odradek pipeline run {name}` copies topic {recipe.topic} into {_target(recipe)}.")


@command.command("run")
@click.argument("project", type=click.Path(path_type=Path), default=".")
@click.option(
    "--full-refresh",
    multiple=True,
    metavar="TABLE[,...]",
    help="Declarative pipelines: clear these tables and read again from the beginning; may be repeated.",
)
@click.option("--full-refresh-all", is_flag=True, help="Declarative pipelines: clear all tables and read again from the beginning.")
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    envvar="ODRADEK_BOOTSTRAP_SERVER",
    show_envvar=True,
    metavar="HOST:PORT[,...]",
    help="Brokers to connect to first; overrides the project's spark.conf.",
)
@click.option(
    "--jars",
    envvar="ODRADEK_PIPELINE_JARS",
    show_envvar=True,
    metavar="FOLDER|FILE[,...]",
    help="Load the table format from these jars instead of Maven's repositories.",
)
@click.argument("more", nargs=-1, metavar="[-- ARGUMENTS OF SPARK...]")
def run_(
    project: Path, full_refresh: tuple[str, ...], full_refresh_all: bool, bootstrap: str | None, jars: str | None, more: tuple[str, ...]
) -> int:
    """Run the project in a folder.

    PROJECT is the current folder by default. Runs spark-pipelines or spark-submit with the project's spark.conf, this Python and the
    packages of the table format. The exit status is that of Spark's script. Arguments after `--` are passed to that script.
    """
    from odradek.cli.pipelines.pipeline_run import RunOptions, run_project

    if str(project).startswith("-"):  # the project is left out: this is the first argument after `--`
        project, more = Path(), (str(project), *more)
    refresh = [word for each in full_refresh for word in ("--full-refresh", each)] + ["--full-refresh-all"] * full_refresh_all
    return run_project(project, RunOptions(bootstrap, jars, tuple(refresh), more))


def _connection(bootstrap: str, settings: tuple[str, ...]) -> dict[str, str]:
    chosen = {"bootstrap.servers": bootstrap}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"-X {setting}: expected KEY=VALUE")
        chosen[key.strip()] = value
    profiles.check(chosen)
    return chosen


def _target(recipe: recipes.Recipe) -> str:
    kind = f"the {'topic' if recipe.to == 'topic' else 'table'} {recipe.target}"
    return f"{kind}, and records that cannot be decoded into {recipe.dead_letters}" if recipe.decode else kind


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek pipeline", arguments)
