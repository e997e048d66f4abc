"""Fetching task: runs the plans of the fetcher and the search for positions in an event loop, and refreshes the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.consumer.positions import PositionFinder
from odradek.client.core.data_requests import (
    FIRST_EPOCH_ENDS,
    LAST_FETCH_BY_NAME,
    FetchSettings,
    epoch_ends,
    epoch_ends_request,
    fetch_request,
    fetched_partitions,
    topic_ids,
)
from odradek.client.core.fetch_session import SESSION_ERRORS, FetchSession
from odradek.client.core.fetcher import READ_COMMITTED, FetchedPartition, Fetcher, FetchPlan
from odradek.client.core.metadata import FOREVER
from odradek.client.core.validation import ValidationPlan
from odradek.client.network.cluster import ClientClosed, Cluster, NoBrokersAvailable, Node, as_kafka_error
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

_CLOSE_S = 1.0
"""Seconds that `close` waits for brokers to close their sessions."""


class FetchLoop:
    """Fetching task from the first `start` until `close`. Belongs to the loop."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        positions: PositionFinder,
        settings: FetchSettings,
        news: Callable[[], None],
        *,
        auto_create: bool,
    ) -> None:
        """`news` is called after data or an error has arrived."""
        self.cluster = cluster
        self.fetcher = fetcher
        self._positions = positions
        self._fetches = False
        self._settings = settings
        self._news = news
        self._auto_create = auto_create
        self._wake = asyncio.Event()
        self._failures = 0
        self._refreshing = False
        self._task: asyncio.Task[None] | None = None
        self._sessions: dict[int, FetchSession] = {}

    def start(self, *, fetch: bool = True) -> None:
        """Begin, unless the task runs already. Without `fetch`, only positions are looked up until a `start` with `fetch`."""
        self._fetches = self._fetches or fetch
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)

    def wake(self) -> None:
        """Let the task look for something to fetch."""
        self._wake.set()

    async def close(self) -> None:
        """Stop fetching, and close the fetch sessions."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(self._close_session(node_id, session) for node_id, session in self._sessions.items()))

    async def _close_session(self, node_id: int, session: FetchSession) -> None:
        asked = session.closing()
        if asked is None or self.cluster.open_node(node_id, "data") is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                # Not on the connection for data, where the request would wait behind a Fetch that the broker has parked.
                node = await self.cluster.node(node_id)
                await self.cluster.call(node, fetch_request(asked, self._settings._replace(max_wait_ms=0), None), FetchResponse)
        except (ConnectionLost, KafkaError, ClientClosed, TimeoutError):
            return  # The broker evicts unused sessions.

    async def _run(self) -> None:
        helpers: dict[asyncio.Task[None], None] = {}
        try:
            while True:
                self._wake.clear()
                wait_ms = self._step(helpers)
                try:
                    async with asyncio.timeout(None if wait_ms >= FOREVER else wait_ms / 1000):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for task in list(helpers):
                task.cancel()

    def _step(self, helpers: dict[asyncio.Task[None], None]) -> int:
        searches, needs_metadata, wake_ms = self._positions.due()
        for search in searches:
            self._keep(helpers, self._search(search))
        if self._fetches:
            plans, plan_needs_metadata, plan_wake_ms = self.fetcher.plan(self.cluster.view, self.cluster.now_ms())
            needs_metadata, wake_ms = needs_metadata or plan_needs_metadata, min(wake_ms, plan_wake_ms)
            for plan in plans:
                self._keep(helpers, self._fetch(plan))
            for validation in self.fetcher.validation.plans(self.cluster.now_ms()):
                self._keep(helpers, self._validate(validation))
        if self.fetcher.has_error:
            self._news()
        due = self.cluster.metadata.due_in_ms(self.cluster.now_ms())
        if (needs_metadata or due == 0) and not self._refreshing:
            self._refreshing = True
            self._keep(helpers, self._refresh())
        return min(wake_ms, due) if due > 0 else wake_ms

    async def _refresh(self) -> None:
        try:
            await self.cluster.refresh(allow_auto_create=self._auto_create)
            self._failures = 0
            # Partitions that are known now can be fetched now; only the next metadata request waits.
            self._wake.set()
        except (ConnectionLost, KafkaError) as error:
            self._failures += 1
            # Brokers that answered once are expected to come back, as in Kafka's consumer. If no broker ever answered, the address may be
            # wrong.
            away = isinstance(error, NoBrokersAvailable) and self.cluster.metadata.has_answer
            if isinstance(error, KafkaError) and not error.code.retriable and not away and self._failures > 3:
                self.fetcher.errors.append(error)
                self._news()
        finally:
            await asyncio.sleep(self.cluster.backoff.delay_ms(self._failures + 1) / 1000)
            self._refreshing = False
            self._wake.set()

    async def _search(self, search: Coroutine[Any, Any, None]) -> None:
        try:
            await search
        finally:
            self._news()
            self._wake.set()

    async def _fetch(self, plan: FetchPlan) -> None:
        now_ms = self.cluster.now_ms
        try:
            node = await self.cluster.node(plan.node_id, "data")
            answers = await self._ask(node, plan)
        except (ConnectionLost, KafkaError) as error:
            self.fetcher.on_failure(plan, as_kafka_error(error), now_ms())
            self.cluster.metadata.request_update()
        except Exception:
            # The next poll raises the error and fetches again: the node must not count as busy for good.
            self.fetcher.on_response(plan, [None] * len(plan.targets), now_ms())
            raise
        else:
            if self.fetcher.on_response(plan, answers, now_ms()):
                self.cluster.metadata.request_update()
        self._news()
        self._wake.set()

    async def _validate(self, plan: ValidationPlan) -> None:
        validation, now_ms = self.fetcher.validation, self.cluster.now_ms
        try:
            # Not on the connection for data, where the request would wait behind a Fetch that the broker has parked.
            node = await self.cluster.node(plan.node_id)
            node.versions.choose(ApiKey.OFFSET_FOR_LEADER_EPOCH, at_least=FIRST_EPOCH_ENDS)
            answer = await self.cluster.call(node, epoch_ends_request(plan.targets), OffsetForLeaderEpochResponse)
        except (ConnectionLost, KafkaError) as lost:
            error = as_kafka_error(lost)
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                validation.unsupported(plan)
            else:
                validation.on_failure(plan, error, now_ms())
                self.cluster.metadata.request_update()
        except Exception as error:
            validation.on_failure(plan, as_kafka_error(error), now_ms())
            raise
        else:
            if validation.on_answers(plan, epoch_ends(answer), now_ms()):
                self.cluster.metadata.request_update()
        self._news()
        self._wake.set()

    async def _ask(self, node: Node, plan: FetchPlan) -> list[FetchedPartition | None]:
        ids = topic_ids(self.cluster.view, {target.topic_partition.topic for target in plan.targets})
        at_most = None if ids else LAST_FETCH_BY_NAME
        by_id = ids if node.versions.choose(ApiKey.FETCH, at_most=at_most) > LAST_FETCH_BY_NAME else None
        session = self._sessions.setdefault(plan.node_id, FetchSession())
        request = fetch_request(session.next_request(plan.targets, by_id=by_id is not None), self._settings, ids)
        was_full = session.is_full
        timeout = self.cluster.request_timeout_s + self._settings.max_wait_ms / 1000
        try:
            response = await self.cluster.call(node, request, FetchResponse, at_most=at_most, timeout_s=timeout)
            error = code_of(response.error_code)
            if error is not ErrorCode.NONE:
                session.refused(error)
                if error in SESSION_ERRORS and not was_full:
                    return [None] * len(plan.targets)
            found = fetched_partitions(response, by_id, self._settings.isolation == READ_COMMITTED)
            if not session.answered(response.session_id, found):
                raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, "the broker's response contains partitions that were not requested")
        except BaseException:
            session.lost()
            raise
        return [found.get(target.topic_partition) for target in plan.targets]

    def _keep(self, tasks: dict[asyncio.Task[None], None], action: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task, and keep a reference until the task is done; the next poll raises the task's error."""

        def ended(task: asyncio.Task[None]) -> None:
            tasks.pop(task, None)
            self._ended(task)

        task = asyncio.create_task(action)
        tasks[task] = None
        task.add_done_callback(ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fetcher.errors.append(error)
            self._news()
