"""The keys of the catalogue that the MBeans of JVM Kafka stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterator


def key_of(bean: str, attributes: Collection[str]) -> Iterator[str]:
    """`Metric.key` of a bean: one where it has a name=, else one for each of its attributes."""
    domain, _, properties = bean.partition(":")
    found = dict(part.partition("=")[::2] for part in properties.split(","))
    type_ = found.get("type", "")
    if "name" in found:
        yield f"{domain}:type={type_},name={found['name']}"
        return
    for attribute in attributes:
        yield f"{domain}:type={type_}.{attribute}"
