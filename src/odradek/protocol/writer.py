"""Generation of writers: a message is appended to a list as byte strings."""

from __future__ import annotations

from struct import pack
from typing import Final, cast

from odradek.protocol.codegen import Source, is_flexible, is_tagged, literal
from odradek.protocol.errors import InvalidMessageError, UnsupportedVersionError
from odradek.protocol.schema import (
    INLINE_LIMIT,
    Array,
    Bytes,
    Chunk,
    Field,
    RecordsData,
    Scalar,
    SizedChunk,
    String,
    Struct,
    Uuid,
    Writer,
)
from odradek.protocol.varint import encode_uvarint

UVARINTS: Final = tuple([encode_uvarint(value) for value in range(512)])

NULL_STRUCT: Final = b"\xff"


def build_writer(message: type[Struct], version: int) -> Writer:
    """Return the writer of a message, or of a single struct of it: a function of `(message, parts, cuts)`.

    The function appends to `cuts` the indexes of parts that are sent separately.
    """
    generator = _WriterGenerator(version)
    source = generator.source
    source.add("a = out.append")
    generator.struct_body("o", message)
    generator.flush()
    writer: Writer = source.compile(f"write {message.__name__} version {version}")
    return writer


class _WriterGenerator:
    def __init__(self, version: int) -> None:
        self.version = version
        self.source = Source("def f(o, out, cuts):")
        self.source.names.update(
            U=UVARINTS,
            uvarint=encode_uvarint,
            records_size=_records_size,
            put_records=_put_records,
            unsupported=_unsupported,
            too_long=_too_long,
        )
        self.append = "a"
        self._run: list[tuple[str, str]] = []

    # Values of fixed size are collected and written by one call when a value of variable size follows.

    def fixed(self, code: str, expression: str) -> None:
        self._run.append((code, expression))

    def flush(self) -> None:
        if not self._run:
            return
        codes = "".join([code for code, _ in self._run])
        values = ", ".join([expression for _, expression in self._run if expression])
        self._run = []
        if values:
            self.emit(f"{self.source.struct_method(codes, 'pack')}({values})")
        else:
            self.emit(repr(bytes(len(codes))))

    def emit(self, expression: str) -> None:
        self.source.add(f"{self.append}({expression})")

    def emit_uvarint(self, variable: str) -> None:
        self.emit(f"U[{variable}] if {variable} < {len(UVARINTS)} else uvarint({variable})")

    # Structs

    def struct_body(self, owner: str, cls: type[Struct]) -> None:
        tagged: list[Field] = []
        for item in cls.FIELDS:
            value = f"{owner}.{item.name}"
            if not item.versions.includes(self.version):
                if not item.ignorable:
                    self.source.add(f"if {self.differs(cls, item, value)}: unsupported({item.name!r}, {self.version})")
            elif is_tagged(item, self.version):
                tagged.append(item)
            else:
                self.value(cls, item.type, value, item.nullable.includes(self.version))
        if is_flexible(cls, self.version):
            if tagged:
                self.flush()
                self.tagged_fields(owner, cls, sorted(tagged, key=_tag))
            else:
                self.fixed("x", "")

    def differs(self, cls: type[Struct], item: Field, value: str) -> str:
        """Return the condition under which a field does not hold its default."""
        nullable = item.nullable_text != "none"
        if item.default_is_none:
            return f"{value} is not None"
        if isinstance(item.type, Array) or item.type is Bytes:
            return f"{value} is None or {value}" if nullable else value
        if isinstance(item.type, str):
            struct = cls.struct(item.type)
            if all(isinstance(inner.type, Scalar) for inner in struct.FIELDS):
                parts = [f"{value}.{inner.name} != {literal(self.source, inner)}" for inner in struct.FIELDS]
                return " or ".join([f"{value} is None", *parts] if nullable else parts)
            return f"{value} != {self.source.constant(struct())}"
        return f"{value} != {literal(self.source, item)}"

    def tagged_fields(self, owner: str, cls: type[Struct], fields: list[Field]) -> None:
        source = self.source
        parts = source.fresh("t")
        source.add(f"{parts} = []")
        for item in fields:
            value = f"{owner}.{item.name}"
            source.add(f"if {self.differs(cls, item, value)}:")
            source.depth += 1
            self.tagged_field(cls, item, value, parts)
            source.depth -= 1
        source.add(f"if {parts}:")
        source.depth += 1
        self.emit(f"uvarint(len({parts}))")
        self.emit(f"b''.join({parts})")
        source.depth -= 1
        source.add("else:")
        source.depth += 1
        self.emit(repr(b"\0"))
        source.depth -= 1

    def tagged_field(self, cls: type[Struct], item: Field, value: str, parts: str) -> None:
        source = self.source
        tag = encode_uvarint(_tag(item))
        nullable = item.nullable.includes(self.version)
        if isinstance(item.type, Scalar) and item.type.code:
            method = source.struct_method(item.type.code, "pack")
            size = 16 if item.type is Uuid else len(_pack_zero(item.type))
            value = _uuid_bytes(value) if item.type is Uuid else value
            source.add(f"{parts}.append({tag + encode_uvarint(size)!r} + {method}({value}))")
            return
        outer, self.append = self.append, source.fresh("a")
        inner = source.fresh("s")
        source.add(f"{inner} = []; {self.append} = {inner}.append")
        if isinstance(item.type, str) and nullable:
            # The size of a nullable struct includes its marker, an unsigned varint (not the signed byte used elsewhere).
            source.add(f"if {value} is None: {self.append}({bytes(1)!r})")
            source.add("else:")
            source.depth += 1
            self.emit(repr(b"\1"))
            self.value(cls, item.type, value, False)
            self.flush()
            source.depth -= 1
        else:
            self.value(cls, item.type, value, nullable)
            self.flush()
        self.append = outer
        source.add(f"{inner} = b''.join({inner})")
        source.add(f"{parts}.append({tag!r} + uvarint(len({inner})) + {inner})")

    # Values

    def value(self, cls: type[Struct], wire_type: Scalar | Array | str, value: str, nullable: bool) -> None:
        if isinstance(wire_type, Array):
            self.array(cls, wire_type, value, nullable)
        elif isinstance(wire_type, str):
            self.struct(cls.struct(wire_type), value, nullable)
        elif wire_type is Uuid:
            self.fixed(wire_type.code, _uuid_bytes(value))
        elif wire_type.code:
            self.fixed(wire_type.code, value)
        elif wire_type is String:
            self.text(cls, value, nullable)
        elif wire_type is Bytes:
            self.bytes_(cls, value, nullable)
        else:
            self.records(cls, value, nullable)

    def text(self, cls: type[Struct], value: str, nullable: bool) -> None:
        source = self.source
        encoded = source.fresh("b")
        if nullable:
            text = source.fresh("v")
            source.add(f"{text} = {value}")
            source.add(f"{encoded} = None if {text} is None else {text}.encode()")
        else:
            source.add(f"{encoded} = {value}.encode()")
        self.sized(cls, encoded, nullable, "h")

    def bytes_(self, cls: type[Struct], value: str, nullable: bool) -> None:
        variable = self.source.fresh("b")
        self.source.add(f"{variable} = {value}")
        self.sized(cls, variable, nullable, "i")

    def sized(self, cls: type[Struct], variable: str, nullable: bool, code: str) -> None:
        """Add the writing of a length and of the bytes in `variable`."""
        source = self.source
        if is_flexible(cls, self.version):
            self.flush()
            size = source.fresh("n")
            source.add(f"{size} = " + (f"0 if {variable} is None else len({variable}) + 1" if nullable else f"len({variable}) + 1"))
            if code == "h":
                source.add(f"if {size} > 32768: too_long({size} - 1)")
            self.emit_uvarint(size)
        else:
            self.fixed(code, f"-1 if {variable} is None else len({variable})" if nullable else f"len({variable})")
            self.flush()
        if nullable:
            source.add(f"if {variable}: {self.append}({variable})")
        else:
            self.emit(variable)

    def records(self, cls: type[Struct], value: str, nullable: bool) -> None:
        source = self.source
        size = source.fresh("n")
        variable = source.fresh("r")
        source.add(f"{variable} = {value}")
        source.add(f"{size} = len({variable}) if {variable}.__class__ is bytes else records_size({variable}, {nullable})")
        if is_flexible(cls, self.version):
            self.flush()
            source.add(f"{size} += 1")
            self.emit_uvarint(size)
        else:
            self.fixed("i", size)
            self.flush()
        source.add(f"if {variable}.__class__ is bytes and {size} <= {INLINE_LIMIT}: {self.append}({variable})")
        source.add(f"else: put_records({variable}, out, cuts)")

    def struct(self, cls: type[Struct], value: str, nullable: bool) -> None:
        source = self.source
        owner = source.fresh("o")
        source.add(f"{owner} = {value}")
        if not nullable:
            self.struct_body(owner, cls)
            return
        self.flush()
        source.add(f"if {owner} is None: {self.append}({NULL_STRUCT!r})")
        source.add("else:")
        source.depth += 1
        self.fixed("b", "1")
        self.struct_body(owner, cls)
        self.flush()
        source.depth -= 1

    def array(self, cls: type[Struct], wire_type: Array, value: str, nullable: bool) -> None:
        source = self.source
        items = source.fresh("l")
        source.add(f"{items} = {value}")
        if is_flexible(cls, self.version):
            self.flush()
            size = source.fresh("n")
            source.add(f"{size} = " + (f"0 if {items} is None else len({items}) + 1" if nullable else f"len({items}) + 1"))
            self.emit_uvarint(size)
        else:
            self.fixed("i", f"-1 if {items} is None else len({items})" if nullable else f"len({items})")
            self.flush()
        element = wire_type.element
        if isinstance(element, Scalar) and element.code and element is not Uuid:
            source.names["pack"] = pack
            source.add(f"if {items}: {self.append}(pack(f'>{{len({items})}}{element.code}', *{items}))")
            return
        owner = source.fresh("o")
        source.add(f"for {owner} in {items} or ():" if nullable else f"for {owner} in {items}:")
        source.depth += 1
        if isinstance(element, str):
            if cls is cls.declaring_message and self.append == "a":
                # Encoded already (`server.requests.long_answers`).
                put = f"{self.append}({owner}) if len({owner}) <= {INLINE_LIMIT} else put_records({owner}, out, cuts)"
                source.add(f"if {owner}.__class__ is bytes: {put}; continue")
            self.struct_body(owner, cls.struct(element))
        else:
            self.value(cls, element, owner, False)
        self.flush()
        source.depth -= 1


