"""One batch ahead: Spark makes and hands over the next rows while the worker sends those before, rather than in turns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items, none of which may be None, and errors; while one is worked on, a thread gets the next.

    Who stops early leaves the thread with the item that it waits for: an error does not wait for it.
    """
    reader = ThreadPoolExecutor(1, "odradek-read-ahead")
    try:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item
    finally:
        reader.shutdown(wait=False, cancel_futures=True)
