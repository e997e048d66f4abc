"""Declaration of messages: one class for all versions, which is schema, type and constructor in one.

    class HeartbeatRequest(Message):
        API_KEY = 12
        VALID_VERSIONS = Versions(0, 4)
        FLEXIBLE_VERSIONS = Versions.since(4)

        group_id: str = field(String, "0+")
        group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)

The class has slots, a keyword-only constructor in which every field may be left out, equality by value, and a repr. Structs are classes
nested directly in their message and are named in field types by their bare name, so that the declaration can be read top down. Declaring is
cheap: constructor, readers and writers are generated on first use (`odradek.protocol.codegen`). Source of the model: KIP-482 and
org.apache.kafka.message in Kafka's build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import error as struct_error
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, cast, dataclass_transform

from odradek.protocol.errors import InvalidMessageError, ProtocolError, UnsupportedVersionError

LAST_VERSION: Final = 32767
DEFAULT_OBJECT_BUDGET: Final = 1_000_000
"""Limit of structs and texts in arrays that one message may decode into; eight plain numbers count as one."""

FREE_OBJECTS: Final = 32_768
BYTES_PER_OBJECT: Final = 16
"""Bytes that a message must have for each object beyond FREE_OBJECTS: arrays of tiny elements cannot fill the memory."""

COPY_LIMIT: Final = 16_384
"""Buffers up to this many bytes are copied to `bytes` before they are read: slicing bytes is faster than slicing views."""

INLINE_LIMIT: Final = 4_096
"""Records larger than this many bytes leave `encode_chunks` as separate chunks instead of being copied."""


class SizedChunk(Protocol):
    """Bytes that are not in memory, such as a slice of a segment file: the sender of the chunk reads them."""

    @property
    def size(self) -> int:
        """Exact number of bytes."""
        ...


Buffer: TypeAlias = "bytes | bytearray | memoryview"
Chunk: TypeAlias = "bytes | bytearray | memoryview | SizedChunk"
RecordsData: TypeAlias = "bytes | bytearray | memoryview | SizedChunk | Sequence[bytes | bytearray | memoryview | SizedChunk]"
"""Values of a field of type records for writing. Reading always yields a memoryview (see `records_view`)."""

Reader: TypeAlias = "Callable[[bytes | memoryview, int, int, int], tuple[Any, int]]"
Writer: TypeAlias = "Callable[[Struct, list[Chunk], list[int]], None]"


class Versions(NamedTuple):
    """Range of versions, both ends included; empty when `low` is above `high`."""

    low: int
    high: int

    @classmethod
    def since(cls, low: int) -> Versions:
        """Return the range of `low` and all later versions."""
        return cls(low, LAST_VERSION)

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "3+", "0-4", "7" or "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def includes(self, version: int) -> bool:
        return self.low <= version <= self.high


NO_VERSIONS: Final = Versions(0, -1)


class Scalar:
    """Wire type without parts. `code` is its `struct` format, empty where the size varies."""

    __slots__ = ("code", "name", "zero")

    def __init__(self, name: str, code: str, zero: object) -> None:
        self.name = name
        self.code = code
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


Bool: Final = Scalar("Bool", "?", False)
Int8: Final = Scalar("Int8", "b", 0)
Int16: Final = Scalar("Int16", "h", 0)
Int32: Final = Scalar("Int32", "i", 0)
Int64: Final = Scalar("Int64", "q", 0)
Uint16: Final = Scalar("Uint16", "H", 0)
Uint32: Final = Scalar("Uint32", "I", 0)
Float64: Final = Scalar("Float64", "d", 0.0)
Uuid: Final = Scalar("Uuid", "16s", None)
String: Final = Scalar("String", "", "")
Bytes: Final = Scalar("Bytes", "", b"")
Records: Final = Scalar("Records", "", None)


class Array:
    """List of scalars or of structs; a struct is named by its class name within the message."""

    __slots__ = ("element",)

    def __init__(self, element: Scalar | str) -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"Array({self.element!r})"


WireType: TypeAlias = "Scalar | Array | str"
_UNSET: Final = object()


class Field:
    """Declaration of one field. `default` is None or a plain value; without a default the type's zero is used."""

    __slots__ = ("_default", "ignorable", "name", "nullable_text", "tag", "tagged_text", "type", "versions_text")

    def __init__(
        self, type_: WireType, versions: str, nullable: str, tagged: str | None, tag: int | None, ignorable: bool, default: object
    ) -> None:
        self.name = ""
        self.type = type_
        self.versions_text = versions
        self.nullable_text = nullable
        self.tagged_text = tagged
        self.tag = tag
        self.ignorable = ignorable
        self._default = default

    @property
    def versions(self) -> Versions:
        return Versions.parse(self.versions_text)

    @property
    def nullable(self) -> Versions:
        return Versions.parse(self.nullable_text)

    @property
    def tagged(self) -> Versions:
        """Versions in which the field is written in the tagged section."""
        if self.tag is None:
            return NO_VERSIONS
        return Versions.parse(self.versions_text if self.tagged_text is None else self.tagged_text)

    @property
    def default_is_none(self) -> bool:
        return self._default is None or (self._default is _UNSET and self.type is Records)

    @property
    def default(self) -> object:
        """Default of a scalar field; arrays and structs start empty unless `default_is_none`."""
        if self._default is not _UNSET:
            return self._default
        if isinstance(self.type, Scalar):
            if self.type is Uuid:
                from odradek.base.ids import ZERO_UUID

                return ZERO_UUID
            return self.type.zero
        return None

    def __repr__(self) -> str:
        return f"<field {self.name}: {self.type!r} {self.versions_text}>"


