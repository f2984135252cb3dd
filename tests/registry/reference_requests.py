"""Requests that are sent to our registry and to that of the reference package: valid, wrong and odd ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

ECHO = "/v1/tools/echo:invoke"
CALL = b'{"args":{"text":"x"}}'
ALLOWED = "405 request.method_not_allowed"
SHAPE = "400 request.invalid_shape"
HTTP = "400 request.invalid_http"
NO_TOOL, NO_ROUTE = "404 tool.not_found", "404 route.not_found"
FAILED, ARGUMENTS = "500 tool.execution_error", "400 tool.invalid_args"
DIFFERENCES = {
    "extension": {"200", SHAPE, NO_TOOL, ALLOWED},
    "wrong method": {ALLOWED, NO_ROUTE},
    "HEAD": {"200", "404", "405"},
    "decoded name": {"200", NO_TOOL},
    "long name": {NO_TOOL},
    "slash": {NO_ROUTE},
    "no name": {NO_ROUTE},
    "path parameters": {NO_TOOL},
    "strict JSON": {"400 request.invalid_json"},
    "no object": {SHAPE},
    "context": {SHAPE},
    "schema_version": {SHAPE},
    "deep context": {SHAPE},
    "large number": {SHAPE},
    "large body": {"413 request.too_large"},
    "large head": {"431 request.head_too_large"},
    "content coding": {"415 request.unsupported_encoding"},
    "request id": {"200", NO_ROUTE},
    "chunks": {"200", HTTP},
    "framing": {HTTP},
    "cut off": {"0"},
    "host": {"421 request.misdirected", "403 auth.forbidden", HTTP},
    "JSON Pointer": {ARGUMENTS},
    "exact integers": {"200"},
    "arithmetic": {"200"},
    "handler error": {FAILED},
    "infinity": {FAILED},
    "long argument": {ARGUMENTS},
    "time zones": {"200"},
    "default zone": {"200"},
}
"""Why our answer is another than that of the reference package, and the statuses and codes it then has."""


class Request(NamedTuple):
    """The bytes of one request, and why the answers differ: a key of `DIFFERENCES`, or empty if they are the same. One that is
    `cut_off` has no more bytes."""

    name: str
    data: bytes
    difference: str = ""
    cut_off: bool = False

    @property
    def method(self) -> str:
        """The method, which decides whether the response has a body."""
        return self.data.split(b" ", 1)[0].decode("latin-1")


def request(
    method: str, path: str, body: bytes | None = None, *lines: str, why: str = "", name: str = ""
) -> Request:
    """A request whose body has its length, unless a line says otherwise."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *lines]
    framed = any(line.startswith(("Content-Length:", "Transfer-Encoding:")) for line in lines)
    if body is not None and not framed:
        head.append(f"Content-Length: {len(body)}")
    shown = name or f"{method} {path} {' '.join(lines)} {(body or b'')[:60]!r}"
    return Request(shown, "\r\n".join([*head, "", ""]).encode("latin-1") + (body or b""), why)


def post(data: bytes, why: str = "", *lines: str, name: str = "") -> Request:
    """A call of `echo` with this body."""
    return request("POST", ECHO, data, *lines, why=why, name=name)


def call(tool: str, arguments: Any, why: str = "", **more: Any) -> Request:
    """A call with these arguments."""
    data = json.dumps({"args": arguments, **more}).encode()
    return request("POST", f"/v1/tools/{tool}:invoke", data, why=why)


def pages() -> Iterator[Request]:
    """The list, definitions and other paths."""
    for query in ("", "?", "?a=b&c", "?a=/v1/tools/x"):
        yield request("GET", f"/v1/tools{query}")
    for query in ("limit=1", "tag=nothing", "q=calc", "limit=x", "a=%ff"):
        yield request("GET", f"/v1/tools?{query}", why="extension")
    for name in "echo calc echo?a=b calc? echo?version=0.1.0 ECHO Echo echo2 nothing ech echo.json a.b - * ~ % %zz".split():
        yield request("GET", f"/v1/tools/{name}")
    for name in "ec%68o %65cho no%20tool a%2Fb %F0%9F%99%82 %FF".split():
        yield request("GET", f"/v1/tools/{name}", why="decoded name")
    for name in "echo/ echo/a a/b / /echo".split():
        yield request("GET", f"/v1/tools/{name}", why="slash")
    for name, why in (
        ("time_now", "default zone"),
        ("echo?version=9", "extension"),
        ("x" * 199, ""),
        ("x" * 300, "long name"),
        ("echo;a=b", "path parameters"),
    ):
        yield request("GET", f"/v1/tools/{name}", why=why)
    for path in (
        "/ /v1 /v1/ /v1/tools/ /v1/tools/?a=b /v2/tools /v1/tool /v1/toolsx /v1/tools.json /v1/tools: /V1/TOOLS /v1/Tools"
        " /v1//tools /../v1/tools /v1/./tools /v1%2Ftools /v1/tools%20 /v1/%74ools /ping /favicon.ico /index.html"
    ).split():
        yield request("GET", path)
    yield request("GET", "/a" * 500)
    for path in "/healthz /health /version /metrics /openapi.json /v1/tools:openapi".split():
        yield request("GET", path, why="extension")
    for action in ("batchGet", "batchInvoke", "cancel"):
        yield request("GET", f"/v1/tools:{action}", why="extension")
    yield request("GET", "http://127.0.0.1/v1/tools")
    yield request("GET", "http://127.0.0.1/v1/tools/echo?a=b")
    yield request("GET", "/v1/tools", CALL)
    yield request("GET", "/v1/tools/echo", b"")
    for line in (
        "Accept: text/html",
        "Accept-Language: de",
        "User-Agent: ",
        "Cookie: a=b",
        "Accept-Encoding: br",
    ):
        yield request("GET", "/v1/tools", None, line)


