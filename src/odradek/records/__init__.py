"""Record batches: reading, writing, validating, compressing, and Arrow in and out. Pure, but for one environment variable (native.py)."""

from __future__ import annotations

from odradek.records.native import codec_is_compiled as codec_is_compiled
