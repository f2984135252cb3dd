"""The registry that is checked, and how it is spoken to: whole requests, and bytes as they are."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from jaato.protocol.arp import REQUEST_ERRORS

PATIENCE_S = 20.0
SHOWN_CHARS = 300
SHOWN = (
    "allow",
    "content-type",
    "etag",
    "content-encoding",
    "connection",
    "www-authenticate",
    "x-request-id",
)
SECRET = re.compile(rb"authorization: [^\r\n]*\r\n", re.IGNORECASE)
RESULT = {"schema_version", "ok", "metrics"}
ERROR = {"schema_version", "code", "message", "retryable"}


@dataclass(frozen=True)
class Reply:
    """What came back; header names are in lower case, and the last of a name counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        kept = {name: value for name, value in self.headers.items() if name in SHOWN}
        return f"{self.status} {format_headers(kept)}{format_body(self.body)}"

    @property
    def json(self) -> Any:
        """The body, which has to be JSON as RFC 8259 has it."""
        kind = self.headers.get("content-type", "")
        assert kind.split(";")[0].strip() == "application/json", f"the content type is {kind!r}"
        return json.loads(self.body.decode(), parse_constant=no_constant)


def format_headers(headers: Mapping[str, str]) -> str:
    """Headers in one line, without secrets."""
    kept = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return "".join(f"{name}: {value[:60]}, " for name, value in kept.items()).rstrip(", ") + " " * bool(kept)


def format_body(data: bytes) -> str:
    """The beginning of some bytes, without the line with the secret."""
    text = SECRET.sub(b"", data[:2_000]).decode("utf-8", "backslashreplace")
    return text[:SHOWN_CHARS].replace("\r\n", "\u240d\u240a") + ("\u2026" if len(text) > SHOWN_CHARS else "")


def no_constant(text: str) -> None:
    """Refuse NaN and the infinities."""
    raise AssertionError(f"the body has {text}, which is no JSON")


class Skip(Exception):
    """A sentence that cannot be checked here: its words say why."""


@dataclass(frozen=True)
class Exchange:
    """What was sent, and what came back, as far as a reader needs it."""

    sent: str
    got: str


@dataclass(frozen=True)
class Served:
    """A registry by its URL. `tool` can be called with `arguments` (JSON), and as often as one likes.

    `denied`, `raising` and `pair` are tools that show what `core` cannot: one that may not be called, one whose handler
    raises an exception with `secret` in its words, and one that takes whole numbers `a` and `b`. `seen` is filled.
    """

    url: str
    token: str = ""
    tool: str = "echo"
    arguments: str = '{"text": "x"}'
    denied: str = ""
    raising: str = ""
    secret: str = ""
    pair: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = PATIENCE_S
    seen: list[Exchange] = field(default_factory=list)

    @property
    def call(self) -> bytes:
        """The body of a call that can be made."""
        return b'{"args": %b}' % self.arguments.encode()

    @property
    def at_tool(self) -> str:
        """The path of the tool's definition."""
        return f"/v1/tools/{self.tool}"

    def need(self, *tools: str) -> None:
        """Raises `Skip` where a tool is not there."""
        views = self.send("GET", "/v1/tools").json
        there = (
            {view.get("name") for view in views if isinstance(view, dict)}
            if isinstance(views, list)
            else set()
        )
        missing = [one for one in tools if one not in there]
        if missing:
            raise Skip(f"it has no tool {' and no tool '.join(missing)}")

    def connection(self) -> HTTPConnection:
        """A connection to it, not yet opened."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=self.patience_s)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        with closing(self.connection()) as connection:
            return self.on(connection, method, path, body, **headers)

    def on(
        self, connection: HTTPConnection, method: str, path: str, body: Any = None, **headers: str
    ) -> Reply:
        """One request on this connection."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            given.setdefault("content-type", "application/json")
        shown = f"{method} {path} {format_headers(given)}{format_body(data or b'')}"
        self.seen.append(Exchange(shown, "nothing"))
        connection.request(method, urlsplit(self.url).path.rstrip("/") + path, data, {**self.own(), **given})
        reply = reply_of(connection.getresponse())
        self.seen[-1] = Exchange(shown, str(reply))
        return reply

    def own(self) -> dict[str, str]:
        """The headers of every request."""
        return {**self.headers, **({"authorization": f"Bearer {self.token}"} if self.token else {})}

    def invoke(self, tool: str, body: Any, **headers: str) -> Reply:
        """A call, whose body is as given."""
        return self.send("POST", f"/v1/tools/{tool}:invoke", body, **headers)

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The head of a request as bytes."""
        parts = urlsplit(self.url)
        own = [f"{name}: {value}" for name, value in self.own().items()]
        target = parts.path.rstrip("/") + path
        return "\r\n".join(
            [f"{method} {target} HTTP/1.1", f"host: {parts.netloc}", *own, *lines, "", ""]
        ).encode()

    def line(self) -> socket.socket:
        """A connection for bytes."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        made = socket.create_connection((parts.hostname or "", port), self.patience_s)
        if parts.scheme == "https":
            return ssl.create_default_context().wrap_socket(made, server_hostname=parts.hostname)
        return made

    def raw(self, data: bytes, *methods: str) -> list[Reply]:
        """What comes back for these bytes: an answer for each of these methods, in order."""
        with closing(self.line()) as line:
            self.seen.append(Exchange(format_body(data), "nothing"))
            line.sendall(data)
            replies: list[Reply] = []
            for method in methods:
                replies.append(read(line, method))
                self.seen[-1] = Exchange(format_body(data), "; ".join(str(reply) for reply in replies))
            return replies