def methods() -> Iterator[Request]:
    """Methods that are allowed or not, by path."""
    for path in ("/v1/tools", "/v1/tools/echo", ECHO, "/v1/tools/nothing", "/nothing"):
        yield request("HEAD", path, why="HEAD")
        for method in "PUT DELETE PATCH OPTIONS TRACE PROPFIND FOO get".split():
            yield request(method, path, why="wrong method")
    yield request("GET", ECHO, why="wrong method")
    yield request("GET", "/v1/tools/nothing:invoke", why="wrong method")
    for path in ("", "/echo", "/nothing", "/echo:INVOKE", "/echo:call", "/echo:invokex"):
        yield request("POST", f"/v1/tools{path}", CALL, why="wrong method")
    for (
        path
    ) in "/ /v1 /v1/tools/ /v1/echo:invoke /v2/tools/echo:invoke /nothing:invoke /v1/tools:invoke".split():
        yield request("POST", path, CALL)
    for name, why in (
        ("echo:invoke/", ""),
        ("echo:invoke:invoke", ""),
        ("echo:invoke?a=b", ""),
        ("echo:invoke?version=0.1.0", ""),
        ("echo:invoke?version=9", "extension"),
        (":invoke", "no name"),
        ("a/b:invoke", "slash"),
        ("%65cho:invoke", "decoded name"),
        ("echo%3Ainvoke", "decoded name"),
    ):
        yield request("POST", f"/v1/tools/{name}", CALL, why=why)


