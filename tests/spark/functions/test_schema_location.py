"""Where schemas are, as users name it; and what of it is shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType

from odradek.base.errors import ConfigError
from odradek.client.schemas import Schema
from odradek.spark.functions.schema_location import Place, place_of
from odradek.spark.functions.udf import Reading

URL = "http://localhost:8081"


@pytest.mark.parametrize(
    ("source", "settings", "place"),
    [
        (URL, {}, Place(URL)),
        ([URL, "http://b"], {"max_retries": 1}, Place(f"{URL},http://b", (("max.retries", "1"),))),
        ({"url": URL, "basic.auth.user.info": "a:b"}, {}, Place(URL, (("basic.auth.user.info", "a:b"),))),
        (
            {"schema.registry.url": [URL, "http://b"], "schema.registry.max.retries": 1},
            {},
            Place(f"{URL},http://b", (("max.retries", "1"),)),
        ),
        ("folder", {}, Place(str(Path("folder").resolve()))),
        (Path("folder"), {}, Place(str(Path("folder").resolve()))),
    ],
)
def test_places(source: Any, settings: dict[str, Any], place: Place) -> None:
    assert place_of(source, settings) == place
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize(
    ("source", "settings", "why"),
    [
        (5, {}, "source must be the URL"),
        ([], {}, "source must be the URL"),
        ({"max.retries": 1}, {}, "schema.registry.url does not name any registry"),
        ({"url": "folder"}, {}, "must be http"),
        (["folder"], {}, "must be http"),
        (URL, {"url": URL}, "excludes the argument source"),
        ({"url": URL, "max.retries": 1}, {"max_retries": 2}, "max.retries is given twice"),
    ],
)
def test_places_that_are_none(source: Any, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        place_of(source, settings)


def test_passwords_are_not_shown() -> None:
    place = place_of(URL, {"basic_auth_user_info": "me:topsecret"})
    reading = Reading(StringType(), Schema('"string"'), place=place)
    assert "topsecret" not in f"{place} {place!r} {reading} {reading!r} {[reading]}"
