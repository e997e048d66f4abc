"""Telling several subscribers of one thing.

A subscriber that raises must not keep the news from those behind it: wherever several are told of one thing, or several answers go out
together, `tell_each` calls them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


def tell_each(subscribers: Iterable[Callable[..., object]], *news: object) -> int:
    """Call each subscriber with `news`, in order; log the traceback of one that raises, and go on with the next.

    Returns how many subscribers raised.
    """
    errors = 0
    for subscriber in list(subscribers):
        try:
            subscriber(*news)
        except Exception:
            errors += 1
            logger.exception("%s failed", getattr(subscriber, "__qualname__", repr(subscriber)))
    return errors