def json_bodies() -> Iterator[Request]:
    """Bodies that are not JSON, not strictly, or not an object with `args`."""
    text = '{"args": {"text": "x"}}'
    for data in (
        *(
            b"",
            b" ",
            b"{",
            b"}",
            b"hello",
            b"{'args': {}}",
            b'{"args": {"text": "x"}',
            b'{"args"}',
            b"nul",
            b"\x00",
        ),
        *(
            b'{"args": {"text": "x"}} x',
            b'{"args": {"text": "x",}}',
            b'{"args": {"text": 01}}',
            b"[" * 20_000,
        ),
        *(b'{"args": {"text": "a\nb"}}', b'{"args": {"text": "\xff"}}', b'{"args": {"text": "\xe4"}}'),
        *(text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-8-sig")),
    ):
        yield post(data)
        yield request("POST", "/v1/tools/nothing:invoke", data)
    for data in (
        b"{}",
        b'{"arguments": {"text": "x"}}',
        b'{"Args": {"text": "x"}}',
        b'{"": {}}',
        b'{"context": {}}',
    ):
        yield post(data)
        yield request("POST", "/v1/tools/nothing:invoke", data)
    for value in (b"null", b"[]", b'"text"', b"1", b"true"):
        yield post(b'{"args": %b}' % value)
        yield post(value, "no object")
    for value in (b"NaN", b"Infinity", b"-Infinity", b'"\\udc00"', b'{"a": 1, "a": 2}'):
        yield post(b'{"args": {"text": "x"}, "context": {"a": %b}}' % value, "strict JSON")
        yield post(b'{"args": {"text": %b}}' % value, "strict JSON")
    yield post(b'{"args": {"text": "a", "text": "b"}}', "strict JSON")
    yield post(b'{"args": {"text": "a"}, "args": {"text": "b"}}', "strict JSON")
    yield post(b" \r\n\t%b \n" % CALL)
    yield post(b'{"\\u0061rgs":{"text":"x"}}')
    yield post(b'{"args":{"text":"%b"}}' % (b"x" * 900_000))
    yield post(b'{"args":{"text":"%b"}}' % (b"x" * 1_200_000), "large body")
    yield post(b"[" * 1_200_000, "large body")


def optional_members() -> Iterator[Request]:
    """`context`, `trace`, `schema_version` and members that are not known."""
    given = {"text": "x"}
    value: Any
    version: Any
    more: dict[str, Any]
    for value in ("here", 1, ["f"], True, []):
        yield call("echo", given, "context", context=value)
        yield call("echo", given, "context", trace=value)
    for value in (
        None,
        {},
        {"a": None},
        {"a": [1, 2.5, "ü", {"b": False}]},
        {"flow_id": "f", "step_id": "s"},
    ):
        yield call("echo", given, context=value)
        yield call("echo", given, trace=value)
        yield call("echo", given, schema_version="0.1.0", context=value, trace=value)
    for version in ("0.1.0", "0.1.1", "0.1.27", None):
        yield call("echo", given, schema_version=version)
    for version in ("0.2.0", "1.0.0", "99", "", "v0.1.0", "0.1", 1, 0.1, [], {}, True):
        yield call("echo", given, "schema_version", schema_version=version)
    for more in ({"extra": 1}, {"summary": "x"}, {"tool_name": "calc"}, {"args2": {}}, {"metrics": None}):
        yield call("echo", given, **more)
    for levels in (2, 50, 99, 100, 101, 200, 250, 300, 800, 50_000):
        why = "deep context" if 256 < levels < 1_000 else ""
        objects = b'{"a":' * levels + b"1" + b"}" * levels
        lists = b'{"a":%b1%b}' % (b"[" * (levels - 1), b"]" * (levels - 1))
        for nested in (objects, lists):
            yield post(
                b'{"args":{"text":"x"},"context":%b}' % nested, why, name=f"{levels} levels {nested[:6]!r}"
            )
    for number, why in (
        (b"%d" % 2**63, ""),
        (b"1e308", ""),
        (b"%d" % 2**70, "large number"),
        (b"1e999", "large number"),
    ):
        yield post(b'{"args":{"text":"x"},"context":{"a":%b}}' % number, why)


def heads() -> Iterator[Request]:
    """Headers of requests."""
    for line in (
        "Content-Type: text/plain|Content-Type: application/json; charset=latin-1|Content-Type: multipart/form-data"
        "|Content-Type: |Accept: text/html|Accept: application/json|Expect: nothing|X-HTTP-Method-Override: DELETE"
        "|Content-Encoding: identity|traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        "|traceparent: nonsense|Date: yesterday"
    ).split("|"):
        yield post(CALL, "", line)
    yield post(CALL, "content coding", "Content-Encoding: gzip")
    yield post(CALL, "extension", "Accept: application/x-ndjson")
    for id_ in f'r-1|abc.DEF_123|a/b=c;d|"quoted"|{{}}|{"x" * 128}|  spaced  |\tr-2|0|req,1||  '.split("|"):
        yield request("GET", "/v1/tools", None, f"X-Request-Id: {id_}")
        yield post(CALL, "", f"X-Request-Id: {id_}")
    for id_ in ("two words", "x" * 129, "\xfc", "a\tb"):
        yield request("GET", "/v1/nothing", None, f"X-Request-Id: {id_}", why="request id")
        yield post(CALL, "request id", f"X-Request-Id: {id_}")
    yield request("GET", "/v1/tools", None, "x-request-id: a", "X-REQUEST-ID: b")
    yield request("GET", "/v1/tools", None, "Origin: https://example.com", why="host")


def framing() -> Iterator[Request]:
    """Lengths, chunks, and request lines."""
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CALL), CALL)
    yield post(chunks, "chunks", "Transfer-Encoding: chunked", name="chunks")
    yield post(CALL, "chunks", "Transfer-Encoding: chunked", name="chunks that are not")
    yield request("POST", ECHO, None, name="no body and no length")
    yield request("POST", "/v1/tools/nothing:invoke", None, name="no body and no length for an unknown tool")
    yield post(CALL, "", "Content-Length: 5", name="less than the bytes of the body")
    yield post(CALL, "framing", "Content-Length: x", name="a length that is not a number")
    yield post(CALL, "framing", "Content-Length: 21", "Content-Length: 22", name="two lengths")
    yield post(CALL, "framing", "Content-Length: -1", name="a negative length")._replace(cut_off=True)
    yield post(CALL, "cut off", "Content-Length: 50", name="a body that is cut off")._replace(cut_off=True)
    listing = request("GET", "/v1/tools")
    for name, sent, other, why in (
        ("another host", b"Host: 127.0.0.1", b"Host: example.com", "host"),
        ("no host", b"Host: 127.0.0.1\r\n", b"", "host"),
        ("HTTP/1.0", b"HTTP/1.1", b"HTTP/1.0", ""),
        ("HTTP/2", b"HTTP/1.1", b"HTTP/2.0", "framing"),
        ("HTTP/0.9", b" HTTP/1.1", b"", "framing"),
        ("a space too many", b" HTTP/1.1", b" /v1 HTTP/1.1", "framing"),
        ("a head of 70 kB", b"Host", b"X-Long: %b\r\nHost" % (b"x" * 70_000), "large head"),
    ):
        yield Request(name, listing.data.replace(sent, other), why)
    yield Request("a line that is not HTTP", b"nonsense\r\n\r\n", "framing")


