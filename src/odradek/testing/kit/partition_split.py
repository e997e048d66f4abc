"""Split of requests by topic and partition, and merge of responses, for every API from its message declaration alone.

    matching, rest = split(request, lambda topic, partition: topic == "orders" and partition in (None, 2))
    errors = partition_errors(matching, ProduceResponse, 6, None)
    answer = overlay(answer_to_the_rest, errors)

An array of structs is an array of topics when its structs have a topic's name or id. An array is one of partitions when its structs have a
partition's index, or when it is an array of plain numbers with a name such as `partitions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from odradek.protocol.schema import Array, Message, Struct

M = TypeVar("M", bound=Message)

_TOPIC_IDS: Final = ("topic_id",)
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_NAMES_OF_TOPICS: Final = ("topic_names",)
_PARTITION: Final = ("partition_index", "index", "partition", "partition_id")
_NUMBERS_OF_PARTITIONS: Final = ("partitions", "partition_indexes")
_KEYS: Final = (*_TOPIC_IDS, *_TOPIC_NAMES, *_PARTITION, "group_id", "transactional_id", "key", "resource_name")
"""Fields that identify an entry of a response's array. Fields with None, an empty string or the zero UUID are ignored."""
_NO_ID: Final = UUID(int=0)
_UNKNOWN: Final = dict.fromkeys(
    ("base_offset", "high_watermark", "offset", "timestamp", "end_offset", "committed_offset", "low_watermark", "leader_id"), -1
)
"""Values of these fields in a response with an error."""

Matches = Callable[[str | UUID | None, int | None], bool]
"""Whether a topic (by name or id), or one of its partitions, is chosen. The partition is None for a topic without partitions."""


def split(request: M, matches: Matches) -> tuple[M | None, M | None]:
    """Return (the request with only matching topics and partitions, the request with only the rest); None stands for an empty half.

    A request that names no topics (Metadata for all topics, Heartbeat) is all rest.
    """
    inside, outside = _split(request, matches)
    return inside, outside


def names_topics(request: Message) -> bool:
    """Return whether the API's requests can name topics."""
    return _has_topics(type(request))


def _has_topics(kind: type[Struct]) -> bool:
    for each in kind.FIELDS:
        if each.name in _NAMES_OF_TOPICS:
            return True
        if isinstance(each.type, Array) and isinstance(each.type.element, str):
            element = kind.struct(each.type.element)
            if _is_topic(element) or _has_topics(element):
                return True
    return False


def _is_topic(kind: type[Struct]) -> bool:
    names = {each.name for each in kind.FIELDS}
    if names & {"topic_id", "topic", "topic_name"}:
        return True
    return "name" in names and "topic" in kind.__name__.lower()


def _kind(struct: Struct) -> type[Struct]:
    return type(struct)


def _copy(struct: Any, **changed: object) -> Any:
    return type(struct)(**{each.name: changed.get(each.name, getattr(struct, each.name)) for each in struct.FIELDS})


def _split(struct: Any, matches: Matches) -> tuple[Any, Any]:
    inside: dict[str, object] = {}
    outside: dict[str, object] = {}
    found = left = False
    for each in struct.FIELDS:
        value = getattr(struct, each.name)
        if not isinstance(each.type, Array) or not value:
            continue
        if each.name in _NAMES_OF_TOPICS:
            ours, others = [name for name in value if matches(name, None)], [name for name in value if not matches(name, None)]
        elif not isinstance(each.type.element, str):
            continue
        elif _is_topic(_kind(value[0])):
            ours, others = _divide(value, lambda topic: _split_topic(topic, matches))
        elif _has_topics(_kind(value[0])):
            ours, others = _divide(value, lambda one: _split(one, matches))
        else:
            continue
        inside[each.name], outside[each.name] = ours, others
        found, left = found or bool(ours), left or bool(others)
    if not found:
        return None, struct
    return _copy(struct, **inside), _copy(struct, **outside) if left else None


