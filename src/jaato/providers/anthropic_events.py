"""The events of the Anthropic Messages stream, as data."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

DIALECT = "anthropic"


class Started(Struct):
    model: str | None = None
    usage: Any = None


class StopDetails(Struct):
    explanation: str | None = None


class Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Opened(Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    id: str | None = None
    name: str = ""
    input: Raw = Raw(b"{}")


class Event(Struct):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: Raw = Raw()
    message: Started | str | None = None
    usage: Any = None
    error: Any = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


EVENTS = msgspec.json.Decoder(Event)
OPENED = msgspec.json.Decoder(Opened)
