"""Events of every kind are looked through as a whole as they are part by part."""

from __future__ import annotations

import random
import types
import typing
from typing import Any

import msgspec
import pytest

from jaato.agent.event_redaction import redact_event, redact_struct
from jaato.protocol.codec import encode
from jaato.protocol.events import Event
from jaato.tools.redaction.redactor import PLACEHOLDER, Redactor

VALUE = "S3cret-value/42\n"
TEXTS = (VALUE, f"x {VALUE} y", "sk-" + "Ab1" * 12, "ordinary words of middling length", "", "1", "w" * 250)
KINDS = typing.get_args(Event)


class Author:
    """Writes events with anything in every place."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def made(self, hint: Any) -> Any:
        """A value of this type."""
        choice = self._random.choice
        of = typing.get_args(hint)
        match typing.get_origin(hint) or hint:
            case typing.Literal:
                return choice(of)
            case typing.Union | types.UnionType:
                return self.made(choice(of))
            case kind if kind is list or kind is tuple:
                return kind([self.made(of[0]) for _ in range(choice(range(3)))])
            case kind if kind is dict:
                return {self.made(str): self.made(of[1] if of else Any) for _ in range(choice(range(3)))}
            case kind if kind is str:
                return choice(TEXTS)
            case kind if kind is int or kind is float or kind is bool:
                return kind(choice((0, 1)))
            case kind if kind is type(None):
                return None
            case kind if kind is msgspec.Raw:
                return msgspec.Raw(encode("x"))
            case kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                hints = typing.get_type_hints(kind)
                return kind(**{name: self.made(hints[name]) for name in kind.__struct_fields__})
        return self.made(choice((str, str, int, float, bool, None.__class__, list[Any], dict[str, Any])))


def shown(event: Any) -> str:
    """An event without the digits that are another process's."""
    return PLACEHOLDER.sub("[masked]", repr(event))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_event_is_masked_as_if_part_by_part(kind: Any) -> None:
    """Whatever is in whichever of its fields, in structs within structs, and whatever was known to be clean before."""
    for seed in range(40):
        author = Author(seed)
        event = author.made(kind)
        quick, slow = Redactor({"ONE": VALUE}), Redactor({"ONE": VALUE})
        for text in TEXTS[: seed % 8]:
            quick.mask(text)
        assert shown(redact_event(event, quick)) == shown(redact_struct(event, slow)), seed
