"""Bodies of calls are read fast where nothing in them is doubtful, and strictly otherwise: both ways read the same."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.protocol.arp import INVOCATION, InvalidJson, InvalidShape, Invocation, decode_invocation, strict

NAMES = (r'"a"', r'"\u0061"', '"args"', '"{"', r'"\":"', '""', r'"\"a\":{"')
FIELDS = ('"args"', '"args"', '"context"', '"trace"', '"x"', r'"\u0061rgs"')
PLAIN = (
    *("1", "-2.5", "null", "true", "NaN", '"{"', r'"\":{"', r'"b\":"', r'"\\"', '"é"', r'"\ud800"', '"a": 1'),
    *('{"a":1,"a":2}', "[]", "{}"),
)
COLONS = st.sampled_from((":", ":", ":", " :", ": "))


def objects(names: Sequence[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as they are written, with names that may stand twice."""
    member = st.builds(
        lambda name, colon, value: name + colon + value, st.sampled_from(names), COLONS, values
    )
    return st.lists(member, max_size=3).map(lambda members: "{" + ",".join(members) + "}")


VALUES = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda some: "[" + ",".join(some) + "]") | objects(NAMES, inner)
    ),
    max_leaves=6,
)
BODIES = objects(FIELDS, objects(NAMES, VALUES) | VALUES)


def read(body: bytes, *, fast: bool) -> Invocation | str:
    """What a body is read as, or how it is refused."""
    try:
        return decode_invocation(body) if fast else strict(body, INVOCATION)
    except (InvalidJson, InvalidShape) as error:
        return error.code


@settings(max_examples=150)
@given(BODIES)
def test_what_is_read_fast_is_what_is_read_strictly(body: str) -> None:
    """No name that stands twice, and nothing else that is no JSON, gets by because a body looks simple."""
    data = body.encode()
    assert read(data, fast=True) == read(data, fast=False)
