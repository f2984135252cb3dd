"""Files through the editor: tools see its unsaved buffers, and write through it; nothing is lost where it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acp.schema import ReadTextFileResponse
from tests.acp.editor import Editor, editing, run
from tests.acp.raw import Raw
from tests.cli.environment import CliEnvironment, call, say

from jaato.acp.files import answer_file
from jaato.protocol.frames import FileRequest
from jaato.tools.filesystem.backups import Backups

READ = call("readFile", path="a.txt")
ACTIVATE = call("get_tool_schemas", names=["updateFile", "writeNewFile", "undoFileChange", "findAndReplace"])
UPDATE = call("updateFile", path="a.txt", old="unsaved", new="edited")


def test_a_read_sees_unsaved_text(desk: CliEnvironment) -> None:
    """The text of the buffer, with a note that the disk has another."""
    script = desk.script(READ, say("read"))
    (desk.work / "a.txt").write_text("saved\n")

    async def story() -> None:
        async with editing(desk, *script, files="read") as editor:
            editor.edit(desk.work / "a.txt", "unsaved\n")
            session = await editor.new(desk)
            await editor.say(session, "read it")
            shown = editor.call("readFile")
            text = shown["content"][0]["content"]["text"]
            assert "unsaved\n" in text
            assert "unsaved text of the client" in text
            assert editor.file_requests == [("read", str(desk.work / "a.txt"))]

    run(story())


def test_an_edit_is_written_by_the_editor(desk: CliEnvironment) -> None:
    """The edit applies to the unsaved text, the question shows its diff, and both earlier texts are kept."""
    undo = call("undoFileChange", path="a.txt")
    script = desk.script(ACTIVATE, UPDATE, say("done"), undo, say("undone"))
    path = desk.work / "a.txt"
    path.write_text("saved\n")

    async def story() -> None:
        async with editing(desk, *script, files="write") as editor:
            editor.edit(path, "unsaved\n")
            session = await editor.new(desk)
            await editor.say(session, "edit it")
            assert path.read_text() == "edited\n"
            assert ("write", str(path)) in editor.file_requests
            question = editor.requests[0][0]
            assert question.content is not None
            assert question.content[0].old_text == "unsaved\n"
            await editor.say(session, "undo it")
            assert path.read_text() == "unsaved\n"

    run(story())
    backups = Backups(desk.work)
    kept = [backups.content(one.digest or "") for one in reversed(backups.records("a.txt"))]
    assert kept == [b"saved\n", b"unsaved\n", b"edited\n"]


BAD: tuple[dict[str, Any], ...] = (
    {"result": {"content": 5}},
    {"result": {}},
    {"result": []},
    {"result": {"content": "a \ud800 b"}},
    {"result": {"content": "a\0b"}},
    {"error": {"code": -32002, "message": "not open"}},
    {"error": "broken"},
)
"""Answers without text of a file."""


def test_bad_answers_have_no_effect(alone: CliEnvironment) -> None:
    """Wrong types, lone surrogates, too much, another id, and an answer after the deadline: the disk is read, the editor is
    asked again, and the session goes on."""
    reads = len(BAD) + 3
    script = alone.script(*[one for number in range(reads) for one in (READ, say(f"<{number}>"))])
    (alone.work / "a.txt").write_text("saved\n")
    raw = Raw(alone, *script, "--no-daemon")
    try:
        raw.ask(0, "initialize", protocolVersion=1, clientCapabilities={"fs": {"readTextFile": True}})
        made = raw.ask(1, "session/new", cwd=str(alone.work), mcpServers=[])
        session = made["result"]["sessionId"]

        def begin(number: int) -> Any:
            prompt = [{"type": "text", "text": "read"}]
            params = {"sessionId": session, "prompt": prompt}
            raw.send({"jsonrpc": "2.0", "id": 10 + number, "method": "session/prompt", "params": params})
            asked = raw.read()
            assert asked["method"] == "fs/read_text_file", asked
            assert asked["params"] == {"sessionId": session, "path": str(alone.work / "a.txt")}
            return asked["id"]

        def end(number: int) -> None:
            while (message := raw.read()).get("id") != 10 + number:
                assert message.get("id") is None, message
            assert message["result"]["stopReason"] == "end_turn"
            assert raw.text.endswith(f"<{number}>")

        for number, answer in enumerate(BAD):
            request = begin(number)
            raw.send({"jsonrpc": "2.0", "id": "another", "result": {"content": "other"}})
            raw.send({"jsonrpc": "2.0", "id": request, **answer})
            end(number)
        number = len(BAD)
        request = begin(number)
        raw.send(b'{"jsonrpc":"2.0","id":1,"result":{"content":"' + b"x" * (17 << 20) + b'"}}\n')
        end(number)
        raw.send({"jsonrpc": "2.0", "id": request, "result": {"content": "late\n"}})
        request = begin(number + 1)
        raw.send({"jsonrpc": "2.0", "id": request, "result": {"content": "unsaved\n"}})
        end(number + 1)
    finally:
        raw.close()
    assert (alone.work / "a.txt").read_text() == "saved\n"


def test_an_editor_that_can_only_write_serves_no_files(desk: CliEnvironment) -> None:
    """Its unsaved text would be overwritten unseen."""
    script = desk.script(ACTIVATE, call("updateFile", path="a.txt", old="saved", new="edited"), say("done"))
    (desk.work / "a.txt").write_text("saved\n")

    class Blind(Editor):
        async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
            raise AssertionError("it does not read")

    async def story() -> None:
        async with editing(desk, *script, editor=Blind(), writes_only=True) as editor:
            await editor.say(await editor.new(desk), "edit it")
            assert not editor.file_requests

    run(story())
    assert (desk.work / "a.txt").read_text() == "edited\n"


def test_an_editor_that_reads_the_disk_serves_no_files(desk: CliEnvironment) -> None:
    """Its unsaved text would be unseen, and overwritten by its own write: the disk is changed instead."""
    script = desk.script(ACTIVATE, call("updateFile", path="a.txt", old="saved", new="edited"), say("done"))
    path = desk.work / "a.txt"
    path.write_text("saved\n")

    async def story() -> None:
        async with editing(desk, *script, files="write", name="CodeCompanion.nvim") as editor:
            editor.edit(path, "typed\n")
            await editor.say(await editor.new(desk), "edit it")
            assert not editor.file_requests
            assert editor.buffers[str(path)] == "typed\n"

    run(story())
    assert path.read_text() == "edited\n"


def test_a_workspace_behind_a_link_is_named_as_the_editor_names_it(desk: CliEnvironment) -> None:
    """The editor knows its files below the directory that it has opened."""
    script = desk.script(READ, say("read"))
    (desk.work / "a.txt").write_text("saved\n")
    link = desk.root / "link"
    link.symlink_to(desk.work)

    async def story() -> None:
        async with editing(desk, *script, files="read") as editor:
            made = await editor.agent.new_session(cwd=str(link), mcp_servers=[])
            await editor.say(made.session_id, "read it")
            assert editor.file_requests == [("read", str(link / "a.txt"))]

    run(story())


def test_files_are_served_again_after_the_server_was_killed(desk: CliEnvironment) -> None:
    """The new server asks the editor as the one before did."""
    script = desk.script(READ, say("one"), READ, say("two"))
    (desk.work / "a.txt").write_text("saved\n")

    async def story() -> None:
        async with editing(desk, *script, files="read") as editor:
            editor.edit(desk.work / "a.txt", "unsaved\n")
            session = await editor.new(desk)
            await editor.say(session, "read it")
            await asyncio.to_thread(desk.kill_server)
            await editor.say(session, "read it again")
            assert len(editor.file_requests) == 2
            assert editor.text() == "onetwo"

    run(story())


class Busy:
    """An editor that answers once it is free; `given_up` if the agent waits no more."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked = asyncio.Event()
        self.given_up = asyncio.Event()
        self.withdrawn: list[tuple[str, str]] = []

    async def withdraw(self, session_id: str, key: str) -> None:
        self.withdrawn.append((session_id, key))

    async def _wait(self) -> None:
        self.asked.set()
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        await self._wait()
        return ReadTextFileResponse(content="text")

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        await self._wait()


