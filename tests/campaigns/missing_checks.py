"""Removal of each check of `odradek.handlers.access`, one at a time: the generated tests have to notice.

    python -m tests.campaigns.missing_checks [--only API ...] [--verbose]

A removed check always allows, for every principal and whatever the ACLs. For each removed check the test of `tests/handlers/test_access.py`
has to find a problem with that check. The exit status is 1 when a removal is not noticed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odradek.handlers.access import Check
from odradek.handlers.context import RequestContext
from tests.handlers.access_world import AccessWorld, asked_checks, in_world, problem_of


@contextmanager
def without(check: Check) -> Iterator[None]:
    """Skip this check inside the block."""
    allows, allows_any = RequestContext.allows, RequestContext.allows_any

    def skipping(self: RequestContext, asked: Check, *arguments: Any, **options: Any) -> bool:
        return asked is check or allows(self, asked, *arguments, **options)

    def skipping_any(self: RequestContext, asked: Check) -> bool:
        return asked is check or allows_any(self, asked)

    RequestContext.allows, RequestContext.allows_any = skipping, skipping_any  # type: ignore[method-assign]
    try:
        yield
    finally:
        RequestContext.allows, RequestContext.allows_any = allows, allows_any  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description="checks of access that are missing, one at a time")
    parser.add_argument("--only", nargs="*", default=[], help="API names such as PRODUCE")
    parser.add_argument("--verbose", action="store_true", help="say of each how it is noticed")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    begin = time.monotonic()

    async def story(world: AccessWorld) -> tuple[int, list[str]]:
        count, unnoticed = 0, list[str]()
        for scope, api_key, check in asked_checks():
            if options.only and api_key.name not in options.only:
                continue
            count += 1
            name = f"{api_key.name} on {scope} listeners, {check.operation.name} on {check.resource.name}"
            with without(check):
                problem = await problem_of(world, scope, api_key, check)
            if problem is None:
                unnoticed.append(name)
                print(f"NOT NOTICED: {name}")
            elif options.verbose:
                print(f"{name}: {problem}")
        return count, unnoticed

    count, unnoticed = in_world(story)
    print(f"{count - len(unnoticed)} of {count} missing checks noticed, in {time.monotonic() - begin:.0f} s")
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
