"""Deferred loading: what is declared, what may run, and that nothing already sent ever changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, provider_of, reopened, results, say, session

from jaato.abc.provider import ModelRequest
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses
from jaato.tools.tool import Tool, tool, tool_from

DIALECTS: dict[str, Callable[[], Dialect]] = {
    "openai chat": lambda: OpenAIChat("openai"),
    "openai responses": lambda: OpenAIResponses("openai"),
    "anthropic": AnthropicDialect,
    "gemini": GeminiDialect,
}
MESSAGES = {
    "openai chat": "messages",
    "openai responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}


def numbered(n: int) -> Tool:
    """A discoverable tool of its own."""

    @tool(name=f"tool_{n}", category="numbers", access="read")
    async def numbered_tool(text: str, count: int = n) -> str:
        """Do something with a number."""
        return f"{text} {count}"

    return tool_from(numbered_tool, "test")


TOOLS = [numbered(n) for n in range(60)]


def without_marks(value: Any) -> Any:
    """The value without cache breakpoints, which move by design and are no content."""
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def tool_list(body: dict[str, Any]) -> list[Any]:
    tools = body["tools"]
    return list(tools[0]["functionDeclarations"]) if "functionDeclarations" in tools[0] else list(tools)


@pytest.mark.spec("S0", "Introspection Mechanism")
def test_a_discoverable_tool_runs_only_once_it_is_activated(tmp_path: Path) -> None:
    """Before get_tool_schemas the call is refused with an error that names it; after it the tool is declared and runs."""

    async def main() -> None:
        script = [
            call("tool_3", text="a"),
            call("get_tool_schemas", names=["tool_3", "tool_nope"]),
            call("tool_3", text="a"),
            say("done"),
        ]
        async with session(tmp_path, script, TOOLS) as live:
            await live.post("go")
            refused, schemas, ran = results(live)
            assert refused.error is not None
            assert refused.error.code == "tool_inactive"
            assert "get_tool_schemas" in refused.error.message
            assert schemas.structured["activated"] == ["tool_3"]
            assert schemas.structured["not_found"] == ["tool_nope"]
            assert schemas.structured["suggestions"]["tool_nope"]
            assert ran.ok
            names = [[spec.name for spec in request.tools] for request in provider_of(live).requests]
            assert "tool_3" not in names[1]
            assert names[2] == [*names[1], "tool_3"]

    anyio.run(main)


@pytest.mark.spec("C1", "Results of the two introspection tools")
def test_a_bare_name_is_accepted(tmp_path: Path) -> None:
    """`names` may be one string."""

    async def main() -> None:
        async with session(tmp_path, [call("get_tool_schemas", names="tool_1"), say("ok")], TOOLS) as live:
            await live.post("go")
            schema = results(live)[0].structured["schemas"][0]
            assert set(schema) == {"name", "description", "category", "parameters"}
            assert schema["parameters"]["required"] == ["text"]

    anyio.run(main)


@pytest.mark.parametrize("name", list(DIALECTS))
def test_fifty_activations_leave_the_bytes_of_everything_sent_as_they_were(tmp_path: Path, name: str) -> None:
    """In every dialect each request begins with the messages and tools of the one before, byte for byte."""
    dialect = DIALECTS[name]()
    sent: list[bytes] = []

    async def main() -> None:
        script: list[Any] = []
        for n in range(50):
            script += [
                call("get_tool_schemas", names=[f"tool_{(n * 7) % 60}"]),
                call(f"tool_{(n * 7) % 60}", text="x"),
            ]
        script.append(say("done"))
        async with session(tmp_path, script, TOOLS) as live:
            original = live.model.provider.stream

            def stream(request: ModelRequest) -> Any:
                sent.append(dialect.encode(request))
                return original(request)

            live.model.provider.stream = stream  # type: ignore[method-assign]  # the same model, its requests noted
            await live.post("go")
            assert len(live.state.activated) == 50

    anyio.run(main)
    assert len(sent) == 101
    key = MESSAGES[name]
    for before, after in itertools.pairwise(sent):
        old, new = json.loads(before), json.loads(after)
        assert without_marks(new[key])[: len(old[key])] == without_marks(old[key])
        assert without_marks(tool_list(new))[: len(tool_list(old))] == without_marks(tool_list(old))
        fixed = {k: v for k, v in old.items() if k not in (key, "tools")}
        assert {k: v for k, v in new.items() if k not in (key, "tools")} == fixed
        if name != "anthropic":
            raw = json.dumps(old[key], separators=(",", ":"), ensure_ascii=False).encode()[:-1]
            assert raw in after


def test_the_active_set_comes_back_to_the_byte_on_resume(tmp_path: Path) -> None:
    """A reopened session sends the same tools, in the same order, and the same history in every dialect."""

    async def main() -> None:
        script = [call("get_tool_schemas", names=["tool_9", "tool_2", "tool_5"]), say("done"), say("more")]
        async with session(tmp_path, script, TOOLS) as live:
            await live.post("go")
            session_id = live.state.session_id
            before = live.model.request()
            bodies = [make().encode(before) for make in DIALECTS.values()]
        async with reopened(tmp_path, session_id, script, TOOLS) as live:
            again = live.model.request()
            assert [spec.name for spec in again.tools][-3:] == ["tool_9", "tool_2", "tool_5"]
            assert [make().encode(again) for make in DIALECTS.values()] == bodies

    anyio.run(main)


def test_a_tool_disabled_meanwhile_stays_declared_and_says_so(tmp_path: Path) -> None:
    """Nothing is removed from the declared tools in mid-session; a disabled one answers tool_disabled."""

    async def main() -> None:
        script = [
            call("get_tool_schemas", names=["tool_1"]),
            say("ok"),
            call("tool_1", text="x"),
            say("done"),
        ]
        async with session(tmp_path, script, TOOLS) as live:
            await live.post("go")
            live.disable(["tool_1"])
            await live.post("again")
            error = results(live)[-1].error
            assert error is not None
            assert error.code == "tool_disabled"
            assert provider_of(live).requests[-1].tools[-1].name == "tool_1"

    anyio.run(main)


@pytest.mark.spec("S0", "Discoverability Modes")
@pytest.mark.spec("C10", "Environment variables and files")
def test_without_deferred_loading_everything_is_declared_at_once(tmp_path: Path) -> None:
    """With deferred tools off, all schemas are in the first request and run without activation."""

    async def main() -> None:
        async with session(tmp_path, [call("tool_7", text="x"), say("done")], TOOLS, deferred=False) as live:
            await live.post("go")
            assert results(live)[0].ok
            assert len(provider_of(live).requests[0].tools) == 62

    anyio.run(main)


@pytest.mark.spec("S0", "Discoverability Modes")
def test_tools_are_discoverable_unless_marked_core() -> None:
    """The default is discoverable."""
    assert all(entry.spec.discoverability == "discoverable" for entry in TOOLS)


@pytest.mark.spec("C1", "Results of the two introspection tools")
def test_list_tools_in_its_three_forms(tmp_path: Path) -> None:
    """Categories, one category paged, ranked queries: each in the documented shape."""

    async def main() -> None:
        script = [
            call("list_tools"),
            call("list_tools", category="numbers", limit=25),
            call("list_tools", category="numbers", limit=25, cursor="50"),
            call("list_tools", queries=["a number", "zzz qqq"]),
            call("list_tools", cursor="rubbish", query="x"),
            say("done"),
        ]
        async with session(tmp_path, script, TOOLS) as live:
            await live.post("go")
            plain, first, last, ranked, bad = results(live)
            assert plain.structured["total_tools"] == 62
            assert {"name", "tool_count", "description"} == set(plain.structured["categories"][0])
            assert first.structured["tool_count"] == 60
            assert len(first.structured["tools"]) == 25
            assert first.structured["next_cursor"] == "25"
            assert len(last.structured["tools"]) == 10
            assert "next_cursor" not in last.structured
            hits, nothing = ranked.structured["results"]
            assert hits["tools"]
            assert set(hits["tools"][0]) == {"name", "description", "category", "access", "score"}
            assert nothing["tools"] == []
            assert "note" in nothing
            assert bad.error is not None
            assert bad.error.code == "arguments_invalid"

    anyio.run(main)


def test_a_hundred_at_once(tmp_path: Path) -> None:
    """A hundred and twenty names in one call, each twice, among thousands there are none of: all are activated and run."""
    many = [numbered(n) for n in range(120)]
    names = [f"tool_{n}" for n in range(120)] * 2 + [f"none_{n}\x00" for n in range(3000)]

    async def main() -> None:
        script = [call("get_tool_schemas", names=names), call("tool_119", text="x"), say("done")]
        async with session(tmp_path, script, many) as live:
            await live.post("go")
            assert live.state.activated == [f"tool_{n}" for n in range(120)]
            schemas, last = results(live)
            assert schemas.ok
            assert last.ok

    anyio.run(main)
