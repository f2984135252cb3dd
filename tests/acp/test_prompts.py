"""A prompt of an editor: its calls, its text, how it ends."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pexpect
import pytest
from acp.exceptions import RequestError
from acp.helpers import (
    embedded_blob_resource,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from tests.acp.editor import editing, run
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking

from acp import schema

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def activate(*names: str) -> dict[str, Any]:
    """A scripted reply that activates tools."""
    return call("get_tool_schemas", names=list(names))


def test_a_prompt_shows_calls_thoughts_and_text(desk: CliEnvironment) -> None:
    """A file is written with a diff, a command prints while it runs, and the turn ends with its tokens."""
    script = desk.script(
        activate("writeNewFile"),
        call("writeNewFile", path="a.txt", content="hello\n"),
        call("run", command="echo begun; sleep 0.6; echo over"),
        say("all **done**", thinking="it is simple", chunks=4),
    )

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            ended = await editor.say(session, "write it")
            assert ended.stop_reason == "end_turn"
            assert ended.usage is not None
            assert ended.usage.output_tokens == 80
            assert editor.text() == "all **done**"
            assert editor.text("agent_thought_chunk") == "it is simple"
            assert len(editor.of("agent_message_chunk")) == 4
            written = editor.call("writeNewFile path")
            assert written["kind"] == "edit"
            assert written["states"] == ["pending", "in_progress", "completed"]
            assert written["locations"] == [{"path": str(desk.work / "a.txt")}]
            assert written["raw_input"] == {"path": "a.txt", "content": "hello\n"}
            (diff,) = written["content"]
            assert (diff["type"], diff["path"], diff["new_text"]) == (
                "diff",
                str(desk.work / "a.txt"),
                "hello\n",
            )
            ran = editor.call("echo begun")
            assert ran["kind"] == "execute"
            assert ran["states"].count("in_progress") >= 2  # begun, and what it has printed
            assert "begun\nover" in ran["content"][0]["content"]["text"]
            ((asked, options),) = editor.requests
            assert [option.kind for option in options] == [
                "allow_once",
                "allow_always",
                "reject_once",
                "reject_always",
            ]
            assert asked.tool_call_id == written["tool_call_id"]
            assert asked.content is not None
            assert asked.content[0].type == "diff"
            usage = editor.of("usage_update")[-1]
            assert (usage.used, usage.size) == (1020, 128_000)
        assert (desk.work / "a.txt").read_text() == "hello\n"

    run(story())


def test_without_a_server_it_works_in_the_process(alone: CliEnvironment) -> None:
    """The same in memory: no server is started."""
    script = alone.script(say("hello"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            assert (await editor.say(session, "hi")).stop_reason == "end_turn"
            assert editor.text() == "hello"

    run(story())
    assert "no server" in alone.run("serve", "--status").stdout


def test_the_server_is_started_if_there_is_none(alone: CliEnvironment) -> None:
    """An editor needs no daemon to be there."""
    script = alone.script(say("hello"))
    alone.env["XDG_RUNTIME_DIR"] = str(alone.home)

    async def story() -> None:
        async with editing(alone, *script) as editor:
            session = await editor.new(alone)
            assert (await editor.say(session, "hi")).stop_reason == "end_turn"

    try:
        run(story())
        assert "serving at" in alone.run("serve", "--status").stdout
    finally:
        alone.run("serve", "--stop")


@pytest.mark.parametrize(
    ("finish", "stop"), [("length", "max_tokens"), ("refusal", "refusal"), ("stop", "end_turn")]
)
def test_a_turn_ends_with_its_reason(alone: CliEnvironment, finish: str, stop: str) -> None:
    """Why the model stopped is why the prompt ends."""
    script = alone.script(say("so far", finish_reason=finish))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            assert (await editor.say(session, "go on")).stop_reason == stop

    run(story())


def test_a_limit_ends_the_turn(alone: CliEnvironment) -> None:
    """The limit of model calls is named."""
    script = alone.script(call("calculate", expression="1+1"), say("never"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", "--max-turns", "1") as editor:
            session = await editor.new(alone)
            assert (await editor.say(session, "go on")).stop_reason == "max_turn_requests"
            assert "1" in editor.text()

    run(story())


def test_an_error_of_the_provider_is_an_error_of_the_prompt(alone: CliEnvironment) -> None:
    """The words of the provider reach the editor, a refused key as one; the session stays usable."""
    script = alone.script(say("", error="provider_authentication"), say("back"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            with pytest.raises(RequestError, match="The script says") as caught:
                await editor.say(session, "go on")
            assert caught.value.code == -32000
            assert "jaato login" in str(caught.value)
            assert (await editor.say(session, "again")).stop_reason == "end_turn"
            assert editor.text().endswith("back")

    run(story())


def test_without_a_provider_the_editor_is_told_to_log_in(alone: CliEnvironment) -> None:
    """No key, no Ollama, no embedded model: authentication is required, with the words of what to do."""

    async def story() -> None:
        async with editing(alone, "--no-daemon") as editor:
            with pytest.raises(RequestError, match="jaato login") as caught:
                await editor.new(alone)
            assert caught.value.code == -32000
            with pytest.raises(RequestError, match="jaato login") as caught:
                await editor.agent.authenticate(method_id="jaato-login")
            assert caught.value.code == -32000

    run(story())


def test_a_key_is_saved_in_a_terminal_of_the_editor(alone: CliEnvironment) -> None:
    """An editor that declares terminals for this runs its command with the arguments of the method; it is offered to no other."""

    async def methods(terminal: bool) -> list[Any]:
        async with editing(alone, "--no-daemon") as editor:
            capabilities = schema.ClientCapabilities(auth=schema.AuthCapabilities(terminal=terminal))
            hello = await editor.agent.initialize(protocol_version=1, client_capabilities=capabilities)
            return list(hello.auth_methods or [])

    async def story() -> None:
        assert [one.id for one in await methods(terminal=False)] == ["jaato-login"]
        offered, other = await methods(terminal=True)
        assert (offered.type, other.id) == ("terminal", "jaato-login")
        flags = ["acp", "--no-daemon", *offered.args]
        refused = alone.run(*flags)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "jaato login anthropic | openai" in refused.stderr
        with talking(alone, *flags[1:], command="acp") as at:
            at.expect("Provider of the key .*: ")
            at.sendline("openai")
            at.expect("Key of openai: ")
            at.sendline("sk-secret")
            at.expect("saved the key of openai")
            at.expect(pexpect.EOF)
        async with editing(alone, "--no-daemon") as editor:
            await editor.agent.authenticate(method_id="jaato-login")

    run(story())


def test_a_prompt_has_images_links_and_resources(alone: CliEnvironment) -> None:
    """Images are kept in the session, links name paths, the text of a resource is in the message."""
    script = alone.script(say("seen"))

    async def story() -> str:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            ended = await editor.agent.prompt(
                session_id=session,
                prompt=[
                    text_block("look at "),
                    resource_link_block("a b.py", (alone.work / "a b.py").as_uri()),
                    image_block(base64.b64encode(PIXEL).decode(), "image/png"),
                    resource_block(embedded_text_resource("file:///x/notes.md", "# remember")),
                    document(b"%PDF-1.7 ..."),
                ],
            )
            assert ended.stop_reason == "end_turn"
            with pytest.raises(RequestError, match=r"a\.pdf: This is no PDF document"):
                await editor.agent.prompt(session_id=session, prompt=[document(b"text")])
            with pytest.raises(RequestError, match="base64"):
                await editor.agent.prompt(session_id=session, prompt=[image_block("no!", "image/png")])
            large = image_block(base64.b64encode(PIXEL + bytes(6_000_000)).decode(), "image/png")
            with pytest.raises(RequestError, match="image-1: This image has more than 5 MB"):
                await editor.agent.prompt(session_id=session, prompt=[large])
            sound = schema.AudioContentBlock(type="audio", data="", mime_type="audio/wav")
            with pytest.raises(RequestError, match="sound"):
                await editor.agent.prompt(session_id=session, prompt=[sound])
            text = schema.ImageContentBlock(
                type="image", data=base64.b64encode(b"no").decode(), mime_type="image/png", uri="/x.png"
            )
            with pytest.raises(RequestError, match=r"x\.png: This is no PNG"):
                await editor.agent.prompt(session_id=session, prompt=[text])
            with pytest.raises(RequestError, match="empty"):
                await editor.say(session, "  ")
            return session

    session: list[str] = []

    async def keep() -> None:
        session.append(await story())

    run(keep())
    events = alone.events(session[0])
    (parts,) = [event["message"]["parts"] for event in events if event["type"] == "message.user"]
    assert parts[0]["text"].startswith(f"look at [@a b.py]({alone.work}/a b.py)")
    assert "# remember" in parts[0]["text"]
    kinds = [part["mime_type"] for part in parts if "mime_type" in part]
    assert kinds == ["image/png", "application/pdf"]


def document(content: bytes) -> schema.EmbeddedResourceContentBlock:
    """A resource that says it is a PDF document."""
    data = base64.b64encode(content).decode()
    return resource_block(embedded_blob_resource("file:///x/a.pdf", data, mime_type="application/pdf"))


def test_an_untitled_session_has_its_first_message_as_title(desk: CliEnvironment) -> None:
    """On one line, in the session list and as soon as it was sent; a name that it is given replaces it."""
    script = desk.script(say("one"), say("two"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            await editor.say(session, "Fix the\n\tgreeting " + "x" * 200)
            (title,) = [one.title for one in editor.of("session_info_update")]
            assert title.startswith("Fix the greeting xxx")
            assert len(title) == 100
            await editor.say(session, "more")
            assert len(editor.of("session_info_update")) == 1
            (row,) = (await editor.agent.list_sessions(cwd=str(desk.work))).sessions
            assert row.title == title
            desk.run("sessions", "rename", session, "greeting")
            (row,) = (await editor.agent.list_sessions(cwd=str(desk.work))).sessions
            assert row.title == "greeting"

    run(story())


def test_a_wrong_command_is_answered_in_the_conversation(alone: CliEnvironment) -> None:
    """With what there is, instead of an error of the protocol; the model gets none of it."""
    script = alone.script(say("model"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            for text, answer in (
                ("/nope", "There is no command /nope, and no stored prompt of that name"),
                ("/mode yolo", "there are ask, accept-edits"),
                ("/mode\nplan", "The mode is plan"),
                ("/continue", "No turn"),
                ("/help", "- `/mode`: "),
            ):
                editor.updates.clear()
                assert (await editor.say(session, text)).stop_reason == "end_turn"
                assert answer in editor.text()
            await editor.say(session, "/etc/hosts has what?")
            assert editor.text().endswith("model")

    run(story())


def test_a_plan_is_shown_as_it_changes(alone: CliEnvironment) -> None:
    """Each step with its status."""
    script = alone.script(
        activate("createPlan", "startPlan", "setStepStatus"),
        call("createPlan", title="Work", steps=["look", "write"]),
        say("planned"),
    )

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            await editor.say(session, "plan it")
            plan = editor.of("plan")[-1]
            assert [entry.content for entry in plan.entries] == ["look", "write"]
            assert {entry.status for entry in plan.entries} == {"pending"}

    run(story())


def test_a_prompt_in_mid_turn_joins_it(desk: CliEnvironment) -> None:
    """A second message steers the turn that runs; both prompts end with it."""
    script = desk.script(call("run", command="echo begun; sleep 1"), say("both"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            first = asyncio.create_task(editor.say(session, "begin"))
            await editor.wait(lambda: editor.of("tool_call_update"))
            second = await editor.say(session, "and this")
            assert second.stop_reason == "end_turn"
            assert (await first).stop_reason == "end_turn"

    run(story())
