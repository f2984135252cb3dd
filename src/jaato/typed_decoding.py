"""Decoding into types from any thread. msgspec looks into a type when it is first used, and two threads that do so at the
same time end the process with a segmentation fault (msgspec 0.22): here one looks first, under a lock."""

from __future__ import annotations

from _thread import allocate_lock  # without what `threading` loads
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_LOOKING = allocate_lock()
_PREPARED: set[Any] = set()


def prepare_type(kind: Any) -> None:
    """Have msgspec look into a type and all that it consists of. Raises `TypeError` for one that it cannot decode."""
    with _LOOKING:
        msgspec.json.Decoder(kind)


@overload
def decode_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, kind: Any) -> Any: ...
def decode_json(data: bytes | str, kind: Any) -> Any:
    """JSON text as a value of one of our own types, which is remembered. Raises as `msgspec.json.decode`."""
    _prepare_once(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Plain data as a value of one of our own types, which is remembered. Raises as `msgspec.convert`."""
    _prepare_once(kind)
    return msgspec.convert(value, kind, strict=strict)


def _prepare_once(kind: Any) -> None:
    if kind not in _PREPARED:
        prepare_type(kind)
        _PREPARED.add(kind)
