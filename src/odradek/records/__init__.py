"""Record batches: reading, writing, validation, compression, Arrow in and out. Pure, except for one environment variable (native.py)."""

from __future__ import annotations

from odradek.records.native import codec_is_compiled as codec_is_compiled
