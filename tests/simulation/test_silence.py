"""When a member of a simulated story may not have known that the group went on without it."""

from __future__ import annotations

import pytest

from tests.simulation.whole.invariants.coordinators import out_of_touch


@pytest.mark.parametrize(
    ("heard", "since_s", "until_s", "silent"),
    [
        ((), 10.0, 14.0, False),
        ((), 10.0, 16.0, True),
        ((11.0, 12.0, 13.0, 14.0, 15.0, 16.0), 10.0, 16.5, False),
        ((11.0, 12.0), 10.0, 17.5, True),
        ((11.0, 12.0, 17.5), 10.0, 18.0, True),
        ((11.0, 17.0, *(17.0 + step for step in range(1, 14))), 10.0, 30.5, False),
        ((2.0, 31.0, 11.0, 12.0, 13.0, 14.0), 10.0, 15.0, False),
    ],
    ids=["no time yet", "never heard", "in touch", "silent since", "heard just now", "silent long ago", "before and after"],
)
def test_who_has_heard_nothing_for_long_shortly_before_is_out_of_touch(
    heard: tuple[float, ...], since_s: float, until_s: float, silent: bool
) -> None:
    assert out_of_touch(sorted(heard), since_s, until_s) is silent
