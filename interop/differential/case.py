"""What a comparison is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interop.differential.peer import PATIENCE_SECONDS, QUIET_SECONDS, Peer
from odradek.protocol.api_keys import ApiKey

Build = Callable[[Peer], Any]
"""Builds the request for one peer (whose topic ids are its own): a message, or the bytes of a body."""


class Case:
    """One request in one version, sent to both brokers. `after` sees each peer's decoded answer, `view` turns it into what is compared;
    `patience` is in seconds. `unencodable`: this version cannot carry the request, and our encoder has to say so. `through_broker`: a case
    of the controller listener that is sent to the broker of the same node.
    """

    def __init__(
        self,
        api_key: ApiKey,
        version: int,
        name: str,
        build: Build,
        *,
        after: Callable[[Peer, Any], None] | None = None,
        before: Callable[[Peer], None] | None = None,
        view: Callable[[Any], Any] | None = None,
        expect_silence: bool = False,
        unencodable: bool = False,
        through_broker: bool = False,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.label = f"{api_key.name} v{version} {name}"
        self.build = build
        self.after = after
        self.before = before
        self.view = view
        self.unencodable = unencodable
        self.through_broker = through_broker
        self.patience = QUIET_SECONDS if expect_silence else patience
