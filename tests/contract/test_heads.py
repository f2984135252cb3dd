"""Heads of requests: methods nobody has heard of, names of a server, conditions in several lines."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
from tests.contract.serving import Opened, opened, run, run_both
from tests.server.serving import served

from jaato.testing.arp.peer import Served, fails, refuses, result_of

LIST = "/v1/tools"
BODY = b'{"args": {"text": "x"}}'
SIZE = f"content-length: {len(BODY)}"
NAMES = ("127.0.0.1", "localhost", "LocalHost:1", "127.0.0.1:65535", "[::1]", "[::1]:80")
OTHERS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "127.0.0.1:{port}:1",
    "localhost:{port}.evil.example",
    "a@127.0.0.1",
    "::1",
    "127.0.0.1:",
    "127.0.0.1:x",
    "",
)


def is_told_the_methods(at: Served) -> None:
    """A method nobody has heard of is another method: 405, with those there are, and its body is read."""
    get = at.head("GET", LIST)
    for method in ("FOO", "get", "BREW", "M-NOTHING", "CONNECT"):
        reply, behind = at.raw(at.head(method, LIST, SIZE) + BODY + get, method, "GET")
        refuses(reply, 405, "request.method_not_allowed")
        assert reply.headers["allow"] == "GET, HEAD"
        assert behind.status == 200
    (reply,) = at.raw(at.head("FOO", "/nowhere"), "FOO")
    refuses(reply, 404, "route.not_found")


def test_a_method_nobody_has_heard_of_is_another_method(tmp_path: Path) -> None:
    """Both doors answer 405 with `Allow`, and go on reading."""

    async def main() -> None:
        async with opened(tmp_path / "alone") as one, served(tmp_path / "door", []) as server:
            await anyio.to_thread.run_sync(is_told_the_methods, one.at)
            door = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            (reply,) = await anyio.to_thread.run_sync(door.raw, door.head("FOO", LIST), "FOO")
            refuses(reply, 405, "request.method_not_allowed")
            assert reply.headers["allow"] == "GET, HEAD"

    anyio.run(main)


def test_what_is_no_method_is_no_request(tmp_path: Path) -> None:
    """What is no token, or stands where no request begins, is 400 at both doors."""

    def check(at: Served) -> None:
        get = at.head("GET", LIST)
        for wrong in (
            b"F(O /v1/tools",
            b"\x00 /v1/tools",
            b"F" * 33 + b" /v1/tools",
            b"FOO  /v1/tools",
            b"FOO",
        ):
            (reply,) = at.raw(get.replace(b"GET /v1/tools", wrong), "GET")
            assert reply.status == 400
        first, second = at.raw(get + at.head("FOO", LIST) + get, "GET", "FOO")
        assert first.status == 200
        refuses(second, 400, "request.invalid_http")
        first, second = at.raw(at.head("FOO", LIST) + at.head("BAR", LIST), "FOO", "BAR")
        refuses(first, 405, "request.method_not_allowed")
        refuses(second, 400, "request.invalid_http")

    run_both(tmp_path, check)


def test_a_port_that_is_forwarded_is_no_other_name(tmp_path: Path) -> None:
    """On loopback the server is called by any port and by none; any other name is refused, also one that looks alike."""

    def body(one: Opened) -> None:
        own = one.at.url.removeprefix("http://")
        get = one.at.head("GET", LIST)
        for name in NAMES:
            assert one.at.raw(get.replace(own.encode(), name.encode()), "GET")[0].status == 200, name
        for other in OTHERS:
            said = get.replace(own.encode(), other.format(port=own.partition(":")[2]).encode())
            refuses(one.at.raw(said, "GET")[0], 421, "request.misdirected")

    run(tmp_path, body)


def test_http_1_0_needs_no_name(tmp_path: Path) -> None:
    """A health check in HTTP/1.0 says no `Host`; two names, and one that is another, are refused there too. Its connection
    ends with the answer, also where it asks to keep it."""

    def body(one: Opened) -> None:
        old = one.at.head("GET", "/healthz").replace(b"HTTP/1.1", b"HTTP/1.0")
        line = old.split(b"\r\n")[1] + b"\r\n"
        assert one.at.raw(old.replace(line, b""), "GET")[0].status == 200
        page = old.replace(line, b"origin: http://evil.example\r\n")
        refuses(one.at.raw(page, "GET")[0], 403, "auth.forbidden")
        kept = old.replace(b"\r\n\r\n", b"\r\nconnection: keep-alive\r\n\r\n")
        (first,) = one.at.raw(kept, "GET")
        assert first.headers["connection"] == "close"
        refuses(one.at.raw(old.replace(line, line + line), "GET")[0], 400, "request.invalid_http")
        refuses(
            one.at.raw(old.replace(line, b"host: evil.example\r\n"), "GET")[0], 421, "request.misdirected"
        )

    run(tmp_path, body)


def test_a_condition_may_be_in_several_lines(tmp_path: Path) -> None:
    """Tags of all `If-None-Match` lines are one list (RFC 9110, 5.3)."""

    def body(one: Opened) -> None:
        for path, method in ((LIST, "GET"), (LIST, "HEAD"), (f"{LIST}?tag=core", "GET")):
            tag = one.at.send("GET", path).headers["etag"]
            given = ('if-none-match: "other"', f"if-none-match: W/{tag}")
            assert one.at.raw(one.at.head(method, path, *given), method)[0].status == 304

    run(tmp_path, body)


def test_what_is_no_json_is_told_in_words_about_it(tmp_path: Path) -> None:
    """The refusal says where the body is wrong, and not what a decoder thought of the piece it was at."""
    wrong = {
        b'{"args": {"text": "\xff"}}': "its byte 19 is not UTF-8",
        b'{"args": {"text": "\\ud800"}}': "half a character",
        b'{"args": {"text": "\\udc00x"}}': "half a character",
        b'{"args": {"text": "x"}, "context": {"\\ud800": 1}}': "half a character",
        b" \n ": "it is empty",
        b"": "it is empty",
        b'{"args": {"text": "x", "text": "y"}}': "the same name twice",
    }

    def body(one: Opened) -> None:
        for sent, words in wrong.items():
            error = fails(one.at.invoke("echo", sent), 400, "request.invalid_json")
            assert words in error["message"], (sent, error)
            assert "codec" not in error["message"]
        reply = one.at.send("GET", f"{LIST}/%FF")
        refuses(reply, 404, "tool.not_found")
        assert "''" not in reply.json["error"]["message"]
        assert result_of(one.at.invoke("echo", BODY), 200)["result"] == {"text": "x"}

    run(tmp_path, body)


def test_a_page_that_cannot_be_made_is_answered(tmp_path: Path) -> None:
    """A tool whose description nobody can send is the registry's fault: it says so, at both doors, and the line goes on."""

    def body(one: Opened) -> None:
        get = one.at.head("GET", LIST, "x-request-id: r-1")
        first, second = one.at.raw(get + one.at.head("GET", f"{LIST}/echo"), "GET", "GET")
        refuses(first, 500, "registry.failed")
        assert (first.headers["x-request-id"], second.status) == ("r-1", 200)

    def odd() -> None:
        pass

    odd.__doc__ = "half a \ud800"
    run(tmp_path, body, tools=(odd,))
