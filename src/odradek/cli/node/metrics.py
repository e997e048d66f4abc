"""`odradek metrics`: metrics and health of a node, from its metrics listener."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from odradek.base.addresses import without_password
from odradek.base.errors import OdradekError
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run

NAME: Final = "odradek metrics"
_PORT: Final = 9404
_TIMEOUT_S: Final = 30.0


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option("-b", "--address", metavar="HOST:PORT", help=f"The metrics listener of a node; 127.0.0.1:{_PORT} by default.")
@click.option("--url", metavar="URL", help="The full URL of the metrics listener, if the node is behind a proxy.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print MBeans and rates as JSON instead of Prometheus text.")
@click.option("--health", type=click.Choice(["live", "ready"]), help="Check whether the node is live or ready; exit status 1 if not.")
def command(address: str | None, url: str | None, as_json: bool, health: str | None) -> int:
    """Print the metrics or the health of a node.

    odradek.metrics.listener must be set on the node.
    """
    if address and url:
        raise click.UsageError("--address cannot be used with --url")
    if as_json and health:
        raise click.UsageError("--json cannot be used with --health")
    base = (url or f"http://{address or f'127.0.0.1:{_PORT}'}").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {without_password(base)} does not begin with http:// or https://")
    path = f"/health/{health}" if health else "/mbeans" if as_json else "/metrics"
    return _print(base, path)


def _print(base: str, path: str) -> int:
    """Copy the response to standard output and return the exit status, 1 for a node that is not healthy.

    Raises OdradekError for any other error status and when the node cannot be reached.
    """
    healthy = True
    for chunk in _response(base, path):
        if chunk is None:
            healthy = False
        else:
            # Outside of the handlers of `_answer`: a standard output that fails is no failure of the node.
            click.echo(chunk, nl=False)
    return 0 if healthy else 1


def _response(base: str, path: str) -> Iterator[bytes | None]:
    """Yield the chunks of the response, and first None for a node that is not healthy.

    Raises OdradekError for any other error status, for a peer that does not speak HTTP, and when the node cannot be reached.
    """
    from odradek.network.web import CutShort, NotHttp, WebClient

    shown = without_password(base)
    try:
        response = WebClient(proxies=True, redirections=True).stream("GET", base + path, step_s=_TIMEOUT_S)
        if not 200 <= response.status < 300:
            if not path.startswith("/health/") or response.status != 503:
                response.close()
                raise OdradekError(
                    f"{shown}{path} returns status {response.status} {response.reason}; is it the metrics listener of a node?"
                )
            yield None
        yield from response
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, NotHttp):
            reason = "the response is not HTTP"
        elif isinstance(error, CutShort):
            reason = "the response ends early"
        raise OdradekError(f"cannot read {shown}: {reason}; is odradek.metrics.listener set?") from None


def main(arguments: list[str]) -> int:
    return run(command, NAME, arguments)
