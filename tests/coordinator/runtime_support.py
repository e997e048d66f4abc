"""Runtime of coordinators with a table of numbers as its shard."""

from __future__ import annotations

from typing import Any, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.runtime import CoordinatorRuntime
from tests.clock import ManualClock
from tests.coordinator.support import PARTITION, SERDE, MemoryLog, Table


class RuntimeWorld:
    def __init__(self, log: MemoryLog | None = None, **options: Any) -> None:
        self.clock = ManualClock()
        self.log = log or MemoryLog()
        self.shards: list[Table] = []
        self.runtime = CoordinatorRuntime(
            "test",
            clock=self.clock,
            serde=SERDE,
            options=RuntimeOptions(**options),
            open_log=lambda _: self.log,
            new_shard=self._new_shard,
            image=lambda: cast(Any, None),
        )

    def _new_shard(self, *parts: Any) -> Table:
        self.shards.append(Table(*parts))
        return self.shards[-1]

    @property
    def shard(self) -> Table:
        return self.shards[-1]

    def put(self, key: str, value: int | None) -> Deferred[int | None]:
        return self.runtime.write(PARTITION, lambda shard: shard.put(key, value))

    def committed(self, key: str) -> int | None:
        return self.runtime.read(PARTITION, lambda shard: shard.values.committed(key))


def error_of(deferred: Deferred[Any]) -> ErrorCode | None:
    assert deferred.done
    if deferred.error is None:
        return None
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code


def active(log: MemoryLog | None = None, **options: Any) -> RuntimeWorld:
    world = RuntimeWorld(log, **options)
    world.runtime.load(PARTITION, 1)
    world.clock.run_due()
    return world
