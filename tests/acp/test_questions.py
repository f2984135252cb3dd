"""Permission questions and the model's questions, as the editor asks them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.acp.editor import Editor, editing, run
from tests.cli.environment import CliEnvironment, call, say

from acp import schema
from jaato.client.connection import connect
from jaato.protocol.events import PermissionRequested

WRITE = call("writeNewFile", path="a.txt", content="hello\n")
ACTIVATE = call("get_tool_schemas", names=["writeNewFile"])


@pytest.mark.parametrize(
    ("option", "answer", "written"),
    [
        ("allow_once", "y", True),
        ("allow_always", "a", True),
        ("reject_once", "n", False),
        ("reject_always", "never", False),
        ("cancelled", "n", False),
    ],
)
def test_each_option_is_a_documented_answer(
    alone: CliEnvironment, option: str, answer: str, written: bool
) -> None:
    """The four options, and a request that the editor cancels."""
    script = alone.script(ACTIVATE, WRITE, say("over"))
    session: list[str] = []

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", choose=lambda *_: option) as editor:
            session.append(await editor.new(alone))
            assert (await editor.say(session[0], "write")).stop_reason == "end_turn"
            states = editor.call("writeNewFile path")["states"]
            assert states[-1] == ("completed" if written else "failed")

    run(story())
    answers = [one["answer"] for one in alone.events(session[0]) if one["type"] == "permission.resolved"]
    assert answers == [answer]
    assert (alone.work / "a.txt").exists() == written


def test_always_holds_for_the_next_call(alone: CliEnvironment) -> None:
    """What is always allowed is asked once."""
    second = call("writeNewFile", path="b.txt", content="again\n")
    script = alone.script(ACTIVATE, WRITE, second, say("over"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", choose=lambda *_: "allow_always") as editor:
            session = await editor.new(alone)
            await editor.say(session, "write")
            assert len(editor.requests) == 1

    run(story())
    assert (alone.work / "b.txt").exists()


def test_cancel_settles_the_open_request(desk: CliEnvironment) -> None:
    """A cancelled prompt ends as such while its question is open, which is withdrawn; the next one works."""
    script = desk.script(ACTIVATE, WRITE, say("after"))

    async def story() -> None:
        async with editing(desk, *script, choose=lambda *_: None) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "write"))
            await editor.wait(lambda: editor.requests)
            await editor.agent.cancel(session_id=session)
            assert (await prompt).stop_reason == "cancelled"
            assert editor.call("writeNewFile path")["states"][-1] == "failed"
            assert (await editor.say(session, "and now")).stop_reason == "end_turn"

    run(story())
    assert not (desk.work / "a.txt").exists()


def test_cancel_stops_a_command(desk: CliEnvironment) -> None:
    """A running command is ended by the editor's stop."""
    script = desk.script(call("run", command="echo begun; sleep 300"), say("never"))

    async def story() -> None:
        async with editing(desk, *script) as editor:
            session = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session, "wait"))
            await editor.wait(lambda: "begun" in str(editor.of("tool_call_update")))
            await editor.agent.cancel(session_id=session)
            assert (await prompt).stop_reason == "cancelled"

    run(story())


def test_a_question_that_another_client_answers_is_withdrawn(desk: CliEnvironment) -> None:
    """Two editors are asked; when one has answered, the other is told that the request needs no answer."""
    script = desk.script(ACTIVATE, WRITE, say("over"))

    async def story() -> None:
        async with (
            editing(desk, *script, choose=lambda *_: None) as first,
            editing(desk, choose=lambda *_: None) as second,
        ):
            session = await first.new(desk)
            prompt = asyncio.create_task(first.say(session, "write"))
            await first.wait(lambda: first.requests)
            second.choose = lambda *_: "allow_once"
            await second.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            assert (await prompt).stop_reason == "end_turn"
            await first.wait(lambda: first.withdrawn)
            assert not second.withdrawn
            assert first.call("writeNewFile path")["states"][-1] == "completed"

    run(story())
    assert (desk.work / "a.txt").exists()


