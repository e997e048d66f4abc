"""Protobuf files for tests, made without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

FIELD = descriptor_pb2.FieldDescriptorProto
STRING, INT64, BYTES, ENUM, MESSAGE, UINT64, BOOL, DOUBLE = 9, 3, 12, 14, 11, 4, 8, 1


def field(message: Any, name: str, number: int, type: int, type_name: str = "", *, repeated: bool = False, optional: bool = False) -> None:
    added = message.field.add(name=name, number=number, type=type, label=3 if repeated else 1)
    if type_name:
        added.type_name = type_name
    if optional:
        added.proto3_optional = True
        added.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def shop() -> dict[str, Any]:
    """Classes by name: shop.Money of shop/money.proto, shop.Order and shop.Order.Line, shop.Refund of shop/order.proto."""
    money = descriptor_pb2.FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3")
    message = money.message_type.add(name="Money")
    field(message, "cents", 1, UINT64)
    field(message, "currency", 2, STRING)
    order = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto", package="shop", syntax="proto3", dependency=["shop/money.proto", "google/protobuf/timestamp.proto"]
    )
    states = order.enum_type.add(name="State")
    for number, name in enumerate(("OPEN", "PAID")):
        states.value.add(name=name, number=number)
    message = order.message_type.add(name="Order")
    field(message, "id", 1, INT64)
    field(message, "state", 2, ENUM, ".shop.State")
    field(message, "total", 3, MESSAGE, ".shop.Money")
    field(message, "at", 4, MESSAGE, ".google.protobuf.Timestamp")
    field(message, "lines", 5, MESSAGE, ".shop.Order.Line", repeated=True)
    field(message, "note", 6, STRING, optional=True)
    field(message, "raw", 7, BYTES)
    field(message, "counts", 8, MESSAGE, ".shop.Order.CountsEntry", repeated=True)
    field(message, "before", 9, MESSAGE, ".shop.Order")
    line = message.nested_type.add(name="Line")
    field(line, "article", 1, STRING)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, STRING)
    field(entry, "value", 2, INT64)
    message = order.message_type.add(name="Refund")
    field(message, "reason", 1, STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (money, order):
        pool.AddSerializedFile(file.SerializeToString())
    names = ("Money", "Order", "Order.Line", "Refund")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}
