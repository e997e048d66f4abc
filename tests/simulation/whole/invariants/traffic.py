"""Nobody asks without pause: while nothing happens no node sends another more than a hundred requests a second, and the requests of the
quorum are not more than that whatever else goes on, but for a few with each record that is committed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from odradek.protocol.api_keys import ApiKey
from odradek.testing.simulation.cluster import CONTROLLER_PORT
from odradek.testing.simulation.wiretap import TappedRequest

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

MOST_A_SECOND: Final = 100
_OF_THE_QUORUM: Final = frozenset({ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})
_FOR_A_COMMIT: Final = 4
"""Requests of one node for a record: to fetch it, and to hear that it is committed."""
_SETTLE_S = 3.0


class TrafficPromises:
    """Counts requests between nodes in windows of a second."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._second = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._raft: dict[tuple[str, str], int] = {}
        self._committed = 0
        self._idle = False
        story.tap.on_request.append(self._asked)

    def _asked(self, request: TappedRequest) -> None:
        second = int(self._story.loop.time())
        if second != self._second:
            self._judge()
            self._second = second
            self._counts.clear()
            self._raft.clear()
            self._committed = self._story.raft.committed_offset
        if not request.source.startswith("node-"):
            return
        way = (request.source, request.target)
        self._counts[way] = self._counts.get(way, 0) + 1
        if request.api_key in _OF_THE_QUORUM and request.target_port == CONTROLLER_PORT:
            self._raft[way] = self._raft.get(way, 0) + 1

    def _judge(self) -> None:
        grown = self._story.raft.committed_offset - self._committed
        for (source, target), count in self._raft.items():
            if count > MOST_A_SECOND + _FOR_A_COMMIT * grown:
                self._problem(f"{source} sent {target} {count} requests of the quorum in second {self._second} ({grown} records committed)")
        if self._idle:
            for (source, target), count in self._counts.items():
                if count > MOST_A_SECOND:
                    self._problem(f"{source} sent {target} {count} requests in second {self._second}, in which nothing happened")

    def _problem(self, text: str) -> None:
        self._story.problem("traffic", text)

    async def watch_idle(self, virtual_s: float) -> None:
        """For so many virtual seconds, in which no client asks for anything."""
        await asyncio.sleep(_SETTLE_S)
        self._idle = True
        await asyncio.sleep(virtual_s)
        self._idle = False
