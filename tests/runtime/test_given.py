"""`Agent`: what the program gives it beside functions: plugins, MCP servers and subagents, with the built-in tools or alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit import call, calls, results, say
from tests.mcp.hosting import RAW, processes
from tests.runtime.agents import agent

from jaato import Plugin, SubagentProfile, ToolSchema, tool
from jaato.abc.provider import ModelRequest
from jaato.errors import ConfigError, JaatoError, PluginError
from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.plugins.subagent.profiles import Config
from jaato.providers.scripted import Answer, Step
from jaato.runtime.plugins.given import make_given_configs
from jaato.runtime.session_options import ProgramOptions
from jaato.tools.catalog import MAX_DECLARED


def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


class Notes(Plugin):
    """Keep notes."""

    name: ClassVar[str] = "my_notes"
    instructions: ClassVar[str] = "Note what matters."

    @tool(access="read", core=True)
    def my_note(self, text: str) -> str:
        """Keep a note."""
        return f"noted in {self.host.workspace.name}: {text}"


class Documented:
    """A plugin in the documented form."""

    name = "documented"

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Nothing to begin."""

    def shutdown(self) -> None:
        """Nothing to end."""

    def get_tool_schemas(self) -> list[Any]:
        """One tool."""
        return [ToolSchema("ping", "Answer.")]

    def get_executors(self) -> dict[str, Any]:
        """Its function."""
        return {"ping": lambda _arguments: {"pong": True}}

    def get_system_instructions(self) -> str | None:
        """None."""
        return None

    def get_auto_approved_tools(self) -> list[str]:
        """The tool."""
        return ["ping"]

    def get_user_commands(self) -> list[Any]:
        """None."""
        return []


@pytest.fixture
def servers() -> Iterator[None]:
    """No server is left."""
    yield
    SERVER_POOL.close()


def declared(live: Any) -> list[str]:
    """The tools of the next request."""
    return sorted(spec.name for spec in live.live.model.request().tools)


def test_builtin_tools_false_leaves_the_given_tools_alone(tmp_path: Path) -> None:
    """The model has the function and nothing else, not even the tools that find others; nor does its prompt name them."""

    async def main() -> None:
        script: list[Answer] = [calls(("shout", {"text": "a"}), ("readFile", {"path": "x"})), say("done")]
        async with agent(tmp_path, script, tools=[shout], builtin_tools=False) as live:
            await live.run("go")
            assert declared(live) == ["shout"]
            assert [tool.name for tool in live.live.catalog] == ["shout"]
            assert "list_tools" not in live.live.state.system_prompt
            first, second = results(live.live)
            assert first.result == "A"
            assert not second.ok

    anyio.run(main)


def test_many_given_tools_are_alone_too(tmp_path: Path) -> None:
    """However many they are, the tools that find others do not join them: all are declared."""

    def named(number: int) -> Any:
        def speak(text: str) -> str:
            """Say it."""
            return text

        speak.__name__ = f"speak{number}"
        return speak

    async def main() -> None:
        many = [named(number) for number in range(30)]
        async with agent(tmp_path, [], tools=many, builtin_tools=False) as live:
            assert declared(live) == sorted(one.__name__ for one in many)

    anyio.run(main)


def test_the_builtin_tools_are_there_without_a_word(tmp_path: Path) -> None:
    """By default a function joins the built-in tools."""

    async def main() -> None:
        async with agent(tmp_path, [], tools=[shout]) as live:
            assert {"shout", "readFile", "list_tools"} <= set(declared(live))

    anyio.run(main)


