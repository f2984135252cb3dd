"""Files through the editor: tools see its unsaved buffers, and write through it; nothing is lost where it fails."""

from __future__ import annotations

from tests.acp.editor import editing, run
from tests.cli.desk import Desk, call, say

from jaato.tools.filesystem.backups import Backups

READ = call("readFile", path="a.txt")
ACTIVATE = call("get_tool_schemas", names=["updateFile", "writeNewFile", "undoFileChange", "findAndReplace"])
UPDATE = call("updateFile", path="a.txt", old="unsaved", new="edited")


def test_a_read_sees_unsaved_text(desk: Desk) -> None:
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


def test_an_edit_is_written_by_the_editor(desk: Desk) -> None:
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
