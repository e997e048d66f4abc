"""Calls to several subscribers or callbacks.

A subscriber that raises must not prevent the calls of the following ones. Wherever several subscribers get an event, or several responses
are sent together, `tell_each` calls them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


def tell_each(subscribers: Iterable[Callable[..., object]], *news: object) -> int:
    """Call each subscriber with `news`, in order. Log the traceback of a subscriber that raises, and continue with the next."""
    errors = 0
    for subscriber in list(subscribers):
        try:
            subscriber(*news)
        except Exception:
            errors += 1
            logger.exception("%s failed", getattr(subscriber, "__qualname__", repr(subscriber)))
    return errors
