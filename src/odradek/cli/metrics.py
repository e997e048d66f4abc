"""`odradek metrics`: metrics and health of a node, from its metrics listener."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Final

import click

from odradek.base.errors import OdradekError
from odradek.cli.client_command import CONTEXT_SETTINGS, run

NAME: Final = "odradek metrics"
_PORT: Final = 9404
_TIMEOUT_S: Final = 30.0
_PIECE: Final = 1 << 16


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option("-b", "--address", metavar="HOST:PORT", help=f"The metrics listener of a node; 127.0.0.1:{_PORT} when left out.")
@click.option("--url", metavar="URL", help="The same as http://HOST:PORT, for what stands behind a proxy.")
@click.option("-J", "--json", "as_json", is_flag=True, help="MBeans as JSON, with rates, instead of Prometheus text.")
@click.option("--health", type=click.Choice(["live", "ready"]), help="Ask whether the node is; exit status 1 when it is not.")
def command(address: str | None, url: str | None, as_json: bool, health: str | None) -> int:
    """Print the metrics of a node.

    The node has to have odradek.metrics.listener set.
    """
    if address and url:
        raise click.UsageError("--address and --url name the same thing; give one of them")
    if as_json and health:
        raise click.UsageError("--json is for metrics, not for --health")
    base = (url or f"http://{address or f'127.0.0.1:{_PORT}'}").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {base} does not begin with http:// or https://")
    path = f"/health/{health}" if health else "/mbeans" if as_json else "/metrics"
    return _print(base, path)


def _print(base: str, path: str) -> int:
    """Copy the response to standard output and return the exit status, 1 for a node that is not healthy.

    Raises OdradekError for any other error status and when the node cannot be reached.
    """
    healthy = True
    for piece in _answer(base, path):
        if piece is None:
            healthy = False
        else:
            # Outside of the handlers of `_answer`: a standard output that fails is no failure of the node.
            click.echo(piece, nl=False)
    return 0 if healthy else 1


def _answer(base: str, path: str) -> Iterator[bytes | None]:
    """Yield the pieces of the response, and first None for a node that is not healthy.

    Raises OdradekError for any other error status, for a peer that does not speak HTTP, and when the node cannot be reached.
    """
    try:
        try:
            response = urllib.request.urlopen(base + path, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            if not path.startswith("/health/") or error.code != 503:
                raise OdradekError(f"{base}{path} answers {error.code} {error.reason}; is it the metrics listener of a node?") from None
            yield None
            response = error
        with response:
            while piece := response.read(_PIECE):
                yield piece
            if response.length:  # The bytes that are owed still: `read` with a size does not complain.
                raise http.client.IncompleteRead(b"", response.length)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(error, (http.client.BadStatusLine, http.client.LineTooLong)) and not isinstance(error, OSError):
            reason = "what answers there is not HTTP"  # The exception's text is whatever the peer sent.
        elif isinstance(error, http.client.IncompleteRead):
            reason = "its answer ends in the middle"
        raise OdradekError(
            f"{base} cannot be asked: {getattr(reason, 'strerror', None) or reason}; is odradek.metrics.listener set?"
        ) from None


def main(arguments: list[str]) -> int:
    return run(command, NAME, arguments)
