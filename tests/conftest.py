"""Property tests repeat themselves exactly, so that a red run is red again; ODRADEK_RANDOM_TESTS=1 lets them look at other examples."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("ODRADEK_RANDOM_TESTS") else "repeatable")
