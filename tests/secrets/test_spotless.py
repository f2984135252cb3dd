"""Events are looked through as a whole before they are taken apart: nothing secret may be missed by that."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.agent.event_redaction import redact_event, redact_struct
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, MessageModel, Permission, SharedUpdated, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import Message, Opaque, Part, Problem, Text, Thinking, ToolCall, ToolResult
from jaato.tools.redaction.redactor import PLACEHOLDER, Redactor

VALUE, LATER = "S3cret-value/42\n", 'another \\ "one" 7'
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        (
            VALUE,
            f"x {VALUE} y",
            LATER,
            f"<{LATER}>",
            VALUE[:9],
            "sk-" + "Ab1" * 12,
            "see https://u:Passw0rd1x@host/",
            "ordinary words of middling length",
        )
    ),
)
DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
HEAD: dict[str, Any] = {"session_id": "s", "agent_id": "a", "seq": 1, "timestamp": "2026-01-01T00:00:00.000Z"}


def start(arguments: dict[str, Any], reason: str) -> Event:
    """A call with these arguments."""
    permission = Permission("allowed", reason, "default")
    origin = {"request_id": reason}
    return ToolCallStart(
        **HEAD,
        call_id="c",
        tool="t",
        arguments=arguments,
        turn_id=None,
        permission=permission,
        origin=origin,
    )


def end(text: str, value: Any, problem: str | None) -> Event:
    """A call that ended so."""
    error = None if problem is None else Problem(code="x", message=problem, details={"issues": [value]})
    result = ToolResult("c", "t", error is None, [Text(text)], value, error=error)
    return ToolCallEnd(
        **HEAD, call_id="c", tool="t", result=result, duration_s=0.1, permission=None, continuation_id=None
    )


def reply(text: str, thought: str, opaque: str | None, arguments: dict[str, Any]) -> Event:
    """What a model said."""
    parts: list[Part] = [
        Text(text),
        Thinking(thought, opaque=None if opaque is None else Opaque("p", msgspec.Raw(encode(opaque)))),
        ToolCall("c", "t", arguments),
    ]
    return MessageModel(
        **HEAD, message=Message("assistant", parts, id="m"), turn_id="t", finish_reason="stop"
    )


EVENTS = st.one_of(
    st.builds(start, st.dictionaries(TEXTS, DATA, max_size=3), TEXTS),
    st.builds(end, TEXTS, DATA, st.none() | TEXTS),
    st.builds(reply, TEXTS, TEXTS, st.none() | TEXTS, st.dictionaries(TEXTS, DATA, max_size=2)),
    st.builds(lambda key, value: SharedUpdated(**HEAD, key=key, value=value), TEXTS, DATA),
)


def shown(event: Event) -> str:
    """An event as it is stored, without the digits that are another process's."""
    return PLACEHOLDER.sub("[masked]", encode(event).decode())


@settings(max_examples=60)
@given(st.lists(EVENTS, min_size=1, max_size=6), st.booleans())
def test_an_event_is_masked_as_if_each_of_its_parts_were_looked_at(events: list[Event], shapes: bool) -> None:
    """Whatever was looked at before, and whatever becomes secret meanwhile."""
    quick = Redactor({"ONE": VALUE}, shapes=shapes)
    for number, event in enumerate(events):
        if number == 3:
            quick.add("TWO", LATER)
        known = {"ONE": VALUE} | ({"TWO": LATER} if number >= 3 else {})
        masked = redact_event(event, quick)
        assert shown(masked) == shown(redact_struct(event, Redactor(known, shapes=shapes)))
        assert (masked is event) == (encode(masked) == encode(event))


def test_data_of_a_kind_of_its_own_is_looked_at_too() -> None:
    """A text, a list or an object of another class than the plain ones hides nothing; nor do very many."""

    class Word(str):
        """A text."""

        __slots__ = ()

    class Table(dict):  # type: ignore[type-arg]
        """An object."""

    secrets = Redactor({"ONE": VALUE})
    for value in (Word(VALUE), Table(a=VALUE), [Table({VALUE: 1})], (1, [VALUE]), [*range(200_000), VALUE]):
        masked = redact_event(start({"a": value}, "r"), secrets)
        assert VALUE not in msgspec.json.encode(masked).decode().replace("\\n", "\n")


class Late(Redactor):
    """Comes to know a value while a text is looked at."""

    def _holds(self, text: str) -> bool:
        found = super()._holds(text)
        if not found:
            self.add("TWO", LATER)
        return found


def test_a_text_is_not_taken_for_clean_that_became_secret_while_it_was_looked_at() -> None:
    """What another thread makes known meanwhile counts for every text that comes after."""
    one, other = Late({"ONE": VALUE}), Late({"ONE": VALUE})
    assert one.mask(LATER) == LATER
    assert one.mask(LATER) != LATER
    assert other.is_clean([LATER], other.clean)
    assert LATER not in other.clean
