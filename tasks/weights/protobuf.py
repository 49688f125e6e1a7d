"""Protocol-buffer messages, such as ONNX models, field by field; no schema and no library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


class Field(NamedTuple):
    """A field of a message. `value`: its bytes, an integer as varint; `whole`: with the tag."""

    number: int
    value: bytes
    whole: bytes


def fields(message: bytes) -> Iterator[Field]:
    """Each field, in order. ValueError when the bytes are not a message."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _read_varint(message, at)
        start, kind = at, tag & 7
        if kind == _VARINT:
            _, at = _read_varint(message, at)
        elif kind == _BYTES:
            size, start = _read_varint(message, at)
            at = start + size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {begin}: this is not an ONNX model")
        if at > len(message):
            raise ValueError("it is cut short: this is not an ONNX model")
        yield Field(tag >> 3, message[start:at], message[begin:at])


def values(message: bytes, number: int) -> list[bytes]:
    """The values of all fields of a number."""
    return [field.value for field in fields(message) if field.number == number]


def varints(data: bytes) -> Iterator[int]:
    """One integer, or a packed list of them."""
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends)."""
    value = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("it is cut short: this is not an ONNX model")


def tagged(number: int, value: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def integer(number: int, value: int) -> bytes:
    """A field of an integer."""
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
