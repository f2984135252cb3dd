"""Sessions of an editor: listed, loaded, resumed, shared, their modes, models and commands, and MCP servers of the editor."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from acp.exceptions import RequestError
from tests.acp.editor import Editor, editing, run
from tests.cli.environment import CliEnvironment, call, say

from acp import schema

WRITE = call("writeNewFile", path="a.txt", content="hello\n")
ACTIVATE = call("get_tool_schemas", names=["writeNewFile"])
SLEEP = call("run", command="echo begun; sleep 300")
SMALL_SERVER = Path(__file__).parents[1] / "mcp" / "small_server.py"


def test_the_agent_declares_what_it_has(alone: CliEnvironment) -> None:
    """The version, its name, and capabilities that tests below use."""

    async def story() -> None:
        async with editing(alone, "--no-daemon") as editor:
            hello = await editor.agent.initialize(protocol_version=1)
            assert hello.agent_info is not None
            assert hello.agent_info.name == "jaato"
            found = hello.agent_capabilities
            assert found is not None
            assert found.load_session
            assert found.prompt_capabilities is not None
            assert (found.prompt_capabilities.image, found.prompt_capabilities.audio) == (True, False)
            assert found.prompt_capabilities.embedded_context
            assert found.mcp_capabilities is not None
            assert (found.mcp_capabilities.http, found.mcp_capabilities.sse) == (True, True)
            sessions = found.session_capabilities
            assert sessions is not None
            assert sessions.list is not None
            assert sessions.resume is not None
            assert sessions.close is not None
            assert sessions.delete is not None
            assert sessions.fork is None

    run(story())


def test_a_session_is_listed_and_loaded_with_its_conversation(alone: CliEnvironment) -> None:
    """Another process of the editor shows the same messages, calls and thoughts, and goes on."""
    script = alone.script(ACTIVATE, WRITE, say("written", thinking="hm"), say("and more"))

    async def first() -> str:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            await editor.say(session, "write it")
            return session

    async def second(session: str) -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            listed = await editor.agent.list_sessions(cwd=str(alone.work))
            assert [row.session_id for row in listed.sessions] == [session]
            assert listed.sessions[0].cwd == str(alone.work)
            assert (await editor.agent.list_sessions(cwd=str(alone.home))).sessions == []
            loaded = await editor.agent.load_session(cwd=str(alone.work), session_id=session, mcp_servers=[])
            assert loaded.modes is not None
            assert loaded.modes.current_mode_id == "ask"
            assert editor.text("user_message_chunk") == "write it"
            assert editor.text("agent_thought_chunk") == "hm"
            assert editor.text() == "written"
            shown = editor.call("writeNewFile path")
            assert shown["states"][-1] == "completed"
            assert shown["content"][0]["type"] == "diff"
            order = [one.session_update for _, one in editor.updates]
            assert order.index("user_message_chunk") < order.index("tool_call")
            await editor.say(session, "go on")
            assert editor.text() == "writtenand more"
            assert editor.text("user_message_chunk") == "write it"  # an own message is not sent back
            chunks = editor.of("user_message_chunk") + editor.of("agent_message_chunk")
            assert len({one.message_id for one in chunks} - {None}) == 3

    async def both() -> None:
        await second(await first())

    run(both())


def test_a_session_is_resumed_without_its_conversation(alone: CliEnvironment) -> None:
    """Nothing is replayed; the conversation goes on."""
    script = alone.script(say("one"), say("two"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            await editor.say(session, "first")
            await editor.agent.close_session(session_id=session)
            with pytest.raises(RequestError, match="session/load"):
                await editor.say(session, "closed")
            editor.updates.clear()
            await editor.agent.resume_session(cwd=str(alone.work), session_id=session, mcp_servers=[])
            await editor.say(session, "second")
            assert editor.text() == "two"
            assert not editor.of("user_message_chunk")
            with pytest.raises(RequestError) as caught:
                await editor.agent.load_session(cwd=str(alone.work), session_id="s0nothing", mcp_servers=[])
            assert caught.value.code == -32002
            with pytest.raises(RequestError, match="absolute"):
                await editor.agent.new_session(cwd="work", mcp_servers=[])

    run(story())


def test_a_session_is_deleted(desk: CliEnvironment) -> None:
    """One that is open is closed, and its prompt cancelled; what is not there, or only begins so, deletes nothing."""
    script = desk.script(SLEEP, say("never"))

    async def story() -> None:
        async with editing(desk, *script, "--yes") as editor:
            kept, session = await editor.new(desk), await editor.new(desk)
            for name in (session[:8], "s0nothing", ""):
                await delete(editor, name)
            prompt = asyncio.create_task(editor.say(session, "sleep"))
            await editor.wait(
                lambda: any(one.status == "in_progress" for one in editor.of("tool_call_update"))
            )
            await delete(editor, session)
            assert (await prompt).stop_reason == "cancelled"
            await delete(editor, session)
            with pytest.raises(RequestError, match="not open here"):
                await editor.say(session, "more")
            listed = await editor.agent.list_sessions(cwd=str(desk.work))
            assert [row.session_id for row in listed.sessions] == [kept]
            with pytest.raises(RequestError) as caught:
                await editor.agent.ext_method("session/delete", {})  # with an underscore, and without the id
            assert caught.value.code == -32602

    run(story())


async def delete(editor: Editor, session_id: str) -> None:
    """Delete a session, by the method that the client's library has no function for."""
    await editor.agent._conn.send_request("session/delete", {"sessionId": session_id})


