"""Just enough of the protobuf wire format to edit what Lance stores without losing anything."""

from __future__ import annotations

from collections.abc import Iterator


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message, each with its tag, as it stands. Raises `ValueError`."""
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                _value, at = varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = varint(data, at)
                at += size
            case 5:
                at += 4
            case kind:
                raise ValueError(f"unknown wire type {kind}")
        if at > len(data):
            raise ValueError("truncated")
        yield tag >> 3, data[start:at]


def values(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message that holds numbers and nested messages only."""
    for field, part in parts(data):
        tag, at = varint(part, 0)
        if tag & 7 == 0:
            yield field, varint(part, at)[0]
        elif tag & 7 == 2:
            yield field, content(part)
        else:
            raise ValueError("unexpected wire type")


def content(part: bytes) -> bytes:
    """Return the bytes inside a length-delimited field."""
    _tag, at = varint(part, 0)
    _size, at = varint(part, at)
    return part[at:]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def encoded(value: int) -> bytes:
    """Return a number as it is written."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def number_field(field: int, value: int) -> bytes:
    """Return a field that holds a number."""
    return encoded(field << 3) + encoded(value)


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field that holds bytes, text or a message."""
    return encoded(field << 3 | 2) + encoded(len(data)) + data
