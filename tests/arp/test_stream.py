"""Results that are streamed: what the tool says is heard while it is under way, and the last word is the result."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import definition, done, failure, shop, streamed
from tests.arp.test_remote_sources import forwarding_registry
from tests.arp.using import configure, offered, plugins
from tests.registry.opened import opened

from jaato.errors import JaatoError
from jaato.plugins.arp.http_client import ResultStream
from jaato.tools.call import Call
from jaato.tools.tool import tool

SSE, LINES = "text/event-stream; charset=utf-8", "application/x-ndjson"
RESULT = json.dumps(done({"n": 7})).encode()


def line(**said: Any) -> bytes:
    """A line of JSON."""
    return json.dumps(said).encode() + b"\n"


def event(name: str, data: bytes, end: bytes = b"\n") -> bytes:
    """A server-sent event, its data in one line or several."""
    lines = [b"event: " + name.encode(), *(b"data: " + one for one in data.split(b"\n")), b"", b""]
    return end.join(lines)


def test_a_stream_in_any_pieces() -> None:
    """Both forms say the same however they are cut, with any end of line; comments, beats and events that nobody knows
    count for nothing, and nothing does after the result."""
    pretty = json.dumps(done({"n": 7}), indent=1).encode()
    lines = line(type="output", text="a") + b"\n" + line(type="progress", at=1) + b"no json\n"
    lines += line(type="output", text="b", dropped=3) + line(type="output", text="")
    lines += (
        b'{"type":"result","result":%b}\n' % RESULT
        + line(type="result", result={})
        + line(type="output", text="c")
    )
    forms: list[tuple[Any, bytes, bytes]] = [("ndjson", lines, RESULT)]
    for end in (b"\n", b"\r\n", b"\r"):
        whole = b"\xef\xbb\xbf: hello" + end + end + event("output", b'{"text": "a"}', end)
        whole += (
            event("other", b"x", end)
            + event("output", b'{"text": "b", "dropped": 3}', end)
            + b"retry: 7"
            + end
        )
        whole += end + event("result", pretty, end) + event("result", b"{}", end)
        forms.append(("sse", whole, pretty))
    for kind, data, result in forms:
        for size in (1, 2, 3, 7, len(data)):
            heard: list[str] = []
            reader = ResultStream(kind, heard.append)
            for at in range(0, len(data), size):
                reader.feed(data[at : at + size])
            assert (kind, size, "".join(heard), reader.end()) == (kind, size, "ab", result)


def test_calls_that_are_streamed(tmp_path: Path) -> None:
    """A call asks for a stream where somebody listens, and hears what is said before the result is there; where nobody
    does, or the registry cannot, the answer is whole. A stream without a result, or without an end, loses the call."""
    go_on = threading.Event()

    async def call(made: Any, *, listens: bool = True) -> tuple[Any, str]:
        heard: list[str] = []

        def hear(text: str) -> None:
            heard.append(text)
            go_on.set()

        found = made.catalog.find("echo")
        more: dict[str, Any] = {"output": hear} if listens else {}
        given = await found.tool.run({"text": "x"}, Call("c-1", "echo", {}, **more))
        return given.structured if given.structured is not None else given.text, "".join(heard)

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        assert await call(made) == ({"tool": "echo", "text": "x"}, "")
        assert it.seen[-1].headers["accept"].startswith("application/x-ndjson")
        assert await call(made, listens=False) == ({"tool": "echo", "text": "x"}, "")
        assert it.seen[-1].headers["accept"] == "application/json"
        last = b'{"type":"result","result":%b}' % RESULT
        forms: tuple[tuple[str, bytes, bytes], ...] = (
            (LINES, line(type="output", text="half \x1b[2J"), last),
            (SSE, event("output", b'{"text": "half \\u001b[2J"}'), event("result", RESULT)),
        )
        for kind, said, result in forms:
            go_on.clear()
            it.lies["POST"] = streamed(kind, said, result, wait=go_on)
            assert await call(made) == ({"n": 7}, "half \\x1b[2J")
        refused = json.dumps(failure("quota.exceeded", "No more.", result=True)).encode()
        it.lies["POST"] = streamed(SSE, event("result", refused))
        with pytest.raises(JaatoError, match=r"No more\."):
            await call(made)
        hostile: tuple[tuple[str, bytes, str], ...] = (
            (LINES, line(type="output", text="x"), "no result"),
            (LINES, b'{"type":"result"}\n', "no result"),
            (LINES, b'{"type":"result","result":{"ok":NaN}}\n', "no result"),
            (LINES, b"\xff\xfe\n[[[[\n", "no result"),
            (SSE, b"event: result\ndata: " + RESULT, "no result"),
            (SSE, event("result", b"[" * 100_000), "no result"),
            (LINES, line(type="output", text="y" * 1_000_000) * 17, "more than 16,000,000 bytes"),
        )
        for kind, data, words in hostile:
            it.lies["POST"] = streamed(kind, data)
            with pytest.raises(JaatoError) as caught:
                await call(made)
            assert (caught.value.code, words in str(caught.value)) == ("registry_call_lost", True), kind
        it.lies["POST"] = streamed(LINES, line(type="output", text="y" * 1_500_000), last)
        assert len((await call(made))[1]) == 1_000_000
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_what_our_own_registry_streams(tmp_path: Path) -> None:
    """What a tool says is heard through our own registry, and through one that serves it on, before it has ended."""
    heard = threading.Event()

    @tool(access="read")
    def talk(call: Call) -> str:
        """Say something, then wait until it was heard."""
        call.output("half way\n")
        assert heard.wait(60)
        return "done"

    async def main() -> None:
        (tmp_path / "served").mkdir()
        async with (
            opened(tmp_path / "served", tools=(talk,)) as one,
            forwarding_registry(tmp_path / "onward", near=one.at.url) as two,
        ):
            for place, url in (("a", one.at.url), ("b", two.at.url)):
                heard.clear()
                (tmp_path / place).mkdir()
                configure(tmp_path / place, it=url)
                made = plugins(tmp_path / place)
                await offered(made)
                found = made.catalog.find("talk")
                assert found is not None
                said: list[str] = []

                def hear(text: str, said: list[str] = said) -> None:
                    said.append(text)
                    heard.set()

                given = await found.tool.run({}, Call(f"c-{place}", "talk", {}, output=hear))
                assert (given.text, "".join(said)) == ("done", "half way\n")
                made.shutdown()

    anyio.run(main)
