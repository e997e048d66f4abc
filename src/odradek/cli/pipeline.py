"""`odradek pipeline`: projects that bring topics into tables with Spark. `init` writes a project, `run` starts it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from odradek.base.errors import ConfigError
from odradek.cli import profiles
from odradek.cli.client_command import CONTEXT_SETTINGS, connection_options, run
from odradek.spark.recipes import project as recipes


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Bring topics into tables with Spark.

    `init` writes a small project of plain Spark, which is yours from then on; `run` starts it.
    """


@command.command()
@click.argument("name")
@click.option("-t", "--from", "topic", metavar="TOPIC", help="The topic to read; NAME when left out.")
@click.option(
    "--to", type=click.Choice(recipes.TARGETS), default="parquet", show_default=True, help="The tables' format, or another topic."
)
@click.option("--into", default="", metavar="NAME", help="The table, or the topic, to write; NAME when left out.")
@click.option(
    "--kind",
    type=click.Choice(recipes.KINDS),
    default=None,
    help="For spark-pipelines or for spark-submit; declarative where the format allows it.",
)
@click.option("--decode", type=click.Choice(recipes.DECODERS), default=None, help="What values are; bytes when left out.")
@click.option("--schema", metavar="COLUMNS", help="The fields of values as Spark has them: 'id BIGINT, name STRING'.")
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
        raise ConfigError(f"{name} exists already; nothing was written")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        # Client settings may contain passwords.
        mode = 0o600 if path == recipes.SPARK_CONF and len(recipe.connection) > 1 else 0o666
        with os.fdopen(os.open(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    for path in files:
        click.echo(f"Wrote {folder / path}.")
    click.echo(f"`odradek pipeline run {name}` brings what is in topic {recipe.topic} into {_where(recipe)}.")


@command.command("run")
@click.argument("project", type=click.Path(path_type=Path), default=".")
@click.option(
    "--full-refresh", multiple=True, metavar="TABLE[,...]", help="Declarative: read these anew from the beginning; may be repeated."
)
@click.option("--full-refresh-all", is_flag=True, help="Declarative: read everything anew from the beginning.")
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    envvar="ODRADEK_BOOTSTRAP_SERVER",
    show_envvar=True,
    metavar="HOST:PORT[,...]",
    help="Brokers to ask first, instead of those of the project's spark.conf.",
)
@click.option(
    "--jars",
    envvar="ODRADEK_PIPELINE_JARS",
    show_envvar=True,
    metavar="FOLDER|FILE[,...]",
    help="Take the table format from these jars instead of from Maven's repositories.",
)
@click.argument("more", nargs=-1, metavar="[-- ARGUMENTS OF SPARK...]")
def run_(
    project: Path, full_refresh: tuple[str, ...], full_refresh_all: bool, bootstrap: str | None, jars: str | None, more: tuple[str, ...]
) -> int:
    """Run the project in a folder.

    That is the current one when left out. Starts spark-pipelines or spark-submit with the project's spark.conf, this Python and the
    packages of the table format, waits for the end, and ends as it ended. What follows `--` is handed on.
    """
    from odradek.cli.pipeline_run import Wishes, run_project

    if str(project).startswith("-"):  # the project is left out: this is the first argument after `--`
        project, more = Path(), (str(project), *more)
    refresh = [word for each in full_refresh for word in ("--full-refresh", each)] + ["--full-refresh-all"] * full_refresh_all
    return run_project(project, Wishes(bootstrap, jars, tuple(refresh), more))


def _connection(bootstrap: str, settings: tuple[str, ...]) -> dict[str, str]:
    chosen = {"bootstrap.servers": bootstrap}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"-X {setting}: this must be key=value")
        chosen[key.strip()] = value
    profiles.check(chosen)
    return chosen


def _where(recipe: recipes.Recipe) -> str:
    kind = f"the {'topic' if recipe.to == 'topic' else 'table'} {recipe.target}"
    return f"{kind}, what cannot be read into {recipe.dead_letters}" if recipe.decode else kind


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek pipeline", arguments)
