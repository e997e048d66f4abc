"""A broker as its own process: event loop, signals, log output, exit status."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.base.disk import out_of_descriptors
from odradek.config.keys.network import BACKGROUND_THREADS
from odradek.network.descriptors import raise_limit
from odradek.server.start import ending
from odradek.server.start.logs import set_up

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.server.requests.handler_loading import HandlerLoader
    from odradek.server.start.broker import Broker

T = TypeVar("T")

logger = logging.getLogger(__name__)

_COLLECT_AFTER = 10_000
"""Number of allocations minus deallocations after which the garbage collector collects the youngest generation."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of uvloop where uvloop is installed, else one of asyncio."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_on_loop_error)
        return loop
    return uvloop.new_event_loop()


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the loop, except for missing file descriptors.

    Without a free descriptor asyncio reports each connection that it cannot accept, every second, and continues to listen.
    `network.acceptor` warns in time that descriptors run out. uvloop closes such connections and reports nothing.
    """
    if not out_of_descriptors(context.get("exception")):
        loop.default_exception_handler(context)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a new event loop and return its result."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def run(config: BrokerConfig, *, format_if_empty: bool, quiet: bool = False, on_ready: Callable[[Broker], object] | None = None) -> None:
    """Run a broker until a signal; a second signal keeps the shutdown from waiting for other nodes.

    The broker owns the process: its soft limit on descriptors is raised to the hard limit. Raises OdradekError when the broker cannot start
    or go on, after all started parts have been stopped.
    """
    raise_limit()
    set_up(config, quiet=quiet)
    run_loop(_serve(config, format_if_empty, on_ready))


def _settle_memory() -> None:
    """Exempt all current objects from garbage collection, and enable the collector, which is disabled during the start.

    Current objects live as long as the process. Hot paths make no cycles, so that full collections of these objects would cost pauses of
    tens of milliseconds and free no memory.
    """
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()


async def _serve(config: BrokerConfig, format_if_empty: bool, on_ready: Callable[[Broker], object] | None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from odradek.server.start.broker import Broker
    from odradek.server.upkeep.memory import MemoryKeeper, find_trim
    from odradek.storage.disk import OsDisk

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def on_signal(name: str) -> None:
        if not stopped.done():
            logger.info("%s: shutting down", name)
            stopped.set_result(None)
        else:
            logger.info("%s: shutting down without waiting for other nodes any longer", name)
            broker.hurry()

    ending.take(loop, on_signal)
    executor = ThreadPoolExecutor(config[BACKGROUND_THREADS], "background")
    loop.set_default_executor(executor)
    disk = OsDisk()
    disk.keep_spare()
    broker = Broker(config, disk=disk, format_if_empty=format_if_empty)

    def resize() -> None:
        """Give new work to a new executor; the old executor finishes the work that it has."""
        nonlocal executor
        old, executor = executor, ThreadPoolExecutor(broker.services.dynamic_config[BACKGROUND_THREADS], "background")
        loop.set_default_executor(executor)
        old.shutdown(wait=False)

    broker.services.dynamic_config.subscribe((BACKGROUND_THREADS,), resize)
    broker.on_fatal = lambda error: None if stopped.done() else stopped.set_exception(error)
    memory = MemoryKeeper(loop, broker.clock, find_trim())
    handlers: HandlerLoader | None = None
    starting = asyncio.ensure_future(broker.start())
    try:
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait((starting,))
        else:
            starting.result()
            _settle_memory()
            memory.start()
            if on_ready is not None and not stopped.done():
                on_ready(broker)
            from odradek.server.requests.handler_loading import HandlerLoader

            handlers = HandlerLoader(loop, broker.clock, broker.node.dispatcher.routes)
            handlers.start()
        await stopped
    finally:
        memory.stop()
        if handlers is not None:
            handlers.stop()
        await broker.stop()
        # An exception of `stopped` was raised already, or is the error that ended the start.
        if stopped.done() and stopped.exception() is None:
            ending.ignore(loop)  # Not after an error: the process may live on.