def _tag(item: Field) -> int:
    assert item.tag is not None
    return item.tag


def _uuid_bytes(value: str) -> str:
    # The property `UUID.bytes` would be a slower call in Python.
    return f"{value}.int.to_bytes(16, 'big')"


def _pack_zero(scalar: Scalar) -> bytes:
    return pack(">" + scalar.code, scalar.zero)


def _unsupported(name: str, version: int) -> None:
    raise UnsupportedVersionError(f"version {version} does not have the field {name}, whose value must not be lost")


def _too_long(size: int) -> None:
    raise InvalidMessageError(f"a text of {size} bytes is longer than 32767")


def _part_size(part: Chunk) -> int:
    return len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size


def _records_size(records: RecordsData | None, nullable: bool) -> int:
    if records is None:
        if not nullable:
            raise InvalidMessageError("records must not be null in this version")
        return -1
    if isinstance(records, bytes | bytearray | memoryview):
        return len(records)
    if isinstance(records, list | tuple):
        return sum([_part_size(part) for part in cast("list[Chunk]", records)])
    return cast("SizedChunk", records).size


def _put_records(records: RecordsData | None, out: list[Chunk], cuts: list[int]) -> None:
    if records is None:
        return
    parts = cast("list[Chunk]", records if isinstance(records, list | tuple) else [records])
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview) or len(part) > INLINE_LIMIT:
            cuts.append(len(out))
        out.append(part)
