"""XXH3, 64 bits, seed 0 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""

from __future__ import annotations

import struct

_M64 = (1 << 64) - 1
_M32 = (1 << 32) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3, _P64_4, _P64_5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // 8
_LANES = struct.Struct("<8Q")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _xorshift(value: int, by: int) -> int:
    return value ^ (value >> by)


def _avalanche(value: int) -> int:
    return _xorshift(_xorshift(value, 37) * _MX1 & _M64, 32)


def _avalanche64(value: int) -> int:
    value = _xorshift(value, 33) * _P64_2 & _M64
    value = _xorshift(value, 29) * _P64_3 & _M64
    return _xorshift(value, 32)


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _M64) ^ (product >> 64)


def _rotl(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _M64


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def xxh3_64(data: bytes) -> int:
    """Return the hash as an unsigned number."""
    length = len(data)
    if length <= 16:
        return _short(data)
    if length <= 128:
        return _medium(data)
    if length <= 240:
        return _upper(data)
    return _long(data)


def _short(data: bytes) -> int:
    length = len(data)
    if length == 0:
        return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))
    if length <= 3:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _avalanche64(combined ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    if length <= 8:
        value = (_u32(data, length - 4) + (_u32(data, 0) << 32)) ^ (_u64(_SECRET, 8) ^ _u64(_SECRET, 16))
        value ^= _rotl(value, 49) ^ _rotl(value, 24)
        value = value * _MX2 & _M64
        value ^= (value >> 35) + length
        return _xorshift(value * _MX2 & _M64, 28)
    low = _u64(data, 0) ^ (_u64(_SECRET, 24) ^ _u64(_SECRET, 32))
    high = _u64(data, length - 8) ^ (_u64(_SECRET, 40) ^ _u64(_SECRET, 48))
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche((length + swapped + high + _fold(low, high)) & _M64)


def _medium(data: bytes) -> int:
    length = len(data)
    total = length * _P64_1
    for index in range((length - 1) // 32, -1, -1):
        total += _mix16(data, 16 * index, 32 * index)
        total += _mix16(data, length - 16 * (index + 1), 32 * index + 16)
    return _avalanche(total & _M64)


def _upper(data: bytes) -> int:
    length = len(data)
    total = length * _P64_1
    for index in range(8):
        total += _mix16(data, 16 * index, 16 * index)
    total = _avalanche(total & _M64)
    for index in range(8, length // 16):
        total += _mix16(data, 16 * index, 16 * (index - 8) + 3)
    total += _mix16(data, length - 16, 136 - 17)
    return _avalanche(total & _M64)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    secrets = _LANES.unpack_from(_SECRET, secret_at)
    for index in range(8):
        keyed = values[index] ^ secrets[index]
        lanes[index ^ 1] = (lanes[index ^ 1] + values[index]) & _M64
        lanes[index] = (lanes[index] + (keyed & _M32) * (keyed >> 32)) & _M64


def _long(data: bytes) -> int:
    length = len(data)
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    scramble = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for stripe in range((length - 1) // _STRIPE):
        within = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, within * 8)
        if within == _STRIPES_PER_BLOCK - 1:
            lanes = [(_xorshift(lane, 47) ^ secret) * _P32_1 & _M64 for lane, secret in zip(lanes, scramble, strict=True)]
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = length * _P64_1
    for index in range(0, 8, 2):
        total += _fold(lanes[index] ^ _u64(_SECRET, 11 + 8 * index), lanes[index + 1] ^ _u64(_SECRET, 19 + 8 * index))
    return _avalanche(total & _M64)
