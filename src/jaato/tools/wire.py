"""The wire format of protocol buffers, as far as a model file needs it: numbered fields of integers and bytes."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, BYTES = 0, 2


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Each field's number and value, in order; numbers of a fixed width come as bytes. Raises `ValueError`."""
    at = 0
    while at < len(data):
        tag, at = integer(data, at)
        match tag & 7:
            case 0:
                value, at = integer(data, at)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = integer(data, at)
            case 5:
                size = 4
            case kind:
                raise ValueError(f"a field of the unknown kind {kind}")
        if size > len(data) - at:
            raise ValueError("a field that goes on behind the end")
        yield tag >> 3, data[at : at + size]
        at += size


def integer(data: memoryview, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends. Raises `ValueError`."""
    value = 0
    for shift, byte in zip(range(0, 64, 7), data[at : at + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    raise ValueError("a number without an end")


def written(value: int) -> bytes:
    """A number that is not negative, as `integer` reads it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def message(*parts: tuple[int, int | str | bytes]) -> bytes:
    """A message of these fields."""
    found: list[bytes] = []
    for number, value in parts:
        if isinstance(value, int):
            found += (written(number << 3 | VARINT), written(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            found += (written(number << 3 | BYTES), written(len(data)), data)
    return b"".join(found)