def test_a_long_conversation_is_replayed_whole(alone: CliEnvironment) -> None:
    """More messages than one page of the history has."""
    count = 230
    script = alone.script(*[say(f"<{number}>") for number in range(count)])

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            for number in range(count):
                await editor.say(session, f"[{number}]")
            await editor.agent.close_session(session_id=session)
            editor.updates.clear()
            await editor.agent.load_session(cwd=str(alone.work), session_id=session, mcp_servers=[])
            assert editor.text() == "".join(f"<{number}>" for number in range(count))
            assert editor.text("user_message_chunk") == "".join(f"[{number}]" for number in range(count))

    run(story())


def test_the_mode_decides_what_is_asked(alone: CliEnvironment) -> None:
    """In accept-edits a file is written unasked; in read-only it is denied; the editor is sent each change."""
    second = call("writeNewFile", path="b.txt", content="again\n")
    script = alone.script(ACTIVATE, WRITE, say("one"), second, say("two"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            made = await editor.agent.new_session(cwd=str(alone.work), mcp_servers=[])
            session = made.session_id
            assert made.modes is not None
            names = [mode.id for mode in made.modes.available_modes]
            assert names == ["ask", "accept-edits", "auto", "plan", "read-only"]
            await editor.agent.set_session_mode(session_id=session, mode_id="accept-edits")
            await editor.wait(lambda: editor.of("current_mode_update"))
            assert editor.of("current_mode_update")[-1].current_mode_id == "accept-edits"
            await editor.say(session, "write")
            assert editor.requests == []
            await editor.agent.set_session_mode(session_id=session, mode_id="read-only")
            await editor.say(session, "again")
            assert editor.requests == []
            assert "denied" in str(editor.call("writeNewFile path=b.txt")["content"])
            with pytest.raises(RequestError, match="accept-edits"):
                await editor.agent.set_session_mode(session_id=session, mode_id="yolo")

    run(story())
    assert (alone.work / "a.txt").exists()
    assert not (alone.work / "b.txt").exists()


def test_the_mode_and_the_model_are_options(alone: CliEnvironment) -> None:
    """Each is chosen among its values, and a change is sent to the editor."""
    other = alone.root / "other.json"
    other.write_text('[{"text": "unused"}, {"text": "from the other"}]')
    script = alone.script(say("from the first"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            made = await editor.agent.new_session(cwd=str(alone.work), mcp_servers=[])
            assert made.config_options is not None
            mode, model = made.config_options
            assert (mode.id, mode.category, mode.current_value) == ("mode", "mode", "ask")
            assert (model.id, model.category, model.current_value) == ("model", "model", script[-1])
            await editor.say(made.session_id, "hello")
            changed = await editor.agent.set_config_option(
                session_id=made.session_id, config_id="model", value=str(other)
            )
            assert changed is not None
            assert changed.config_options[1].current_value == str(other)
            changed = await editor.agent.set_config_option(
                session_id=made.session_id, config_id="mode", value="plan"
            )
            assert changed is not None
            assert changed.config_options[0].current_value == "plan"
            await editor.wait(lambda: "plan" in str(editor.of("current_mode_update")))
            await editor.agent.set_session_mode(session_id=made.session_id, mode_id="ask")
            await editor.say(made.session_id, "and now")
            assert editor.text().endswith("from the other")
            with pytest.raises(RequestError, match="model"):
                await editor.agent.set_config_option(
                    session_id=made.session_id, config_id="weather", value="sunny"
                )

    run(story())


def test_commands_are_listed_and_run(alone: CliEnvironment) -> None:
    """Those of the session after a slash; an unknown one is named, and paths are text."""
    script = alone.script(say("a path"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            await editor.wait(lambda: editor.of("available_commands_update"))
            names = {one.name for one in editor.of("available_commands_update")[-1].available_commands}
            assert {"mode", "usage", "context", "compact", "continue"} <= names
            assert (await editor.say(session, "/mode")).stop_reason == "end_turn"
            assert "ask" in editor.text()
            await editor.say(session, "/nonsense")
            assert "nonsense" in editor.text()
            await editor.say(session, "/continue")
            assert "cut off" in editor.text()
            await editor.say(session, "/etc/hosts is a file")
            assert editor.text().endswith("a path")

    run(story())


def test_two_editors_follow_one_session(desk: CliEnvironment) -> None:
    """The second sees the first one's words as they come, and its own prompts are seen by the first."""
    script = desk.script(say("to the first", chunks=3), say("to the second"), say("alone now"))

    async def story() -> None:
        async with editing(desk, *script) as first:
            session = await first.new(desk)
            async with editing(desk) as second:
                await second.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
                await first.say(session, "one")
                await second.wait(lambda: second.text() == "to the first")
                await second.wait(lambda: second.text("user_message_chunk") == "one")
                await second.say(session, "two")
                await first.wait(lambda: first.text() == "to the firstto the second")
                assert first.text("user_message_chunk") == "two"
                assert second.text("user_message_chunk") == "one"
            await first.say(session, "three")
            assert first.text().endswith("alone now")

    run(story())


def test_the_editors_mcp_servers_have_tools(desk: CliEnvironment) -> None:
    """A server over stdio that the editor gives: its tool is called, with a permission, and needs no trust."""
    described = desk.root / "described.json"
    described.write_text("{}")
    server = schema.McpServerStdio(
        name="small", command=sys.executable, args=[str(SMALL_SERVER), str(described)], env=[]
    )
    script = desk.script(
        {"calls": [{"name": "mcp__small__greet", "arguments": {"name": "you"}}]}, say("greeted")
    )

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk, [server])
            await editor.say(session, "greet")
            shown = editor.call("mcp__small__greet")
            assert shown["states"][-1] == "completed", str(shown["content"])
            assert "you" in str(shown["content"])
            assert len(editor.requests) == 1
            other = await editor.new(desk)  # of the same workspace, without the server
            assert other != session

    run(story())


def test_the_editors_mcp_server_over_http(desk: CliEnvironment) -> None:
    """A server at an address that the editor gives, which is one of jaato's own."""
    served = desk.start("mcp", "serve", "--http", "127.0.0.1:0", "--tools", "calculate")
    try:
        assert served.stderr is not None
        announced = re.search(rb"at (http://\S+); the token is in (\S+)", served.stderr.readline())
        assert announced is not None
        token = Path(announced[2].decode()).read_text().strip()
        header = schema.HttpHeader(name="Authorization", value=f"Bearer {token}")
        server = schema.HttpMcpServer(type="http", name="sums", url=announced[1].decode(), headers=[header])
        script = desk.script(call("mcp__sums__calculate", expression="6*7"), say("counted"))

        async def story() -> None:
            async with editing(desk, *script) as editor:
                session = await editor.new(desk, [server])
                await editor.say(session, "count")
                assert "42" in str(editor.call("mcp__sums__calculate")["content"])

        run(story())
    finally:
        served.terminate()
        served.communicate()


def test_a_server_that_does_not_start_is_left_out(desk: CliEnvironment) -> None:
    """The session is made all the same, with the other servers of the editor, also again after the server was killed; the user
    is told which one failed."""
    described = desk.root / "described.json"
    described.write_text("{}")
    broken = schema.McpServerStdio(name="broken", command="/nonexistent/server", args=[], env=[])
    nameless = schema.McpServerStdio(name="no\u202ename", command="true", args=[], env=[])
    good = schema.McpServerStdio(
        name="small", command=sys.executable, args=[str(SMALL_SERVER), str(described)], env=[]
    )
    find = call("list_tools", query="greet")
    script = desk.script(find, say("still here"), find, say("again"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk, [broken, good, nameless])
            await editor.say(session, "hello")
            assert editor.text() == "still here"
            told = editor.text("agent_thought_chunk")
            assert "without this MCP server of the editor: broken." in told
            assert "small" not in told
            desk.kill_server()
            desk.start_server()
            await editor.say(session, "hello again")
            assert editor.text() == "still hereagain"
            found = [
                str(one.raw_output) for one in editor.of("tool_call_update") if one.status == "completed"
            ]
            assert [("mcp__small__" in one) for one in found] == [True, True], found
            acp_server = schema.AcpMcpServer(type="acp", name="x", server_id="y")
            with pytest.raises(RequestError, match="stdio, http or sse"):
                await editor.new(desk, [acp_server])

    run(story())


def test_closing_cancels_the_prompt_and_withdraws_its_question(desk: CliEnvironment) -> None:
    """A close in mid-turn is a cancel: the prompt ends so, an open request is withdrawn."""
    script = desk.script(ACTIVATE, WRITE, say("never"))

    async def story() -> None:
        async with editing(desk, *script, choose=lambda *_: None) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "write"))
            await editor.wait(lambda: editor.requests)
            await editor.agent.close_session(session_id=session)
            assert (await prompt).stop_reason == "cancelled"
            await editor.wait(lambda: editor.withdrawn)
        async with editing(desk, *desk.script(SLEEP, say("never"), name="other.json")) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "wait"))
            await editor.wait(lambda: "begun" in str(editor.of("tool_call_update")))
            await editor.agent.close_session(session_id=session)
            assert (await prompt).stop_reason == "cancelled"

    run(story())
    assert not (desk.work / "a.txt").exists()


def test_loading_in_mid_turn_keeps_the_prompt(desk: CliEnvironment) -> None:
    """The conversation is shown again, the open question asked again, and the prompt ends with its turn."""
    script = desk.script(ACTIVATE, WRITE, say("written"), say("more"))

    async def story() -> None:
        async with editing(desk, *script, choose=lambda *_: None) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "write"))
            await editor.wait(lambda: editor.requests)
            editor.choose = lambda *_: "allow_once" if len(editor.requests) > 1 else None
            await editor.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            assert (await prompt).stop_reason == "end_turn"
            assert len(editor.requests) == 2
            assert len(editor.withdrawn) == 1
            await editor.say(session, "again")
            assert editor.text() == "writtenmore"

    run(story())
    assert (desk.work / "a.txt").exists()


