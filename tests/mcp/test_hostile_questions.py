"""Servers whose questions are no questions: what can be asked is asked so that it can be read, the rest is declined."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from tests.mcp.hosting import call, hosted
from tests.mcp.raw_http import Asked, hand, honest, stream

from jaato.abc.asker import Clarification
from jaato.errors import ToolError
from jaato.plugins.mcp.calls import CallContext, output_of
from jaato.plugins.mcp.elicitation import elicit
from jaato.plugins.mcp.pool import SessionServers
from jaato.tools.call import Call


def answered(answer: str | None, **params: Any) -> tuple[str, Any, list[Clarification]]:
    """What a question is answered with when the user always says this, and what the user was asked."""
    asked: list[Clarification] = []

    async def clarify(question: Clarification) -> list[str | None]:
        asked.append(question)
        return [answer] * len(question.questions)

    async def main() -> tuple[str, Any]:
        caller = CallContext(Call("c-1", "x", {}), clarify, asyncio.get_running_loop())
        return await elicit("all", caller, SimpleNamespace(message="Which?", **params))

    return *anyio.run(main), asked


def form(answer: str | None, entry: Any, **more: Any) -> tuple[str, Any, list[Clarification]]:
    """The same for a form of one field."""
    return answered(answer, mode="form", requested_schema={"properties": {"it": entry}, **more})


DEEP: Any = []
for _ in range(3_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("entry", "more", "answer", "action", "content"),
    [
        ({"type": "string"}, {"required": 5}, "x", "accept", {"it": "x"}),
        ({"type": "string"}, {"required": [{}, "it"]}, None, "decline", None),
        ({"type": "integer"}, {}, "9" * 400, "decline", None),
        ({"type": "integer"}, {}, "9" * 9_000, "decline", None),
        ({"type": "number"}, {}, "inf", "decline", None),
        ({"type": "integer", "minimum": "x", "maximum": []}, {}, "5", "accept", {"it": 5}),
        ({"enum": [DEEP]}, {}, "5", "decline", None),
        ({"default": DEEP}, {}, None, "decline", None),
        ({"type": ["string"]}, {}, "5", "accept", {"it": "5"}),
        ({"type": "array", "items": {"type": "string"}}, {}, "p, q", "accept", {"it": ["p", "q"]}),
        ({"oneOf": [5, {"title": "x"}]}, {}, "5", "accept", {"it": "5"}),
        (7, {}, "5", "accept", {"it": "5"}),
    ],
)
def test_forms_that_are_none(
    entry: Any, more: dict[str, Any], answer: str | None, action: str, content: Any
) -> None:
    """No schema breaks the call: what does not make sense in it is passed over, what cannot be shown is declined."""
    assert form(answer, entry, **more)[:2] == (action, content)


def test_questions_are_short_and_hide_nothing() -> None:
    """Of choices of a megabyte the beginning is shown; control and direction characters are spelled out."""
    _, _, asked = form("x", {"title": "\x1b[2J\u202eevil", "enum": ["x" * 1_000_000] * 500})
    assert len(str(asked[0].questions)) < 30_000
    assert str(asked[0].questions[0]["question"]).startswith("\\x1b[2J\\u202eevil")


@pytest.mark.parametrize(
    ("url", "action"),
    [
        ("https://example.com:8443/login?x=1#frag", "accept"),
        ("http://localhost:9/x", "accept"),
        ("https://[half", "decline"),
        ("https://evil.example\\.trusted.example/", "decline"),
        ("https://\u0430pple.com/", "decline"),
        ("https://169.254.169.254/latest", "decline"),
        ("https://0xa9fea9fe/latest", "decline"),
        ("https://example.com:99999/", "decline"),
        ('https://example.com/"><script>', "decline"),
        ("http://localhost.evil.example/", "decline"),
        ("https:///x", "decline"),
        ("https://example.com/" + "x" * 3_000, "decline"),
    ],
)
def test_a_page_is_shown_by_the_host_it_leads_to(url: str, action: str) -> None:
    """An address that a person or a browser could take for another is not passed on."""
    got, _, asked = answered("yes", mode="url", url=url)
    assert got == action
    assert len(asked) == (action == "accept")


def test_kinds_of_data_that_are_none() -> None:
    """What a server calls the kind of its data reaches nobody unless it is one."""
    kept: list[bytes | Path] = []

    def keep(data: bytes | Path) -> str:
        kept.append(data)
        return "result:" + "0" * 64

    sound = types.AudioContent(data="AAAA", mime_type='audio/x\r\nX-Evil: 1";\x1b[2J')
    output = output_of(types.CallToolResult(content=[sound]), Call("c-1", "x", {}, keep=keep))
    assert output.media == ()
    assert "application/octet-stream" in output.text
    assert "Evil" not in output.text
    assert kept == [b"\0\0\0"]
    refused = types.CallToolResult(content=[], is_error=True)
    with pytest.raises(ToolError, match="without an error message"):
        output_of(refused, Call("c-1", "x", {}))


def test_a_call_waits_for_the_stream_by_which_the_server_asks(tmp_path: Path) -> None:
    """A server that asks while a call runs does so on the stream of its own: the call is not sent before that is open."""
    heard: list[bool] = []
    opened = threading.Event()

    def listen(connection: socket.socket, _: Asked) -> bool:
        time.sleep(0.3)  # a machine with much to do
        opened.set()
        stream(connection)
        return bool(connection.recv(1))

    def run(connection: socket.socket, asked: Asked) -> bool:
        heard.append(opened.is_set())
        return honest(connection, asked)

    with hand(GET=listen, tools__call=run) as server:

        async def talk(host: SessionServers) -> str:
            return str((await call(host, "far", text="x")).text)

        assert hosted(tmp_path, {"far": {"url": server.url}}, talk) == "x"
    assert heard == [True]
