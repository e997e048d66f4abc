"""The controller as one object, for the shell that runs it on the metadata log (org.apache.kafka.controller.QuorumController).

    context = core.begin(now_s=clock.monotonic(), next_offset=log_end_offset, kraft_version=quorum_kraft_version)
    result = create_topics(context, request, version)
    for index, (record, version) in enumerate(result.records): core.replay(record, log_end_offset + index)

Operations are functions of the other modules. Operations decide, and change only heartbeat times. `replay` changes the state; the journal
can undo each change.
"""

from __future__ import annotations

import random

from odradek.base.undo import UndoJournal
from odradek.config.broker import BrokerConfig
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.policies import Policies
from odradek.controller.core.state import ControllerState


class QuorumControllerCore:
    """State of the controller, and the context through which operations read it."""

    def __init__(
        self, config: BrokerConfig, cluster_id: str, rng: random.Random, journal: UndoJournal, policies: Policies | None = None
    ) -> None:
        self.state = ControllerState(journal)
        self.context = ControllerContext(self.state, config, cluster_id, rng, policies)

    def begin(self, *, now_s: float, next_offset: int, kraft_version: int) -> ControllerContext:
        """Return the context of the next operation.

        `now_s` is in monotonic seconds, `next_offset` is the offset of the operation's first record, `kraft_version` is the quorum's.
        """
        context = self.context
        context.now_s, context.next_offset, context.kraft_version = now_s, next_offset, kraft_version
        return context

    def replay(self, record: object, offset: int) -> None:
        """Apply a record at its offset. Raises ValueError for a record that contradicts the state."""
        self.state.replay(record, offset)

    def activate(self, now_s: float) -> None:
        """Begin a term as active controller. Each broker that is not fenced counts as having sent a heartbeat now."""
        heartbeats = self.context.heartbeats
        heartbeats.clear()
        for broker_id, broker in self.state.brokers.items():
            if broker.fenced:
                heartbeats.register(broker_id, fenced=True)
            else:
                heartbeats.touch(broker_id, fenced=False, metadata_offset=-1, now_s=now_s)
