"""Generic mutants that change no behaviour, or none that a test should fix: they are not run again.

Each entry is (file below src, line before, line after, reason), the lines without their indentation. Entries of lines that are gone are
removed (`test_list.py`).
"""

ACCEPTED: list[tuple[str, str, str, str]] = []
