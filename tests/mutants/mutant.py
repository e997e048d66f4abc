"""A planted bug: an edit of a file under src/, and the behaviour that it breaks."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """The text `before`, which stands exactly once in the file, is replaced by `after`."""

    path: str
    before: str
    after: str


class Mutant(NamedTuple):
    """The text `before`, which stands exactly once in the file, is replaced by `after`."""

    name: str
    """Short, of the room, in lower case with dashes: `roll-by-first-offset`."""
    path: str
    """The file, relative to src/odradek: `storage/log.py`."""
    before: str
    after: str
    breaks: str
    """What no longer holds, as a user or another room would notice it; one sentence."""
    tests: str
    """What to run first, relative to tests/, in pytest's own words: `storage/test_log.py -k roll`."""
    equivalent: str = ""
    """Why nothing can notice it, for a mutant that changes no behaviour; such a one is not counted."""
    also: tuple[Edit, ...] = ()
    """What has to go with it, where two pieces of code guard against the same thing."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(self.path, self.before, self.after), *self.also)