def read(line: socket.socket, method: str = "GET") -> Reply:
    """The next response on a connection, without reading ahead."""
    response = HTTPResponse(UnbufferedSocket(line), method=method)  # type: ignore[arg-type]  # all it needs is makefile
    response.begin()
    return reply_of(response)


class UnbufferedSocket:
    """A socket whose file reads no more than is asked for, so that the next response stays in it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def makefile(self, mode: str) -> Any:
        """The file, with a buffer of one byte."""
        return self._line.makefile("rb", buffering=1)


def reply_of(response: HTTPResponse) -> Reply:
    """A response, read."""
    body = response.read()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


Check = Callable[[Served], None]


def is_error(error: Any, code: str) -> None:
    """Whether it is an error of the contract's, with this code."""
    assert isinstance(error, dict), f"the error is {error!r:.200}"
    assert ERROR <= set(error) <= ERROR | {"details"}, f"an error has the keys {sorted(error)}"
    assert error["schema_version"] == "0.1.0"
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    assert isinstance(error.get("details", {}), dict)
    assert error["code"] == code, f"the code is {error['code']}, not {code}: {error['message']}"


def refuses(reply: Reply, status: int, code: str) -> None:
    """Whether this is an error that is not the result of a call."""
    assert reply.status == status, f"the status is {reply.status}, not {status}: {reply.body[:200]!r}"
    is_error(error_in(reply), code)


def error_in(reply: Reply) -> Any:
    """The error of a body `{"error": ...}`; older registries send it bare."""
    body = reply.json
    return body["error"] if isinstance(body, dict) and set(body) == {"error"} else body


def result_of(reply: Reply, status: int) -> dict[str, Any]:
    """The whole result, which every answer to a call is."""
    assert reply.status == status, f"the status is {reply.status}, not {status}: {reply.body[:200]!r}"
    result: dict[str, Any] = reply.json
    wanted = RESULT | {"result" if status == 200 else "error"}
    assert set(result) == wanted, f"a result has the keys {sorted(result)}"
    assert result["schema_version"] == "0.1.0"
    assert result["ok"] is (status == 200)
    latency = result["metrics"]["latency_ms"]
    assert isinstance(latency, (int, float))
    assert not isinstance(latency, bool)
    assert latency >= 0
    return result


def fails(reply: Reply, status: int, code: str) -> dict[str, Any]:
    """The error of a call that failed so."""
    if code in REQUEST_ERRORS and "ok" not in reply.json:  # older registries send a result
        refuses(reply, status, code)
        return dict(error_in(reply))
    error: dict[str, Any] = result_of(reply, status)["error"]
    is_error(error, code)
    return error
