"""Servers made with the official SDK: both eras, every way to them, everything they can offer."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.hosting import SERVERS, call, hosted

from jaato.abc.asker import Clarification
from jaato.plugins.mcp.calls import prompt_output, resource_output
from jaato.plugins.mcp.errors import ServerFault, ServerRefusal
from jaato.plugins.mcp.manifest import Manifest, save
from jaato.plugins.mcp.pool import SessionServers, call_context
from jaato.tools.call import Call

READY = str(SERVERS / "ready.py")
ERAS = ["2026-07-28", "2025-11-25"]
Line = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """The command line of a server that is there at once."""
    path = str(tmp_path_factory.mktemp("ready") / "socket")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, READY, path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield lambda way: [sys.executable, "-I", "-S", READY, path, way]
        process.communicate()  # the end of its input is its end


@pytest.fixture
def stdio(line: Line) -> dict[str, Any]:
    """The server at its standard streams, as it is configured."""
    command, *args = line("stdio")
    return {"command": command, "args": args}


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    """The URL of the server over HTTP."""
    way = command[-1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/{'sse' if way == 'sse' else 'mcp'}"
        finally:
            process.kill()


def as_known(host: SessionServers, era: str) -> None:
    """Have every server known to speak this revision."""
    for config in host.directory.sources.values():
        save(host.directory.context.cache_dir, Manifest(digest=config.digest, protocol_version=era))


def asked(answers: Callable[[Clarification], list[str | None] | None], **more: Any) -> Call:
    """A call whose user answers like this."""

    async def clarify(question: Clarification) -> list[str | None] | None:
        return answers(question)

    return Call("c-1", "x", {}, services={"clarify": clarify}, **more)


@pytest.mark.parametrize("era", ERAS)
def test_both_eras_over_stdio(tmp_path: Path, stdio: dict[str, Any], era: str) -> None:
    """Tools, resources, prompts and completions work without a handshake and with one."""

    async def talk(host: SessionServers) -> None:
        as_known(host, era)
        manifest = await host.connect("all")
        assert manifest.protocol_version == era
        assert manifest.server_info["name"] == "everything"
        assert manifest.instructions == "Use it for tests."
        assert (await call(host, "all", "add", a=2, b=3)).structured == {"result": 5}
        assert era in (await call(host, "all", "where")).text
        uris = {entry.uri for entry in manifest.resources}
        assert uris == {"memo://today", "memo://bytes", "memo://notes/{name}"}
        kept: list[bytes] = []

        def keep(data: bytes | Path) -> str:
            assert isinstance(data, bytes)
            kept.append(data)
            return "result:h"

        one = Call("c", "x", {}, keep=keep)
        for uri, wanted in (
            ("memo://today", "water the plants"),
            ("memo://notes/x", "note x"),
            ("memo://bytes", "3 bytes"),
        ):
            read = await host.ask("all", lambda c, uri=uri: c.read(uri, call_context(one)))  # type: ignore[misc]
            assert wanted in resource_output(read, one).text
        assert kept == [b"\x00\x01\x02"]
        got = await host.ask("all", lambda c: c.prompt("review", {"code": "x = 1"}, call_context(one)))
        assert "kind way: x = 1" in prompt_output(got, one).text
        assert await host.ask(
            "all", lambda c: c.complete({"name": "review"}, {"name": "style", "value": "k"})
        ) == ["kind", "keen"]
        with pytest.raises(ServerRefusal, match="Error executing tool fail"):
            await call(host, "all", "fail")

    hosted(tmp_path, {"all": stdio}, talk)


@pytest.mark.parametrize("way", ["http", "json", "sse"])
def test_over_http(tmp_path: Path, line: Line, way: str) -> None:
    """Streamable HTTP, with streams or plain JSON, and the older server-sent events."""
    with served(line(way)) as url:

        async def talk(host: SessionServers) -> None:
            assert (await call(host, "all", "add", a=2, b=3)).text == "5"
            out = await call(host, "all", "book", day="May", call=asked(lambda _: ["4", "outside", "yes"]))
            assert out.text == "May: 4 outside True"

        hosted(tmp_path, {"all": {"url": url, "type": "sse" if way == "sse" else "http"}}, talk)


def test_an_old_server_is_found_without_being_told(tmp_path: Path, line: Line) -> None:
    """A URL that knows only server-sent events is reached although it is configured as http."""
    with served(line("sse")) as url:

        async def talk(host: SessionServers) -> str:
            return str((await call(host, "all", "add", a=2, b=3)).text)

        assert hosted(tmp_path, {"all": {"url": url, "type": "http"}}, talk) == "5"


@pytest.mark.parametrize("era", ERAS)
def test_a_server_asks_the_user(tmp_path: Path, stdio: dict[str, Any], era: str) -> None:
    """A form becomes our questions, its answers have the types of its fields, and a wrong one is asked for again."""
    asks: list[Clarification] = []

    def answers(question: Clarification) -> list[str | None]:
        asks.append(question)
        return ["many", "outside", None] if len(asks) == 1 else ["4"]

    async def talk(host: SessionServers) -> None:
        as_known(host, era)
        out = await call(host, "all", "book", day="May", call=asked(answers))
        assert out.text == "May: 4 outside False"
        with pytest.raises((ServerRefusal, ServerFault)):
            await call(host, "all", "book", day="May", call=asked(lambda _: None))

    hosted(tmp_path, {"all": stdio}, talk)
    first, second = asks
    assert "all asks: Which table?" in first.context
    assert str(first.questions[0]["question"]).startswith("People: How many come?")
    assert first.questions[1]["choices"] == ["inside", "outside"]
    assert first.questions[2]["choices"] == ["yes", "no"]
    assert len(second.questions) == 1
    assert "does not fit" in second.questions[0]["question"]


def test_a_server_sends_the_user_only_to_safe_pages(tmp_path: Path, stdio: dict[str, Any]) -> None:
    """A page is offered only over https or on this machine; the user is asked, nothing is opened by itself."""
    pages = {
        "https://example.com/login": "accept",
        "http://127.0.0.1:9/x": "accept",
        "http://example.com/": "decline",
        "javascript:alert(1)": "decline",
        "file:///etc/passwd": "decline",
        "https://user:pw@example.com/": "decline",
    }

    async def talk(host: SessionServers) -> dict[str, str]:
        as_known(host, "2025-11-25")
        agreeing = asked(lambda _: ["yes"])
        return {url: (await call(host, "all", "visit", url=url, call=agreeing)).text for url in pages}

    assert hosted(tmp_path, {"all": stdio}, talk) == pages


def test_images_and_sounds_are_media(tmp_path: Path, stdio: dict[str, Any]) -> None:
    """Bytes are kept behind a handle; the model gets the image or sound itself."""

    async def talk(host: SessionServers) -> None:
        kept: dict[str, bytes] = {}

        def keep(data: bytes | Path) -> str:
            assert isinstance(data, bytes)
            kept[hashlib.sha256(data).hexdigest()] = data
            return f"result:{hashlib.sha256(data).hexdigest()}"

        picture = await call(host, "all", "picture", call=Call("c", "x", {}, keep=keep))
        sound = await call(host, "all", "sound", call=Call("c", "x", {}, keep=keep))
        assert [one.mime_type for one in (*picture.media, *sound.media)] == ["image/png", "audio/wav"]
        assert kept[picture.media[0].blob].startswith(b"\x89PNG")

    hosted(tmp_path, {"all": stdio}, talk)


@pytest.mark.parametrize("era", ERAS)
def test_changed_lists_are_asked_for_again(tmp_path: Path, stdio: dict[str, Any], era: str) -> None:
    """A tool that appears while the server runs is known moments later."""
    heard: list[str] = []

    async def talk(host: SessionServers) -> None:
        as_known(host, era)
        await host.connect("all")
        await anyio.sleep(0.3)
        heard.clear()
        await call(host, "all", "grow")
        while not heard:
            await anyio.sleep(0.02)
        assert (await call(host, "all", "grown", text="up")).text == "grown up"

    hosted(tmp_path, {"all": stdio}, talk, heard=heard)


def test_hints_are_shown_and_give_nothing(tmp_path: Path, stdio: dict[str, Any]) -> None:
    """A tool that calls itself read-only is asked about like any other."""
    from jaato.plugins.mcp.tools import tools_from

    async def talk(host: SessionServers) -> None:
        manifest = await host.connect("all")
        tools = {tool.name: tool for tool in tools_from(host.directory.entry("all"), manifest, host.call)}
        add = tools["mcp__all__add"].spec
        assert add.access == "execute"
        assert add.description == "Add two numbers.\n(By its server's word it only reads.)"

    hosted(tmp_path, {"all": stdio}, talk)
