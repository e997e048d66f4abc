"""Generation of readers from bytes to messages. Every length is checked against the remaining bytes before anything is allocated."""

from __future__ import annotations

import struct

from odradek.protocol.codegen import MAX_TAGS, Source, element_size, empty, is_flexible, is_tagged, literal, uuid_of
from odradek.protocol.errors import ProtocolError
from odradek.protocol.schema import Array, Bytes, Field, Message, Reader, Scalar, String, Struct, Uuid
from odradek.protocol.varint import decode_uvarint, decode_uvarint_rest


def build_reader(message: type[Message], version: int) -> Reader:
    """Return the reader of `message` in `version`: a function of `(buffer, start, end, budget)`.

    The function returns the message and the offset after it. `end` must be the length of the buffer: reading past it raises IndexError or
    struct.error.
    """
    generator = _ReaderGenerator(version)
    source = generator.source
    generator.struct_body("o", message)
    source.add("return o, p")
    reader: Reader = source.compile(f"read {message.__name__} version {version}")
    return reader


class _ReaderGenerator:
    def __init__(self, version: int) -> None:
        self.version = version
        self.source = Source("def f(buf, p, end, budget):")
        self.source.names.update(
            new=object.__new__,
            uvarint=decode_uvarint,
            rest=decode_uvarint_rest,
            skip_tags=skip_tags,
            tag_count=_tag_count,
            fail=_fail,
            uuid=uuid_of,
            unpack=struct.unpack_from,
        )
        self._run: list[tuple[str, str]] = []
        self._after: list[str] = []

    def fixed(self, code: str, target: str) -> None:
        self._run.append((code, target))

    def flush(self) -> None:
        if self._run:
            codes = "".join([code for code, _ in self._run])
            targets = [target for _, target in self._run]
            self._run = []
            if codes == "B":
                self.source.add(f"{targets[0]} = buf[p]")
            else:
                method = self.source.struct_method(codes, "unpack_from")
                self.source.add(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {method}(buf, p)")
            self.source.add(f"p += {struct.calcsize('>' + codes)}")
        for line in self._after:
            self.source.add(line)
        self._after = []

    # Structs

    def struct_body(self, owner: str, cls: type[Struct]) -> None:
        source = self.source
        source.add(f"{owner} = new({source.constant(cls, 'C')})")
        tagged: list[Field] = []
        for item in cls.FIELDS:
            target = f"{owner}.{item.name}"
            present = item.versions.includes(self.version)
            if present and not is_tagged(item, self.version):
                self.value(cls, item.type, target, item.nullable.includes(self.version), item.name)
                continue
            constant = isinstance(item.type, Scalar) or item.default_is_none
            source.add(f"{target} = {literal(source, item) if constant else empty(source, cls, item)}")
            if item.tag is not None:
                tagged.append(item)
        if is_flexible(cls, self.version):
            count = source.fresh("t")
            self.fixed("B", count)
            self.flush()
            source.add(f"if {count}:")
            source.depth += 1
            if tagged:
                self.tagged_fields(owner, cls, tagged, count)
            else:
                source.add("p = skip_tags(buf, p - 1, end)")
            source.depth -= 1
        else:
            self.flush()

    def tagged_fields(self, owner: str, cls: type[Struct], fields: list[Field], count: str) -> None:
        source = self.source
        tag, last, size, stop = source.fresh("t"), source.fresh("t"), source.fresh("n"), source.fresh("e")
        source.add(f"{count}, p = tag_count(buf, p - 1, end)")
        source.add(f"{last} = -1")
        source.add(f"for _ in range({count}):")
        source.depth += 1
        source.add(f"{tag}, p = uvarint(buf, p)")
        source.add(f"{size}, p = uvarint(buf, p)")
        source.add(f"{stop} = p + {size}")
        source.add(f"if {tag} <= {last} or {stop} > end: fail('tagged fields out of order or longer than the message')")
        source.add(f"{last} = {tag}")
        keyword = "if"
        for item in fields:
            source.add(f"{keyword} {tag} == {item.tag}:")
            keyword = "elif"
            source.depth += 1
            if is_tagged(item, self.version):
                self.tagged_value(cls, item, f"{owner}.{item.name}")
            else:
                source.add(f"fail('tag {item.tag} does not belong to version {self.version}')")
            source.depth -= 1
        source.add("else:")
        source.add(f"    p = {stop}")
        source.add(f"if p != {stop}: fail('a tagged field has another size than announced')")
        source.depth -= 1

    def tagged_value(self, cls: type[Struct], item: Field, target: str) -> None:
        nullable = item.nullable.includes(self.version)
        if not (isinstance(item.type, str) and nullable):
            self.value(cls, item.type, target, nullable, item.name)
            self.flush()
            return
        source = self.source
        marker = source.fresh("n")
        source.add(f"{marker}, p = uvarint(buf, p)")
        source.add(f"if {marker} == 0: {target} = None")
        source.add("else:")
        source.depth += 1
        self.value(cls, item.type, target, False, item.name)
        self.flush()
        source.depth -= 1

    # Values

    def value(self, cls: type[Struct], wire_type: Scalar | Array | str, target: str, nullable: bool, name: str) -> None:
        if isinstance(wire_type, Array):
            self.array(cls, wire_type, target, nullable, name)
        elif isinstance(wire_type, str):
            self.struct(cls.struct(wire_type), target, nullable)
        elif wire_type is Uuid:
            raw = self.source.fresh("u")
            self.fixed(wire_type.code, raw)
            self._after.append(f"{target} = uuid({raw})")
        elif wire_type.code:
            self.fixed(wire_type.code, target)
        else:
            self.sized(cls, wire_type, target, nullable, name)

    def length(self, cls: type[Struct], code: str) -> tuple[str, bool]:
        """Add the reading of a length. Return its variable (one more than the length if flexible), and whether it is flexible."""
        size = self.source.fresh("n")
        if is_flexible(cls, self.version):
            self.fixed("B", size)
            self.flush()
            self.source.add(f"if {size} > 127: {size}, p = rest(buf, p, {size})")
            return size, True
        self.fixed(code, size)
        self.flush()
        return size, False

    def sized(self, cls: type[Struct], wire_type: Scalar, target: str, nullable: bool, name: str) -> None:
        source = self.source
        size, flexible = self.length(cls, "h" if wire_type is String else "i")
        stop = source.fresh("e")
        source.add(f"if {size}{'' if flexible else ' >= 0'}:")
        source.add(f"    {stop} = p + {size}{' - 1' if flexible else ''}")
        if wire_type is String and flexible:
            source.add(f"    if {size} > 32768: fail('{name}: a text longer than 32767 bytes')")
        source.add(f"    if {stop} > end: fail('{name}: longer than the message')")
        if wire_type is String:
            source.add(f"    {target} = str(buf[p:{stop}], 'utf-8')")
        elif wire_type is Bytes:
            source.add(f"    {target} = bytes(buf[p:{stop}])")
        else:
            source.add(f"    {target} = memoryview(buf)[p:{stop}]")
        source.add(f"    p = {stop}")
        self.null(target, size, nullable, flexible, name)

    def null(self, target: str, size: str, nullable: bool, flexible: bool, name: str) -> None:
        """Add the branch for a length that means null."""
        source = self.source
        if nullable:
            source.add("else:" if flexible else f"elif {size} == -1:")
            source.add(f"    {target} = None")
            if flexible:
                return
        source.add("else:")
        source.add(f"    fail('{name}: null or negative length')")

    def struct(self, cls: type[Struct], target: str, nullable: bool) -> None:
        source = self.source
        owner = source.fresh("o")
        if nullable:
            marker = source.fresh("n")
            self.fixed("b", marker)
            self.flush()
            source.add(f"if {marker} < 0: {target} = None")
            source.add("else:")
            source.depth += 1
            self.struct_body(owner, cls)
            source.add(f"{target} = {owner}")
            source.depth -= 1
        else:
            self.struct_body(owner, cls)
            source.add(f"{target} = {owner}")

    def array(self, cls: type[Struct], wire_type: Array, target: str, nullable: bool, name: str) -> None:
        source = self.source
        size, flexible = self.length(cls, "i")
        element = wire_type.element
        source.add(f"if {size}{'' if flexible else ' >= 0'}:")
        source.depth += 1
        if flexible:
            source.add(f"{size} -= 1")
        width = element_size(cls, element, self.version)
        source.add(f"if {size}{f' * {width}' if width > 1 else ''} > end - p: fail('{name}: more elements than bytes')")
        plain = isinstance(element, Scalar) and bool(element.code) and element is not Uuid
        source.add(f"budget -= {size}{' >> 3' if plain else ''}")
        source.add(f"if budget < 0: fail('{name}: more objects than allowed')")
        if plain and isinstance(element, Scalar):
            source.add(f"{target} = list(unpack(f'>{{{size}}}{element.code}', buf, p))")
            source.add(f"p += {size}{f' * {width}' if width > 1 else ''}")
        else:
            self.elements(cls, element, target, size, name)
        source.depth -= 1
        self.null(target, size, nullable, flexible, name)

    def elements(self, cls: type[Struct], element: Scalar | str, target: str, size: str, name: str) -> None:
        source = self.source
        items = source.fresh("l")
        source.add(f"{target} = {items} = []")
        source.add(f"for _ in range({size}):")
        source.depth += 1
        owner = source.fresh("o")
        if isinstance(element, str):
            self.struct_body(owner, cls.struct(element))
        else:
            self.value(cls, element, owner, False, name)
            self.flush()
        source.add(f"{items}.append({owner})")
        source.depth -= 1


def _fail(message: str) -> None:
    raise ProtocolError(message)


def _tag_count(buffer: bytes | memoryview, offset: int, end: int) -> tuple[int, int]:
    count, offset = decode_uvarint(buffer, offset)
    if count > MAX_TAGS or 2 * count > end - offset:
        raise ProtocolError(f"{count} tagged fields")
    return count, offset


def skip_tags(buffer: bytes | memoryview, offset: int, end: int) -> int:
    """Skip a section of unknown tagged fields and return the offset after it. Raises ProtocolError for a malformed section."""
    count, offset = _tag_count(buffer, offset, end)
    last = -1
    for _ in range(count):
        tag, offset = decode_uvarint(buffer, offset)
        size, offset = decode_uvarint(buffer, offset)
        offset += size
        if tag <= last or offset > end:
            raise ProtocolError("tagged fields out of order or longer than the message")
        last = tag
    return offset
