"""Hypothesis strategies for every struct of the protocol, made from their annotations."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from jaato.protocol.commands import Command
from jaato.protocol.events import Event
from jaato.protocol.messages import Message

EVENT_TYPES: tuple[type[Any], ...] = get_args(Event)
COMMAND_TYPES: tuple[type[Any], ...] = get_args(Command)

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MADE: dict[type[Any], st.SearchStrategy[Any]] = {}
"""Those of the structs, each made once."""


def strategy(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a type as msgspec describes it."""
    match kind:
        case inspect.AnyType():
            return JSON
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return st.integers(-(2**63), 2**63 - 1)
        case inspect.FloatType():
            return FLOATS
        case inspect.StrType():
            return TEXT
        case inspect.BytesType():
            return st.binary(max_size=20)
        case inspect.RawType():
            return JSON.map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.ListType(item_type=item):
            return st.lists(strategy(item), max_size=2)
        case inspect.VarTupleType(item_type=item):
            return st.lists(strategy(item), max_size=2).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*[strategy(item) for item in items])
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(strategy(key), strategy(value), max_size=2)
        case inspect.UnionType(types=kinds):
            return st.one_of([strategy(item) for item in kinds])
        case inspect.StructType(cls=cls, fields=fields):
            if cls not in MADE:
                MADE[cls] = struct_of(cls, {field.name: strategy(field.type) for field in fields})
            return MADE[cls]
    raise TypeError(kind)


def struct_of(cls: type[Any], fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Values of a struct; its description stays short, however many structs are within it."""

    @st.composite
    def built(draw: st.DrawFn) -> Any:
        return cls(**{name: draw(field) for name, field in fields.items()})

    return built()


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a struct, or of any type msgspec knows."""
    return strategy(inspect.type_info(kind))


EVENTS = st.sampled_from(EVENT_TYPES).flatmap(values_of)
COMMANDS = st.sampled_from(COMMAND_TYPES).flatmap(values_of)
MESSAGES = values_of(Message)
