"""Answers of a registry in a form that can be compared and recorded; run as a program it records those of the reference package."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec
from bench.registry import REFERENCE, serve_reference
from tests.registry.reference_requests import REQUESTS, Request

from jaato.testing.arp.peer import Reply, read

FILE = Path(__file__).with_name("reference.json")
LONG = 200


class Answer(msgspec.Struct, omit_defaults=True):
    """What is compared of a response: not the words of messages, latencies or the version of HTTP."""

    status: int
    code: str = ""
    media_type: str = ""
    request_id: str = ""
    body: Any = None

    @property
    def outcome(self) -> str:
        """Status and code."""
        return f"{self.status} {self.code}".strip()


class Recorded(msgspec.Struct):
    """The answers of a version of the reference package, each with the name of its request."""

    package: str
    answers: list[tuple[str, Answer]]


def send(port: int, request: Request) -> Answer:
    """What a server answers; status 0 is a connection that is closed without a response."""
    with closing(socket.create_connection(("127.0.0.1", port), 20.0)) as line:
        with suppress(OSError):
            line.sendall(request.data.replace(b"127.0.0.1", b"127.0.0.1:%d" % port, 2))
            if request.cut_off:
                line.shutdown(socket.SHUT_WR)
        try:
            reply = read(line, request.method)
        except (HTTPException, OSError):
            return Answer(0)
    media_type = reply.headers.get("content-type", "").partition(";")[0]
    body = json.loads(reply.body) if media_type == "application/json" and reply.body else None
    error = body.get("error", {}) if isinstance(body, dict) else {}
    return Answer(reply.status, error.get("code", ""), media_type, id_of(request, reply), shape_of(body))


def id_of(request: Request, reply: Reply) -> str:
    """The id of the request if it is its caller's, else whether it has one."""
    id_ = reply.headers.get("x-request-id", "")
    sent = re.search(rb"(?im)^x-request-id:(.*)\r$", request.data)
    given = sent[1].strip().decode("latin-1") if sent else ""
    return id_ if id_ == given else "made" if id_ else "none"


def shape_of(body: Any) -> Any:
    """A body without what differs from call to call, as JSON."""
    match body:
        case list():
            return [[view["name"], *sorted(view)] for view in body]
        case {"parameters": {"properties": properties, "additionalProperties": more, "required": required}}:
            kept = [body[name] for name in ("schema_version", "name", "version")]
            return [kept, [*properties], more, required]
        case {"ok": ok, "schema_version": version, "metrics": metrics, **rest}:
            result = error_shape(body["error"]) if "error" in rest else result_shape(body["result"])
            return [[*body], ok, version, [*metrics], result]
        case {"error": _}:
            return [[*body], error_shape(body["error"])]
    return body


def error_shape(error: dict[str, Any]) -> Any:
    """An error without the words of its messages."""
    assert isinstance(error["message"], str)
    details = dict(error.get("details", {}))
    issues = [
        [issue["path"], sorted(expected) if isinstance(expected, list) else expected, issue.get("actual")]
        for issue in details.pop("issues", [])
        for expected in [issue.get("expected")]
    ]
    if error["code"] == "tool.invalid_args":  # where the reference package has no name
        details.pop("tool_name", None)
    names = [name for name in error if name != "details"]
    return [names, error["retryable"], details, sorted(issues, key=str)]


def result_shape(result: Any) -> Any:
    """A result: of the current time its zone, of a long text its digest, of a value that is not JSON its words."""
    match result:
        case {"tz": zone, "iso": iso}:
            assert abs(datetime.now(UTC) - datetime.fromisoformat(iso)) < timedelta(minutes=5)
            return zone
        case {"text": str() as text} if len(text) > LONG:
            return hashlib.sha256(text.encode()).hexdigest()
        case {"value": float() as value, **rest} if value == float("inf"):
            return {**rest, "value": "Infinity"}
    return result


def main() -> None:
    """Record the answers of the reference package."""
    with (
        tempfile.TemporaryDirectory(prefix="jaato-") as folder,
        serve_reference(Path(folder), "core") as (port, _),
    ):
        answers = [(request.name, send(port, request)) for request in REQUESTS]
    lines = b",\n".join(msgspec.json.encode(answer) for answer in answers)
    FILE.write_bytes(b'{"package": "%b", "answers": [\n%b\n]}\n' % (REFERENCE.encode(), lines))


if __name__ == "__main__":
    main()