def echoes() -> Iterator[Request]:
    """Calls of `echo`, and of tools that do not exist."""
    for text in (
        *'|x|ünïcödé 🙂 \u2028|quotes " and \\|\x01\x7f|null| |\ufeff|<b>&'.split("|"),
        "x" * 20_000,
    ):
        yield call("echo", {"text": text})
    value: Any
    for value in (None, 1, 1.5, True, False, [], {}, ["x"], {"text": "x"}, 2**60):
        yield call("echo", {"text": value})
    given: dict[str, Any]
    for given in (
        {},
        {"Text": "x"},
        {"text": "x", "a": 1},
        {"a": 1, "b": 2},
        {"": ""},
        {"text": 1, "b": None},
    ):
        yield call("echo", given)
    yield call("echo", {f"a{number}": number for number in range(30)})
    yield call("echo", {"a/b": 1, "text": "x"}, "JSON Pointer")
    yield call("echo", {"~": 1, "text": "x"}, "JSON Pointer")
    for name in ("nothing", "ECHO", "x" * 100, "a.b", "echo2"):
        yield call(name, {})
        yield call(name, {"text": "x"}, context=None, trace={"flow_id": "f"})
    yield call("x" * 300, {}, "long name")


def calculations() -> Iterator[Request]:
    """Calls of `calc`."""
    for text in (
        "1 1+1 2*(3+4)**2 7/2 -5//2 -5%3 1e3 1e-7 +1 --1 2**-1 ((1)) 1_000 0x10 2**0.5 2**10 2**53 1/3 10**20 5.0 -0.0"
        " 1.5e300 1+ () a x+1 'a' [1] 1<2 True None 1,2 f(1) __import__('os') ().__class__ 1j b'a' ... 1@2 9**9**9"
    ).split():
        yield call("calc", {"expression": text})
    for text in ("1 + 1 ", "1 2", "lambda: 1", "not 1", "[" * 900, f"{'(' * 150}1{')' * 150}"):
        yield call("calc", {"expression": text})
    for text in ("2**53+1", "2**63-1"):
        yield call("calc", {"expression": text}, "exact integers")
    for text in "pi|sqrt(4)|max(1, 2)|0.1+0.2| 1|2 if 1 < 2 else 3|~1|1 << 2|5 & 3|3 \xd7 4".split("|"):
        yield call("calc", {"expression": text}, "arithmetic")
    yield call("calc", {"expression": "1" + "+1" * 150}, "arithmetic")
    for text in "1/0 1//0 1%0 0**-1 10**400 (-8)**0.5".split():
        yield call("calc", {"expression": text}, "handler error")
    yield call("calc", {"expression": "2**1000*2**1000"}, "infinity")
    yield call("calc", {"expression": "1e309"}, "infinity")
    yield call("calc", {"expression": "1" * 5_000}, "long argument")
    value: Any
    for value in ("", 1, None, 1.5, [], {}):
        yield call("calc", {"expression": value})
    for given in ({}, {"expression": "1", "a": 2}, {"expr": "1"}):
        yield call("calc", given)


def times() -> Iterator[Request]:
    """Calls of `time_now`."""
    zone: Any
    for zone in "UTC Europe/Berlin Asia/Tokyo America/New_York Asia/Kolkata Etc/GMT+5 GMT".split():
        yield call("time_now", {"tz": zone})
    for zone in "Nowhere/Atall Europe ../etc/passwd /etc/localtime ü 🙂 -".split():
        yield call("time_now", {"tz": zone})
    for zone in (None, "", "\0", 1, True, [], {}, 1.5):
        yield call("time_now", {"tz": zone})
    for zone in "utc|Z|+02:00|-0330|+1|local| UTC|Europe/Berlin ".split("|"):
        yield call("time_now", {"tz": zone}, "time zones")
    yield call("time_now", {"tz": "x" * 200}, "long argument")
    yield call("time_now", {"tz": "UTC", "a": 1})
    yield call("time_now", {"a": 1, "tz": 1})
    yield call("time_now", {}, "default zone")


REQUESTS = [
    *pages(),
    *methods(),
    *json_bodies(),
    *optional_members(),
    *heads(),
    *framing(),
    *echoes(),
    *calculations(),
    *times(),
]