def field(
    wire_type: WireType,
    versions: str,
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    default: object = _UNSET,
) -> Any:
    """Declare a field.

    `versions` are those that have the field, `nullable` those in which it may be None, `tagged` those in which it is written as tagged
    field number `tag` (all, when only `tag` is given). An `ignorable` field is left out silently where the version lacks it; any other
    raises unless it holds its default. Typed as Any because the annotation has the attribute's type; a test compares the two.
    """
    return Field(wire_type, versions, nullable, tagged, tag, ignorable, default)


@dataclass_transform(kw_only_default=True)
class MessageType(type):
    """Metaclass that turns field declarations into slots and gives nested structs a reference to their message."""

    FIELDS: tuple[Field, ...]
    declaring_message: type[Message]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> MessageType:
        fields: list[Field] = []
        for key, value in namespace.items():
            if type(value) is Field:
                value.name = key
                fields.append(value)
        for declared in fields:
            del namespace[declared.name]
        namespace["__slots__"] = tuple([declared.name for declared in fields])
        namespace["FIELDS"] = tuple(fields)
        namespace["__hash__"] = None
        cls = super().__new__(mcs, name, bases, namespace)
        if "VALID_VERSIONS" in namespace:
            message = cast("type[Message]", cls)
            message._readers = {}  # pyright: ignore[reportPrivateUsage]
            message._writers = {}  # pyright: ignore[reportPrivateUsage]
            cls.declaring_message = message
            for value in namespace.values():
                if isinstance(value, MessageType):
                    value.declaring_message = message
        return cls

    def struct(cls, name: str) -> type[Struct]:
        """Return the struct class that this class's message declares under `name`."""
        return cast("type[Struct]", getattr(cls.declaring_message, name))