def test_a_plugin_is_registered_in_one_line(tmp_path: Path) -> None:
    """A class joins all built-in plugins; a name beside it chooses among these."""

    async def main() -> None:
        script: list[Answer] = [call("my_note", text="tea"), say("noted")]
        async with agent(tmp_path, script, plugins=[Notes]) as live:
            await live.run("go")
            assert results(live.live)[0].result == "noted in work: tea"
            assert "Note what matters." in live.live.state.system_prompt
            assert "readFile" in declared(live)
        async with agent(tmp_path, [], plugins=["introspection", Notes]) as live:
            assert "my_note" in declared(live)
            assert "readFile" not in live.live.catalog
        once = agent(tmp_path, [say("a"), say("b")], plugins=iter([Notes]))
        for _ in range(2):
            async with once:
                assert {"my_note", "readFile"} <= set(declared(once))
        async with agent(
            tmp_path, [call("ping"), say("x")], plugins=[Documented()], builtin_tools=False
        ) as live:
            await live.run("go")
            assert results(live.live)[0].structured == {"pong": True}
            assert declared(live) == ["ping"]

    anyio.run(main)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"plugins": [tool(shout)]}, PluginError, r"tools=\[shout\]"),
        ({"plugins": [3]}, PluginError, "no `name`"),
        ({"plugins": ["files"], "builtin_tools": False}, ConfigError, "one or the other"),
        ({"mcp_servers": {"raw": {}}}, ConfigError, "mcp_servers: the server 'raw' needs a \"command\""),
        ({"mcp_servers": {"raw": "python"}}, ConfigError, "must be an object"),
        ({"subagents": {"a": {"colour": "red"}}}, ConfigError, r"subagents\['a'\]: .*colour"),
        ({"mcp_servers": {"raw": {"command": b"x"}}}, ConfigError, "the server 'raw' .* at /command"),
        ({"mcp_servers": [1]}, ConfigError, "`mcp_servers` is a dict by name, not"),
        ({"mcp_servers": {1: {}}}, ConfigError, "`mcp_servers` is a dict by name, not"),
        ({"subagents": {"a b": {}}}, ConfigError, "a name has letters"),
        ({"subagents": "reviewer"}, ConfigError, "`subagents` is a dict by name, not"),
    ],
)
def test_what_cannot_be_given_is_said_at_once(
    tmp_path: Path, options: dict[str, Any], error: type[JaatoError], words: str
) -> None:
    """The error names what is wrong, before anything was asked."""
    with pytest.raises(error, match=words):
        agent(tmp_path, [say("no")], **options).run_sync("go")


ENTRIES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["command", "args", "env", "url", "type", "sandbox", "tools", "model", "max_turns"]
            )
            | st.integers(),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=4), ENTRIES, max_size=2))
def test_any_entry_is_taken_or_refused(entries: dict[str, Any]) -> None:
    """What cannot be a server or a profile is a `ConfigError` that says which argument is wrong, whatever it is."""
    said: list[str] = []
    for program in (ProgramOptions(mcp_servers=entries), ProgramOptions(subagents=entries)):
        try:
            make_given_configs(program, Path("/w"))
        except ConfigError as error:
            said.append(str(error))
    assert all(text.startswith(("mcp_servers", "subagents")) for text in said)


def raw_entry(path: Path, *arguments: str) -> dict[str, Any]:
    """The server written by hand, marked with a directory."""
    return {"command": Path(sys.executable), "args": (Path(RAW), *arguments, f"--{path.name}")}


def test_a_server_of_the_program_is_trusted_and_declared(tmp_path: Path, servers: None) -> None:
    """Its tools are declared in the first request; calls follow the permission rules; it ends with the agent."""

    async def main() -> None:
        script: list[Answer] = [
            call("mcp__raw__echo", text="hi"),
            say("done"),
            call("mcp__raw__echo", text="ho"),
            say("x"),
        ]
        entries = {"raw": raw_entry(tmp_path, "fine")}
        async with agent(tmp_path, script, mcp_servers=entries, allow=["mcp__raw__*"]) as live:
            assert {"mcp__raw__echo", "readFile"} <= set(declared(live))
            await live.run("go")
            assert results(live.live)[0].result == "hi"
        while processes(f"--{tmp_path.name}"):
            await anyio.sleep(0.02)
        async with agent(tmp_path, script, mcp_servers=entries, builtin_tools=False, tools=[shout]) as live:
            assert declared(live) == ["mcp__raw__echo", "shout"]
            await live.run("go")
            assert "Permission denied" in results(live.live)[0].result
        assert not (tmp_path / "work" / ".jaato").exists()

    anyio.run(main)


