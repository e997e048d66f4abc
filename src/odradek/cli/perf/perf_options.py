"""Shared parts of `odradek perf produce|consume|latency`: options, client configurations, metrics, and forms of the results."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from odradek.cli.shared.client_command import client_settings
from odradek.client.admin.blocking import Admin
from odradek.client.metrics import MetricName
from odradek.client.settings.config import settings_of_admin

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek perf"
Form: TypeAlias = Literal["table", "json", "kafka"]
KAFKA: Final[Form] = "kafka"
_PATIENT: Final = {"request_timeout_ms": "30000", "default_api_timeout_ms": "60000"}
"""Kafka's default timeouts. A broker under load responds late, and the test is to measure such responses."""

INTERVAL_MS: Final = 5000
reporting_interval_option = click.option(
    "--reporting-interval",
    "interval",
    type=click.IntRange(1),
    metavar="MS",
    help=f"Interval of progress reports, {INTERVAL_MS} by default. They are printed on standard error, if it is a terminal or MS is given.",
)
print_metrics_option = click.option("--print-metrics", is_flag=True, help="Also print the client's metrics.")


def form_option(function: F) -> F:
    """Add `-o table|json|kafka`, and `-J` for `-o json`, to a command, as the parameter `form`."""
    chosen = click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["table", "json", KAFKA]),
        default="table",
        show_default=True,
        help="A table, JSON for programs, or the output of Kafka's script.",
    )
    json_flag = click.option("-J", "--json", "form", flag_value="json", help="The same as -o json.")
    return chosen(json_flag(function))


def measured_settings(context: click.Context, bootstrap: str, settings: tuple[str, ...], **defaults: str) -> dict[str, str]:
    """Return the client configuration of a test. As in Kafka, -b on the command line overrides bootstrap.servers in the settings."""
    chosen = client_settings(bootstrap, settings, **{**_PATIENT, **defaults})
    if context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        chosen["bootstrap.servers"] = bootstrap
    return chosen


def short_timeout_admin(chosen: Mapping[str, str]) -> Admin:
    """Return an Admin with these settings and short timeouts: the user waits for the test to begin."""
    impatient = client_settings(chosen["bootstrap.servers"], ())
    timeouts = {name: impatient[name] for name in ("request.timeout.ms", "default.api.timeout.ms")}
    return Admin(settings_of_admin(chosen) | timeouts)


def progress_wanted(form: Form, interval: int | None) -> bool:
    """Return whether windows are printed on standard error."""
    return form != KAFKA and (interval is not None or sys.stderr.isatty())


def metric_lines(metrics: Mapping[MetricName, float]) -> list[str]:
    """Return metrics as lines in the format of Kafka's scripts."""
    named = {metric_name(each): value for each, value in metrics.items()}
    width = max(map(len, named), default=0)
    return [f"\n{'Metric Name':<{width}}   Value", *(f"{name:<{width}} : {_java_number(named[name])}" for name in sorted(named))]


def _java_number(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.3f}"
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def metric_values(metrics: Mapping[MetricName, float]) -> dict[str, float | None]:
    """Return metrics for JSON, None for a metric without a finite value."""
    return {metric_name(each): value if math.isfinite(value) else None for each, value in metrics.items()}


def metric_name(metric: MetricName) -> str:
    """Return the metric's name as `group:name:{tag=value}`, the notation of Kafka's scripts."""
    return f"{metric.group}:{metric.name}:{{{', '.join(f'{tag}={value}' for tag, value in metric.tags)}}}"
