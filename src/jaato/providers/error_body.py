"""What a server says went wrong, read out of whatever form it chose: one account for every dialect."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

MAX_SHOWN_CHARS = 600


class Fault(Struct, frozen=True):
    """An error object: each vendor fills some of the fields, the rest is empty.

    `code` and `type` are words in lower case (a numeric code as its digits), `status` is Google's word for it,
    `number` an HTTP status told in the body; the message is one bounded line.
    """

    message: str = ""
    code: str = ""
    type: str = ""
    status: str = ""
    number: int | None = None
    details: list[dict[str, Any]] = []


def read_fault(body: bytes) -> Fault:
    """The fault an error body tells; the message of one that is nothing known is its text."""
    try:
        fault = fault_of(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fault = Fault()
    if fault.message:
        return fault
    text = clip(body[: 4 * MAX_SHOWN_CHARS].decode("utf-8", "replace"))
    return msgspec.structs.replace(fault, message=text)


def fault_of(value: Any) -> Fault:
    """The fault a JSON value tells: an object, one under `error`, text under it, or any of these in a list."""
    if isinstance(value, list) and value:
        value = value[0]
    outer = value if isinstance(value, dict) else {"error": value}
    inner = outer.get("error")
    fields = inner if isinstance(inner, dict) else outer
    said = (fields.get("message"), inner, fields.get("error"), fields.get("detail"), outer.get("message"))
    code = fields.get("code", fields.get("status"))
    number = int(code) if isinstance(code, (int, str)) and is_status(str(code)) else None
    details = fields.get("details")
    return Fault(
        message=clip(next((text for text in said if isinstance(text, str) and text), "")),
        code=str(fields.get("code") or "").lower(),
        type=str(fields.get("type") or "").lower(),
        status=str(fields.get("status") or ""),
        number=number,
        details=[item for item in details if isinstance(item, dict)] if isinstance(details, list) else [],
    )


def is_status(text: str) -> bool:
    """Whether a code is an HTTP status that stands for a failure."""
    return len(text) == 3 and text.isascii() and text.isdecimal() and "400" <= text < "600"


def clip(text: str) -> str:
    """Text of a stranger on one line, bounded."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARS else line[:MAX_SHOWN_CHARS] + " …"