def test_a_server_with_very_many_tools_is_found_by_searching(tmp_path: Path, servers: None) -> None:
    """They do not fill every request: more than the model can be shown at once are declared when it asks for them."""

    async def main() -> None:
        names = [f"t{number}" for number in range(MAX_DECLARED + 1)]
        for shown in (names[:-1], names):
            script: list[Answer] = [call("get_tool_schemas", names=["mcp__raw__t0"]), say("done")]
            entries = {"raw": {"command": sys.executable, "args": [RAW, "named", *shown]}}
            async with agent(tmp_path, script, mcp_servers=entries) as live:
                there = [name for name in declared(live) if name.startswith("mcp__raw__t")]
                assert len(there) == (0 if len(shown) > MAX_DECLARED else len(shown))
                await live.run("go")
                assert "mcp__raw__t0" in declared(live)

    anyio.run(main)


def test_a_server_s_tools_are_those_it_has_now(tmp_path: Path, servers: None) -> None:
    """A server of the program that has changed since the last agent is taken as it is."""
    counter = tmp_path / "count"

    async def main() -> None:
        entries = {"raw": {"command": sys.executable, "args": [RAW, "counts-up", str(counter)]}}
        for number in ("", " Two.", " Three."):
            counter.write_text(number)
            async with agent(tmp_path, [], mcp_servers=entries, builtin_tools=False) as live:
                (spec,) = live.live.model.request().tools
                assert spec.description == f"Say something back.{number}"
                session = live.session_id
            async with agent(tmp_path, [], mcp_servers=entries, session=session) as again:
                assert "mcp__raw__echo" in declared(again)

    anyio.run(main)


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path, servers: None) -> None:
    """The program learns why, instead of an agent without its tools."""
    entries = {"gone": {"command": str(tmp_path / "no-such-program")}}
    with pytest.raises(JaatoError, match="gone"):
        agent(tmp_path, [say("no")], mcp_servers=entries).run_sync("go")


def test_the_program_s_server_comes_before_the_user_s(tmp_path: Path, servers: None) -> None:
    """An entry of the same name in `~/.mcp.json` does not stand in its way, and others stay."""
    (tmp_path / ".mcp.json").write_text(
        '{"mcpServers": {"raw": {"command": "false"}, "other": {"command": "false"}}}'
    )

    async def main() -> None:
        script: list[Answer] = [call("mcp__raw__echo", text="mine"), calls(("mcp_servers", {})), say("done")]
        entries = {"raw": raw_entry(tmp_path, "fine")}
        async with agent(tmp_path, script, mcp_servers=entries, yes=True) as live:
            live.live.activate(["mcp_servers"])
            await live.run("go")
            echoed, listed = results(live.live)
            assert echoed.result == "mine"
            assert [(row["name"], row["scope"]) for row in listed.structured["servers"]] == [
                ("raw", "argument"),
                ("other", "user"),
            ]

    anyio.run(main)


def test_subagents_of_the_program_are_named_and_work(tmp_path: Path) -> None:
    """The model reads which there are, delegates by profile, and the subagent has the profile's prompt and tools."""
    profiles: dict[str, SubagentProfile] = {
        "loud": {"description": "Says things loudly.", "system_prompt": "You are LOUD.", "tools": ["shout"]}
    }

    def answer(request: ModelRequest) -> Step:
        if "LOUD" in request.system.split("\n")[0]:
            last = request.messages[-1]
            return call("shout", text="tea") if last.role == "user" else say("TEA")
        names = [spec.name for spec in request.tools]
        assert "delegate" in names
        if request.messages[-1].role == "user":
            assert "- loud: Says things loudly." in request.system
            return call("delegate", task="say tea", profile="loud")
        return say("done")

    async def main(**more: Any) -> None:
        async with agent(tmp_path, [answer] * 4, tools=[shout], subagents=profiles, **more) as live:
            await live.run("go")
            assert results(live.live)[0].structured["result"] == "TEA"
            if more:
                assert declared(live) == ["delegate", "shout"]

    anyio.run(main)
    anyio.run(functools.partial(main, builtin_tools=False))


def test_a_profile_says_what_a_file_can_say() -> None:
    """The keys of the type are those of a profile's file, but for the name and another spelling."""
    assert set(SubagentProfile.__annotations__) == set(Config.__struct_fields__) - {
        "name",
        "system_instructions",
    }