def test_the_answer_to_a_write_is_awaited_and_that_to_a_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both requests are withdrawn after their deadline. The server learns when the file is written at last."""
    monkeypatch.setattr("jaato.acp.files.FORGET_AFTER_S", 0.0)

    async def story() -> None:
        editor = Busy()
        read = await answer_file(editor, FileRequest("q1", "s1", "a.txt", 0.0), "/w", editor.withdraw)
        assert read.problem == "no answer"
        await editor.given_up.wait()
        assert editor.withdrawn == [("s1", "/w/a.txt")]
        request = FileRequest("q2", "s2", "a.txt", 0.0, "new")
        write = asyncio.ensure_future(answer_file(editor, request, "/w", editor.withdraw))
        while len(editor.withdrawn) < 2:
            await asyncio.sleep(0)
        editor.free.set()
        assert not (await write).problem
        assert editor.withdrawn[1] == ("s2", "/w/a.txt")

    run(story())


@pytest.mark.parametrize("content", [None, "new"], ids=["read", "write"])
def test_a_cancelled_request_leaves_nothing_running(content: str | None) -> None:
    """The request to the editor ends with the one who asks."""

    async def story() -> None:
        editor = Busy()
        request = FileRequest("q1", "s1", "a.txt", 60.0, content)
        answer = asyncio.ensure_future(answer_file(editor, request, "/w", editor.withdraw))
        await editor.asked.wait()
        answer.cancel()
        await asyncio.wait([answer])
        assert answer.cancelled()
        await editor.given_up.wait()

    run(story())


def test_requests_for_one_file_in_two_sessions_are_withdrawn_each(desk: CliEnvironment) -> None:
    """The deadline of one session's request withdraws that, and not the other's of the same path."""
    script = desk.script(READ, say("read"))
    (desk.work / "a.txt").write_text("saved\n")

    class Slow(Editor):
        async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
            self.file_requests.append((session_id, path))
            await asyncio.Event().wait()

    async def story() -> None:
        async with editing(desk, *script, files="read", editor=Slow()) as editor:
            sessions = [await editor.new(desk) for _ in range(2)]
            await asyncio.gather(*(editor.say(session, "read it") for session in sessions))
            assert sorted(one for one, _ in editor.file_requests) == sorted(sessions)
            await editor.wait(lambda: len(editor.withdrawn) == 2)
            assert len(set(editor.withdrawn)) == 2

    run(story())