class Struct(metaclass=MessageType):  # noqa: PLW1641 (mutable: the metaclass makes it unhashable)
    """Group of fields inside a message."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # Runs once per class: the generated constructor replaces this one.
        from odradek.protocol.codegen import build_constructor

        cls = type(self)
        constructor = build_constructor(cls)
        cls.__init__ = constructor  # type: ignore[method-assign]
        constructor(self, **values)

    def encode_entry(self, version: int) -> bytes:
        """Return the struct's bytes in an array of its message in `version`. Raises as `Message.encode`.

        The message accepts the bytes in place of the struct: a long response is encoded entry by entry.
        """
        writer = _entry_writers.get((type(self), version))
        if writer is None:
            writer = _entry_writers[(type(self), version)] = _build_writer(type(self), version)
        parts: list[Any] = []
        _written(self, writer, version, parts, [])
        return b"".join(parts)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, item.name) == getattr(other, item.name) for item in self.FIELDS)

    def __repr__(self) -> str:
        values = ", ".join([f"{item.name}={getattr(self, item.name)!r}" for item in self.FIELDS])
        return f"{type(self).__qualname__}({values})"


class Message(Struct):
    """Request, response or stored record."""

    API_KEY: ClassVar[int] = -1
    """API key of requests and responses, record type of stored records, -1 for other messages."""
    VALID_VERSIONS: ClassVar[Versions] = NO_VERSIONS
    FLEXIBLE_VERSIONS: ClassVar[Versions] = NO_VERSIONS
    """Versions with compact lengths and tagged fields (KIP-482)."""
    LATEST_UNSTABLE: ClassVar[bool] = False
    """True if the highest version may still change and must be used only on request."""

    _readers: ClassVar[dict[int, Reader]] = {}
    _writers: ClassVar[dict[int, Writer]] = {}

    def encode(self, version: int) -> bytes:
        """Return the bytes of the message in `version`, without header or size.

        Raises UnsupportedVersionError for a version outside VALID_VERSIONS, and for a field that this version lacks, is not ignorable and
        is not at its default. Raises InvalidMessageError for invalid values, TypeError for records outside memory (those need
        `encode_chunks`).
        """
        chunks: list[Any] = []
        self._write(version, chunks, [])
        return b"".join(chunks)

    def encode_chunks(self, version: int) -> list[Any]:
        """Return the message in `version` as chunks to be sent one after the other. Raises as `encode`.

        Records larger than INLINE_LIMIT and records outside memory are separate chunks, the object that the field held; everything between
        them is joined.
        """
        parts: list[Any] = []
        cuts: list[int] = []
        self._write(version, parts, cuts)
        if not cuts:
            return [b"".join(parts)]
        chunks: list[Any] = []
        start = 0
        for cut in cuts:
            if start < cut:
                chunks.append(b"".join(parts[start:cut]))
            chunks.append(parts[cut])
            start = cut + 1
        if start < len(parts):
            chunks.append(b"".join(parts[start:]))
        return chunks

    def _write(self, version: int, chunks: list[Chunk], cuts: list[int]) -> None:
        writer = self._writers.get(version)
        if writer is None:
            writer = self._writers[version] = _build_writer(type(self), version)
        _written(self, writer, version, chunks, cuts)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, *, budget: int = DEFAULT_OBJECT_BUDGET) -> Self:
        """Read a message of `version` from the start of `buffer`; bytes after it are ignored, as in Kafka.

        Fields of type records are returned as memoryviews, of `buffer` itself where it is larger than COPY_LIMIT.

        Raises ProtocolError for malformed bytes and for more objects than `budget` or the size of the buffer allow (see FREE_OBJECTS),
        UnsupportedVersionError for a version outside VALID_VERSIONS.
        """
        return cls.decode_prefix(buffer, version, budget=budget)[0]

    @classmethod
    def decode_prefix(cls, buffer: Buffer, version: int, offset: int = 0, *, budget: int = DEFAULT_OBJECT_BUDGET) -> tuple[Self, int]:
        """Read a message as `decode` does, from `offset` on; also return the offset of the first byte after it."""
        reader = cls._readers.get(version)
        if reader is None:
            reader = cls._readers[version] = _build_reader(cls, version)
        size = len(buffer)
        data: bytes | memoryview
        if type(buffer) is bytes:
            data = buffer
        elif size <= COPY_LIMIT:
            data = bytes(buffer)
        else:
            data = memoryview(buffer)
        try:
            message, end = reader(data, offset, size, min(budget, FREE_OBJECTS + size // BYTES_PER_OBJECT))
        except (IndexError, struct_error):
            raise ProtocolError(f"{cls.__name__} version {version} is truncated") from None
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{cls.__name__} version {version} holds text that is not UTF-8: {error.reason}") from None
        return message, end


def _build_reader(message: type[Message], version: int) -> Reader:
    from odradek.protocol.reader import build_reader

    _check_version(message, version)
    return build_reader(message, version)


_entry_writers: Final[dict[tuple[type[Struct], int], Writer]] = {}


def _build_writer(struct: type[Struct], version: int) -> Writer:
    from odradek.protocol.writer import build_writer

    _check_version(struct.declaring_message, version)
    return build_writer(struct, version)


def _written(struct: Struct, writer: Writer, version: int, chunks: list[Chunk], cuts: list[int]) -> None:
    try:
        writer(struct, chunks, cuts)
    except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:
        raise InvalidMessageError(f"{type(struct).__name__} version {version} cannot be written: {error}") from error


def _check_version(message: type[Message], version: int) -> None:
    if not message.VALID_VERSIONS.includes(version):
        low, high = message.VALID_VERSIONS
        raise UnsupportedVersionError(f"{message.__name__} has versions {low} to {high}, not {version}")


def records_view(records: RecordsData | None) -> memoryview:
    """Return the records of a message as one view, empty for None. The records must be in memory.

    Raises TypeError for records outside memory.
    """
    if type(records) is memoryview:
        return records
    if records is None:
        return memoryview(b"")
    if isinstance(records, bytes | bytearray | memoryview):
        return memoryview(records)
    if isinstance(records, Sequence):
        return memoryview(b"".join(cast("Sequence[bytes]", records)))
    raise TypeError("records that are not in memory have no view")