def test_a_session_is_opened_once_by_its_own_id_and_directory(desk: CliEnvironment) -> None:
    """Loads of one session at once, an abbreviated id and another directory are refused; nothing is shown twice."""
    script = desk.script(say("one"), say("two"), say("three"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            await editor.say(session, "first")

            async def load(cwd: Path = desk.work, name: str = session) -> bool:
                try:
                    await editor.agent.load_session(cwd=str(cwd), session_id=name, mcp_servers=[])
                except RequestError:
                    return False
                return True

            assert sum(await asyncio.gather(*(load() for _ in range(4)))) == 1
            closing = editor.agent.close_session(session_id=session)
            opened, closed = await asyncio.gather(load(), closing, return_exceptions=True)
            assert opened is True
            assert "being opened" in str(closed)
            assert not await load(name=session[:-2])
            assert not await load(cwd=desk.home)
            editor.updates.clear()
            await editor.say(session, "second")  # it is still open
            assert editor.text() == "two"
            editor.updates.clear()
            assert await load()
            await editor.say(session, "third")
            assert editor.text() == "onetwothree"

    run(story())


def test_many_sessions_at_once(desk: CliEnvironment) -> None:
    """Prompts of different sessions run beside each other."""
    script = desk.script(call("run", command="sleep 0.2; echo over"), say("done"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            sessions = [await editor.new(desk) for _ in range(4)]
            ended = await asyncio.gather(*(editor.say(one, "go") for one in sessions))
            assert [one.stop_reason for one in ended] == ["end_turn"] * 4
            assert all(editor.text(session_id=one) == "done" for one in sessions)

    run(story())