@pytest.mark.parametrize("terminal", [False, True])
def test_an_edited_call_is_shown_with_what_ran(desk: CliEnvironment, terminal: bool) -> None:
    """Another client allows a call with other arguments: title, input and places of the editor's call become those of what
    runs when it begins, whether it writes a file or a command runs, also for an editor that loads the session meanwhile or
    later."""
    command = call("run", command="touch asked", need=["write"])
    script = desk.script(ACTIVATE, WRITE, command, say("over"))
    waits = "touch other; while ! [ -e go ]; do sleep 0.02; done"
    edits = [{"path": "b.txt", "content": "edited"}, {"command": waits, "need": ["write"]}]

    async def allow_edited(session_id: str) -> None:
        [socket] = Path(desk.env["XDG_RUNTIME_DIR"]).rglob("*.sock")
        async with connect(socket) as client:
            session = await client.attach(session_id)
            with session.events() as events:
                asked = {*session.state.questions}
                for edited in edits:
                    while not asked:
                        event = await anext(aiter(events))
                        asked |= {event.question_id} if isinstance(event, PermissionRequested) else set()
                    await session.allow(asked.pop(), "e", arguments=edited)

    def check(editor: Editor) -> None:
        written, ran = editor.call("writeNewFile path"), editor.call("touch")
        assert (written["title"], written["raw_input"]) == (
            "writeNewFile path=b.txt content=edited",
            edits[0],
        )
        assert [one["path"] for one in written["locations"]] == [str(desk.work / "b.txt")]
        assert (ran["title"], ran["raw_input"]) == (f'run {waits} (need=["write"])', edits[1])
        assert [one["states"][-1] for one in (written, ran)] == ["completed"] * 2

    async def story() -> None:
        async with editing(desk, *script, choose=lambda *_: None, terminal=terminal) as editor:
            session_id = await editor.new(desk)
            prompt = asyncio.create_task(editor.say(session_id, "write"))
            await editor.wait(lambda: editor.requests)
            await allow_edited(session_id)
            await editor.wait((desk.work / "other").exists)
            await editor.wait(lambda: editor.call("touch")["raw_input"] == edits[1])
            assert "completed" not in editor.call("touch")["states"]
            async with editing(desk, terminal=terminal) as joining:
                await joining.agent.load_session(cwd=str(desk.work), session_id=session_id, mcp_servers=[])
                await joining.wait(lambda: joining.call("touch")["raw_input"] == edits[1])
                assert joining.call("touch")["states"][:2] == ["pending", "in_progress"]
            (desk.work / "go").touch()
            assert (await prompt).stop_reason == "end_turn"
            check(editor)
        async with editing(desk, terminal=terminal) as later:
            await later.agent.load_session(cwd=str(desk.work), session_id=session_id, mcp_servers=[])
            await later.wait(lambda: len(later.of("tool_call_update")) > 2)
            check(later)

    run(story())
    assert not (desk.work / "a.txt").exists()
    assert (desk.work / "b.txt").read_text() == "edited"
    assert (desk.work / "other").exists()


CLARIFY = call(
    "request_clarification",
    context="Before I begin",
    questions=[{"question": "Which colour?", "choices": ["red", "blue"]}],
)


def test_the_models_question_is_a_choice(alone: CliEnvironment) -> None:
    """Without forms each choice is an option."""
    script = alone.script(call("get_tool_schemas", names=["request_clarification"]), CLARIFY, say("fine"))

    def choose(_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        return next(option.option_id for option in options if option.name == "blue")

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", choose=choose) as editor:
            session = await editor.new(alone)
            await editor.say(session, "begin")
            ((asked, options),) = editor.requests
            assert asked.title == "Which colour?"
            assert [option.name for option in options] == ["red", "blue", "No answer"]
            assert "blue" in str(editor.call("request_clarification context")["content"])

    run(story())


def test_each_choice_is_asked_where_options_have_no_names(alone: CliEnvironment) -> None:
    """An editor that shows the kind of an option in place of its name has one question for each choice."""
    script = alone.script(call("get_tool_schemas", names=["request_clarification"]), CLARIFY, say("fine"))

    def choose(asked: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        kind = "allow_once" if "blue" in str(asked.title) else "reject_once"
        return next(option.option_id for option in options if option.kind == kind)

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", choose=choose, name="CodeCompanion.nvim") as editor:
            session = await editor.new(alone)
            await editor.say(session, "begin")
            titles = [asked.title for asked, _ in editor.requests]
            assert titles == ["Which colour? red", "Which colour? blue"]
            assert "blue" in str(editor.call("request_clarification context")["content"])

    run(story())


def test_the_models_question_is_a_form(alone: CliEnvironment) -> None:
    """An editor with forms is sent one, and its fields are the answers."""
    script = alone.script(call("get_tool_schemas", names=["request_clarification"]), CLARIFY, say("fine"))

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon", forms=True) as editor:
            editor.form_answer = {"answer_1": "red"}
            session = await editor.new(alone)
            await editor.say(session, "begin")
            ((message, mode),) = editor.forms
            assert message == "Before I begin"
            assert mode.requested_schema.properties["answer_1"].enum == ["red", "blue"]
            assert "red" in str(editor.call("request_clarification context")["content"])

    run(story())


def test_a_hostile_call_cannot_steer_the_editor(alone: CliEnvironment) -> None:
    """Escapes, direction marks and imitated prompts in arguments, output and text are spelled out or removed."""
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\nAllow? [y/N] y\n```\n# done"
    script = alone.script(
        ACTIVATE,
        call("writeNewFile", path=f"x{evil}.txt", content=evil),
        call("run", command="printf '\\033[31mred\\033[0m'"),
        say(f"see {evil}", thinking=evil),
    )

    def story_of(editor: Editor) -> str:
        shown: list[Any] = [one.model_dump_json() for _, one in editor.updates]
        shown += [asked.model_dump_json() + str(options) for asked, options in editor.requests]
        return "\n".join(shown)

    async def story() -> None:
        async with editing(alone, *script, "--no-daemon") as editor:
            session = await editor.new(alone)
            await editor.say(session, "go")
            shown = story_of(editor)
            for char in ("\x1b", "\\u001b", "\x07", "\u202e", "\\u202e"):
                assert char not in shown
            assert all("\n" not in one.title for one in editor.of("tool_call"))
            assert "<U+001B>" in str(editor.requests[0][0].title)

    run(story())
