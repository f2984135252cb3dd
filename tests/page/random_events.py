"""Random events of every kind, made from the protocol's schema; their ids come from a few, so that they meet."""

from __future__ import annotations

import random
from typing import Any, get_args

import msgspec

from jaato.protocol.codec import decode_event
from jaato.protocol.events import Event
from jaato.protocol.events.state import State

IDS = ("a", "b", "7", "__proto__")
TEXTS = ("", "x", "plain text\n", "ä€", "🙂 and 👩‍💻", "y" * 300, "🙂" * 200)
REFS, DEFINITIONS = msgspec.json.schema_components((Event, State))
NAMES = tuple(kind.__name__ for kind in get_args(Event))
LONG = 2_500
"""Characters of the longest texts, which push others out of a state."""


class Maker:
    """Makes values of a schema from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seq = 0

    def events(self, count: int) -> list[dict[str, Any]]:
        """A sequence of events, some of them twice."""
        made: list[dict[str, Any]] = []
        while len(made) < count:
            event = self.event(self.random.choice(NAMES))
            made += [event] * (2 if self.random.random() < 0.1 else 1)
        return made

    def event(self, name: str) -> dict[str, Any]:
        """One event of a kind."""
        made: dict[str, Any] = self.value(DEFINITIONS[name], name)
        self.seq += self.random.random() < 0.8
        made |= {"seq": self.seq, "session_id": "s", "timestamp": f"2026-01-01T00:00:{self.seq % 60:02d}Z"}
        decode_event(msgspec.json.encode(made))
        return made

    def value(self, schema: dict[str, Any], field: str = "", depth: int = 0) -> Any:
        """One value."""
        choose = self.random.choice
        if "$ref" in schema:
            return self.value(DEFINITIONS[schema["$ref"].rpartition("/")[2]], field, depth)
        if "anyOf" in schema:
            return self.value(choose(schema["anyOf"]), field, depth)
        if "enum" in schema:
            return choose(schema["enum"])
        match schema.get("type"):
            case "object":
                return self.mapping(schema, field, depth)
            case "array" if "prefixItems" in schema:
                return [self.value(one, field, depth + 1) for one in schema["prefixItems"]]
            case "array":
                return [
                    self.value(schema["items"], field, depth + 1) for _ in range(self.random.randrange(3))
                ]
            case "string":
                return self.text(field)
            case "integer":
                return self.random.randrange(400)
            case "number":
                return self.random.randrange(1_000) / 8
            case "boolean":
                return choose((True, False))
            case "null":
                return None
        return choose(("text", 3, None, True, [1, "🙂"], {"k": {"n": "m"}}))

    def mapping(self, schema: dict[str, Any], field: str, depth: int) -> dict[str, Any]:
        """One object: with the fields it must have and some of the others, or with a few keys."""
        if "properties" in schema:
            wanted = set(schema.get("required", ()))
            return {
                name: self.value(inner, name, depth + 1)
                for name, inner in schema["properties"].items()
                if name in wanted or (self.random.random() < 0.6 and name != "state")
            }
        inner = schema.get("additionalProperties")
        inner = inner if isinstance(inner, dict) else {}
        return {self.random.choice(IDS): self.value(inner, field, depth + 1) for _ in range(2)}

    def text(self, field: str) -> str:
        """A text: an id where the field is one."""
        if field.endswith("id") or field in ("key", "path", "current"):
            return self.random.choice(IDS)
        if self.random.random() < 0.03:
            return "z" * self.random.randrange(LONG * 10)
        return self.random.choice(TEXTS)
