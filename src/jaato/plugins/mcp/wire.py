"""JSON-RPC between us and a server: lines of bytes to the SDK's messages and back, whatever a stranger writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

Id = int | str
MAX_ID_CHARS = 200


class Unreadable(Exception):
    """Bytes that are no message; the text says what they are."""


def encode(message: JSONRPCMessage) -> bytes:
    """A message as one line."""
    return msgspec.json.encode({name: getattr(message, name) for name in ordered(message)}) + b"\n"


def ordered(message: JSONRPCMessage) -> list[str]:
    """The members that were given to a message, in the usual order."""
    given = message.model_fields_set
    return [name for name in type(message).model_fields if name in given]


def decode(line: bytes) -> dict[str, Any]:
    """One line as a JSON object; raises `Unreadable`."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = lenient(line)
    if not isinstance(value, dict):
        raise Unreadable(f"a JSON {type(value).__name__} where an object belongs")
    return value


def lenient(line: bytes) -> Any:
    """JSON with broken characters, which are replaced; raises `Unreadable` for what is no JSON."""
    import json

    try:
        value = json.loads(line.decode("utf-8", "replace"), parse_constant=no_number)
        return msgspec.json.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError, msgspec.DecodeError):
        raise Unreadable("text that is no JSON") from None


def no_number(name: str) -> float:
    """NaN and infinities are no JSON."""
    raise ValueError(name)


def is_id(value: object) -> bool:
    """Whether this can be the id of a request."""
    match value:
        case bool():
            return False
        case int():
            return True
        case str():
            return len(value) <= MAX_ID_CHARS
    return False


def message_of(value: dict[str, Any]) -> JSONRPCMessage:
    """The SDK's message; raises `Unreadable` for an object that is none. Nothing of it is validated twice."""
    import mcp_types as types

    if value.get("jsonrpc") != "2.0":
        raise Unreadable("an object that is no JSON-RPC 2.0")
    method, has_id = value.get("method"), "id" in value
    if has_id and not is_id(value["id"]) and not (value["id"] is None and "error" in value):
        raise Unreadable("a message with an id that is none")
    if method is not None:
        params = value.get("params")
        if not isinstance(method, str) or not isinstance(params, dict | None):
            raise Unreadable("a request without method or parameters that can be read")
        made: dict[str, Any] = {"jsonrpc": "2.0", "method": method} | (
            {"params": params} if params is not None else {}
        )
        if has_id:
            return types.JSONRPCRequest.model_construct(id=value["id"], **made)
        return types.JSONRPCNotification.model_construct(**made)
    match value:
        case {"id": id_, "result": dict() as result}:
            return types.JSONRPCResponse.model_construct(jsonrpc="2.0", id=id_, result=result)
        case {"error": {"code": int() as code, "message": str() as text} as error}:
            data = types.ErrorData.model_construct(code=code, message=text, data=error.get("data"))
            return types.JSONRPCError.model_construct(jsonrpc="2.0", id=value.get("id"), error=data)
    raise Unreadable("an answer without a result")


def error_for(id_: Id, code: int, text: str) -> JSONRPCMessage:
    """An answer in the server's place."""
    import mcp_types as types

    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=types.ErrorData(code=code, message=text))
