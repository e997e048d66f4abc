"""What `odradek perf produce|consume|latency` share: options, metrics, and the forms in which results are shown."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from odradek.cli.client_command import client_settings
from odradek.client.admin.blocking import Admin
from odradek.client.config import ADMIN_CONFIG
from odradek.client.metrics import MetricName

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek perf"
Form: TypeAlias = Literal["table", "json", "kafka"]
KAFKA: Final[Form] = "kafka"
_PATIENT: Final = {"request_timeout_ms": "30000", "default_api_timeout_ms": "60000"}
"""Kafka's own: a broker under load answers late, and that is what is measured."""

INTERVAL_MS: Final = 5000
reporting_interval_option = click.option(
    "--reporting-interval",
    "interval",
    type=click.IntRange(1),
    metavar="MS",
    help=f"How often to say how it goes, {INTERVAL_MS} when left out: on standard error where that is a terminal, or when this is given.",
)
print_metrics_option = click.option("--print-metrics", is_flag=True, help="Show the client's metrics as well.")


def form_option(function: F) -> F:
    """`-o table|json|kafka` and `-J` as the parameter `form`."""
    chosen = click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["table", "json", KAFKA]),
        default="table",
        show_default=True,
        help="Table, JSON for programs, or the lines that Kafka's script prints.",
    )
    shortly = click.option("-J", "--json", "form", flag_value="json", help="The same as -o json.")
    return chosen(shortly(function))


def measured_settings(context: click.Context, bootstrap: str, settings: tuple[str, ...], **defaults: str) -> dict[str, str]:
    """The client configuration of a test. A broker that is named on the command line goes before one among the settings, as in Kafka."""
    chosen = client_settings(bootstrap, settings, **{**_PATIENT, **defaults})
    if context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        chosen["bootstrap.servers"] = bootstrap
    return chosen


def hasty_admin(chosen: Mapping[str, str]) -> Admin:
    """An Admin with the same settings which gives up soon: somebody waits for a test to begin."""
    impatient = client_settings(chosen["bootstrap.servers"], ())
    timeouts = {name: impatient[name] for name in ("request.timeout.ms", "default.api.timeout.ms")}
    return Admin({name: value for name, value in chosen.items() if name in ADMIN_CONFIG} | timeouts)


def progress_wanted(form: Form, interval: int | None) -> bool:
    """Whether windows are told on standard error."""
    return form != KAFKA and (interval is not None or sys.stderr.isatty())


def metric_lines(metrics: Mapping[MetricName, float]) -> list[str]:
    """Metrics as Kafka's scripts print them."""
    named = {metric_name(each): value for each, value in metrics.items()}
    width = max(map(len, named), default=0)
    return [f"\n{'Metric Name':<{width}}   Value", *(f"{name:<{width}} : {_java_number(named[name])}" for name in sorted(named))]


def _java_number(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.3f}"
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def metric_values(metrics: Mapping[MetricName, float]) -> dict[str, float | None]:
    """Metrics for JSON: None for what has no value yet."""
    return {metric_name(each): value if math.isfinite(value) else None for each, value in metrics.items()}


def metric_name(metric: MetricName) -> str:
    """group:name:{tag=value}, as Kafka's scripts write it."""
    return f"{metric.group}:{metric.name}:{{{', '.join(f'{tag}={value}' for tag, value in metric.tags)}}}"
