"""What the headers of a call ask for besides the call: a key against doing it twice, a stream, less time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from jaato.protocol.arp import InvalidShape
from jaato.server.registry.request import Headers

Form = Literal["sse", "ndjson"]
WISHES = frozenset((b"accept", b"idempotency-key", b"prefer"))
USUAL = frozenset(((b"accept", b"*/*"), (b"accept", b"application/json")))
"""What many clients always send, and ask for nothing by."""
FORMS: dict[bytes, Form] = {
    b"text/event-stream": "sse",
    b"application/x-ndjson": "ndjson",
    b"application/ndjson": "ndjson",
}
CONTENT_TYPES: dict[Form, bytes] = {"sse": b"text/event-stream", "ndjson": b"application/x-ndjson"}
KEY = re.compile(rb'"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x2b\x2d-\x3a\x3c-\x7e]{1,255})')
"""A string of structured fields (RFC 9651), or the same without its quotes, as most send it."""
KEY_PATTERN = r'^("[ !#-\[\]-~]{1,255}"|[!#-+\--:<-~]{1,255})$'
"""The same as others write it (ECMA-262)."""
WAIT = re.compile(rb'wait\s*=\s*"?([0-9]{1,9})"?', re.IGNORECASE)
QUALITY = re.compile(rb"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wishes:
    """A `key` that makes the call one that is done once, the `form` of a stream, and at most how long to wait."""

    key: str = ""
    form: Form | None = None
    wait_s: float | None = None


NONE = Wishes()


def wishes_of(headers: Headers) -> Wishes:
    """What these headers ask for. Raises `InvalidShape` for a key that is none, or more than one."""
    found = [one for one in headers if one[0] in WISHES]
    if not found or (len(found) == 1 and found[0] in USUAL):
        return NONE
    found = [one for one in found if one not in USUAL]
    if not found:
        return NONE
    keys = [value for name, value in found if name == b"idempotency-key"]
    accepted = b",".join([value for name, value in found if name == b"accept"])
    preferred = b",".join([value for name, value in found if name == b"prefer"])
    key, form, wait_s = key_of(keys), form_of(accepted) if accepted else None, wait_of(preferred)
    return Wishes(key, form, wait_s) if key or form is not None or wait_s is not None else NONE


def key_of(values: list[bytes]) -> str:
    """The key of a call, empty where there is none. Raises `InvalidShape`."""
    if not values:
        return ""
    match = KEY.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        raise InvalidShape(
            'Idempotency-Key is one string of 1 to 255 visible ASCII characters: Idempotency-Key: "8e03978e".'
        )
    return (match[1] or match[2]).decode("ascii")


def form_of(accept: bytes) -> Form | None:
    """The form of the stream that is asked for: where it is liked as well as a plain answer that is named, there is none."""
    streams: dict[Form, float] = {}
    plain: dict[bytes, float] = {}
    for part in accept.lower().split(b","):
        kind, *parameters = [one.strip() for one in part.split(b";")]
        quality = quality_of(parameters)
        if kind in FORMS:
            streams.setdefault(FORMS[kind], quality)
        else:
            plain[kind] = quality
    best = max(streams, key=lambda form: streams[form], default=None)
    if best is None or not streams[best]:
        return None
    if b"application/json" in plain:
        return best if streams[best] > plain[b"application/json"] else None
    return best if streams[best] >= max(plain.get(b"application/*", 0.0), plain.get(b"*/*", 0.0)) else None


def quality_of(parameters: list[bytes]) -> float:
    """How much something is wanted, from 0 to 1 (RFC 9110, 12.4.2); what cannot be read is not wanted."""
    for parameter in parameters:
        if parameter.startswith(b"q"):
            match = QUALITY.fullmatch(parameter)
            return 0.0 if match is None else float(match[1])
    return 1.0


def wait_of(prefer: bytes) -> float | None:
    """How long the caller prefers to wait, in seconds (RFC 7240, 4.3): the first that says so."""
    for part in prefer.split(b","):
        match = WAIT.fullmatch(part.partition(b";")[0].strip())
        if match is not None:
            return float(match[1])
    return None