def _divide(entries: list[Any], halve: Callable[[Any], tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    halves = [halve(entry) for entry in entries]
    return [inside for inside, _ in halves if inside is not None], [outside for _, outside in halves if outside is not None]


def topic_of(struct: Any) -> str | UUID | None:
    """Return the topic's name, or its id when the name is missing, or None."""
    for name in (*_TOPIC_NAMES, *_TOPIC_IDS):
        value = getattr(struct, name, None)
        if value and value != _NO_ID:
            return value  # type: ignore[no-any-return]
    return None


def _split_topic(topic: Any, matches: Matches) -> tuple[Any, Any]:
    key = topic_of(topic)
    for each in topic.FIELDS:
        value = getattr(topic, each.name)
        if not isinstance(each.type, Array) or not value:
            continue
        if isinstance(each.type.element, str):
            number = next((name for name in _PARTITION if hasattr(value[0], name)), None)
            if number is None:
                continue
            chosen = [matches(key, getattr(partition, number)) for partition in value]
        elif each.name in _NUMBERS_OF_PARTITIONS:
            chosen = [matches(key, partition) for partition in value]
        else:
            continue
        ours = [entry for entry, wanted in zip(value, chosen, strict=True) if wanted]
        others = [entry for entry, wanted in zip(value, chosen, strict=True) if not wanted]
        return (_copy(topic, **{each.name: ours}) if ours else None), (_copy(topic, **{each.name: others}) if others else None)
    return (topic, None) if matches(key, None) else (None, topic)


def overlay(served: M, errors: M) -> M:
    """Return `served`, in which entries of `errors` replace the entries of the same topic, partition or group. Other entries of `errors`
    are added.
    """
    changed = _overlay_lists(served, errors)
    return _copy(served, **changed)  # type: ignore[no-any-return]


def _overlay_lists(served: Any, errors: Any) -> dict[str, object]:
    changed: dict[str, object] = {}
    for each in served.FIELDS:
        if not isinstance(each.type, Array) or not isinstance(each.type.element, str):
            continue
        ours, theirs = getattr(served, each.name), getattr(errors, each.name)
        if theirs:
            changed[each.name] = _overlay_entries(ours or [], theirs)
    return changed


def _overlay_entries(served: list[Any], errors: list[Any]) -> list[Any]:
    merged = list(served)
    for error in errors:
        key = _key(error)
        place = next((index for index, entry in enumerate(merged) if key and key.items() <= _key(entry).items()), None)
        if place is None:
            merged.append(error)
        else:
            deeper = _overlay_lists(merged[place], error)
            merged[place] = _copy(merged[place], **deeper) if deeper else error
    return merged


def _key(entry: Any) -> dict[str, object]:
    """Return the identifying fields of an entry. An entry of a response may have a topic's id where the request has only the name."""
    values = ((name, getattr(entry, name, None)) for name in _KEYS)
    return {name: value for name, value in values if value is not None and value != "" and value != _NO_ID}


def partition_errors(request: Message, response: type[M], error_code: int, message: str | None) -> M | None:
    """Return the response in which each topic or partition of the request has the error, or None where the API has no field for the
    error.
    """
    answer, placed = _mirror(request, response, error_code, message)
    return answer if placed else None


def says(answer: Any, error_code: int) -> bool:
    """Return whether an error field of the response, at any depth, has this error."""
    for each in answer.FIELDS:
        value = getattr(answer, each.name)
        if each.name.endswith("error_code"):
            if value == error_code:
                return True
        elif isinstance(each.type, str):
            if value is not None and says(value, error_code):
                return True
        elif isinstance(each.type, Array) and isinstance(each.type.element, str) and any(says(entry, error_code) for entry in value or ()):
            return True
    return False


def _mirror(request: Any, kind: type[Any], error_code: int, message: str | None) -> tuple[Any, bool]:
    """Return the part of a response that answers a part of a request, and whether the error is in that part."""
    values: dict[str, object] = {}
    placed = False
    for each in kind.FIELDS:
        if isinstance(each.type, Array):
            if isinstance(each.type.element, str):
                entries, ok = _mirror_list(request, kind.struct(each.type.element), error_code, message)
                if ok:
                    values[each.name], placed = entries, True
        elif hasattr(request, each.name) and not each.name.endswith("error_code"):
            values[each.name] = getattr(request, each.name)
        elif each.name in _UNKNOWN:
            values[each.name] = _UNKNOWN[each.name]
    if not placed and not issubclass(kind, Message):
        placed = _place(kind, values, error_code, message)
        number = next((name for name in _PARTITION if hasattr(request, name)), None)
        for name in _PARTITION:
            if number is not None and any(each.name == name for each in kind.FIELDS):
                values[name] = getattr(request, number)
    return kind(**values), placed


def _place(kind: type[Any], values: dict[str, object], error_code: int, message: str | None) -> bool:
    for each in kind.FIELDS:
        if each.name.endswith("error_code"):
            values[each.name] = error_code
            if any(other.name == "error_message" for other in kind.FIELDS):
                values["error_message"] = message
            return True
    return False


def _mirror_list(request: Any, element: type[Any], error_code: int, message: str | None) -> tuple[list[Any], bool]:
    fields = {each.name for each in element.FIELDS}
    number = next((name for name in _PARTITION if name in fields), None)
    for each in request.FIELDS:
        value = getattr(request, each.name)
        if not isinstance(each.type, Array) or not value:
            continue
        entries: list[tuple[Any, bool]] = []
        if isinstance(each.type.element, str):
            source = _kind(value[0])
            alike = _is_topic(source) == _is_topic(element) and _has_topics(source) == _has_topics(element)
            is_partition = number is not None and any(hasattr(value[0], name) for name in _PARTITION)
            if alike and (_is_topic(element) or _has_topics(element) or is_partition):
                entries = [_mirror(entry, element, error_code, message) for entry in value]
        elif (each.name in _NUMBERS_OF_PARTITIONS and number is not None) or (each.name in _NAMES_OF_TOPICS and "name" in fields):
            for entry in value:
                values: dict[str, object] = {"name" if number is None else number: entry}
                placed = _place(element, values, error_code, message)
                entries.append((element(**values), placed))
        if entries and all(placed for _, placed in entries):
            return [entry for entry, _ in entries], True
    return [], False
