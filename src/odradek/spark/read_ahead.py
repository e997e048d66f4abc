"""Read-ahead of one batch: Spark prepares the next rows while the worker sends the last ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items (none may be None) and raise their error; a thread gets the next item while the caller uses the current one.

    When the caller stops early, it does not wait for the thread.
    """
    reader = ThreadPoolExecutor(1, "odradek-read-ahead")
    try:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item
    finally:
        reader.shutdown(wait=False, cancel_futures=True)
