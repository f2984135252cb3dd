"""Changes of files that a client serves: written through it, compared with the disk, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit import call, say
from tests.server.client_buffers import (
    ACTIVATE,
    READ,
    UPDATE,
    Buffers,
    Save,
    kept_texts,
    results_of,
    run,
    text_of,
    work,
    working,
)

from jaato.protocol.frames import FileRequest

__all__ = ["work"]


def test_a_clean_buffer_changes_nothing(tmp_path: Path, work: Path) -> None:
    """A file without unsaved changes is read and edited as without a client, and written by it."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, READ, UPDATE, say("done")], buffers) as (_, session):
            _, read, edited = await results_of(session)
            assert text_of(read) == "one\ntwo\n"
            assert "notes" not in (edited.structured or {})

    run(story())
    assert (work / "a.txt").read_text() == "one\n2\n"
    assert buffers.writes == [("a.txt", "one\n2\n")]
    assert kept_texts(work) == ["one\ntwo\n"]


def test_line_ends_stay(tmp_path: Path, work: Path) -> None:
    """A client that holds CRLF files with LF is given LF, and unsaved text keeps the line ends of the file."""
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\n")

    def save(path: Path, text: str) -> str:
        assert "\r" not in text
        path.write_bytes(text.replace("\n", "\r\n").encode())
        return ""

    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"}, save)

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done")], buffers) as (_, session):
            edited = (await results_of(session))[1]
            assert "notes" in (edited.structured or {})  # that it has edited unsaved text

    run(story())
    assert (work / "a.txt").read_bytes() == b"one\r\n2\r\nthree\r\n"
    assert kept_texts(work) == ["one\r\ntwo\r\n", "one\r\ntwo\r\nthree\r\n"]


def lie(_path: Path, _text: str) -> str:
    """Say that it was written."""
    return ""


def refuse(_path: Path, _text: str) -> str:
    """Do not write."""
    return "the buffer is read-only"


@pytest.mark.parametrize(("save", "why"), [(lie, "has not saved it"), (refuse, "the buffer is read-only")])
def test_what_a_client_does_not_write_the_disk_has(tmp_path: Path, work: Path, save: Save, why: str) -> None:
    """The disk is looked at afterwards: text that is not there is written, and the result says why."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"}, save)
    undo = call("undoFileChange", path="a.txt")

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done"), undo, say("undone")], buffers) as (
            _,
            session,
        ):
            edited = (await results_of(session))[1]
            assert why in str(edited.structured)
            assert (work / "a.txt").read_text() == "one\n2\nthree\n"
            assert (await results_of(session))[0].ok

    run(story())
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert kept_texts(work)[:2] == ["one\ntwo\n", "one\ntwo\nthree\n"]


def test_a_client_may_format_what_it_saves(tmp_path: Path, work: Path) -> None:
    """Other text than it was given stays, is reported, and can be undone."""

    def save(path: Path, text: str) -> str:
        path.write_text(text.upper())
        return ""

    undo = call("undoFileChange", path="a.txt")
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"}, save)

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done"), undo, say("undone")], buffers) as (
            _,
            session,
        ):
            edited = (await results_of(session))[1]
            assert "format" in str(edited.structured)
            assert (work / "a.txt").read_text() == "ONE\n2\n"
            undone = (await results_of(session))[0]
            assert undone.ok, undone.error

    run(story())
    assert (work / "a.txt").read_text() == "one\ntwo\n"


def test_a_client_that_fails_in_the_middle(tmp_path: Path, work: Path) -> None:
    """The call fails and says so; each text that was there is in the backups."""

    def save(path: Path, text: str) -> str:
        path.write_text(text[:3])
        return "no space left"

    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"}, save)

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done")], buffers) as (_, session):
            edited = (await results_of(session))[1]
            assert edited.error is not None
            assert "no space left" in edited.error.message

    run(story())
    assert kept_texts(work) == ["one\ntwo\n", "one\ntwo\nthree\n"]


def test_a_buffer_that_changes_before_the_write(tmp_path: Path, work: Path) -> None:
    """What is typed meanwhile is part of the edit: the buffer is read again, and the edit finds its place anew."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def type_more(_request: FileRequest) -> None:
        if len(buffers.asked) == 2:
            buffers.texts["a.txt"] = "zero\none\ntwo\n"

    buffers.before_answer = type_more

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done")], buffers) as (_, session):
            assert (await results_of(session))[1].ok

    run(story())
    assert (work / "a.txt").read_text() == "zero\none\n2\n"


def test_a_set_of_changes_is_all_or_nothing(tmp_path: Path, work: Path) -> None:
    """When the second file cannot be changed, the first has the user's unsaved text, and the disk's is in the backups."""
    (work / "b.txt").write_text("two\n")
    edits = [{"path": "a.txt", "old": "two", "new": "2"}, {"path": "b.txt", "old": "two", "new": "2"}]

    def save(path: Path, text: str) -> str:
        if path.name == "b.txt":
            path.write_text("torn")
            return "failed"
        path.write_text(text)
        return ""

    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n", "b.txt": "two\n"}, save)

    async def story() -> None:
        script = [ACTIVATE, call("multiFileEdit", edits=edits), say("done")]
        async with working(tmp_path, script, buffers) as (_, session):

            async def keep(request: FileRequest) -> None:
                if request.path == "a.txt" and buffers.writes:
                    buffers.texts["a.txt"] = buffers.writes[0][1]

            buffers.before_answer = keep
            assert not (await results_of(session))[1].ok

    run(story())
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert kept_texts(work) == ["one\ntwo\n"]
    assert kept_texts(work, "b.txt") == ["two\n"]


def test_new_files_are_written_by_the_client(tmp_path: Path, work: Path) -> None:
    """In a directory that is made for them; one that is open and unsaved is not replaced."""
    script = [
        ACTIVATE,
        call("writeNewFile", path="deep/new.txt", content="new\n"),
        call("writeNewFile", path="open.txt", content="new\n"),
        say("done"),
    ]
    buffers = Buffers(work, {"open.txt": "typed\n"})

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            _, made, refused = await results_of(session)
            assert made.ok, made.error
            assert refused.error is not None
            assert refused.error.code == "file_unsaved"

    run(story())
    assert (work / "deep/new.txt").read_text() == "new\n"
    assert buffers.writes == [("deep/new.txt", "new\n")]
    assert not (work / "open.txt").exists()


def test_replacing_and_patching_use_the_buffers(tmp_path: Path, work: Path) -> None:
    """A search finds files on the disk, and its places in the buffers; a pattern and a patch as well."""
    (work / "b.txt").write_text("two\n")
    (work / "c.txt").write_text("none\n")
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n zero\n-ONE\n+1\n 2\n"
    script = [
        ACTIVATE,
        call("findAndReplace", pattern="two", replacement="2", dry_run=False),
        call("findAndReplace", pattern="o(n)e", replacement="O\\1E", regex=True, dry_run=False),
        call("findAndReplace", pattern="OnE", replacement="ONE", path="a.txt", dry_run=False),
        call("apply_patch", patch=patch),
        say("done"),
    ]
    buffers = Buffers(work, {"a.txt": "zero\none\ntwo\n", "c.txt": "two\n"})

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            for result in await results_of(session):
                assert result.ok, result.error

    run(story())
    assert (work / "a.txt").read_text() == "zero\n1\n2\n"
    assert (work / "b.txt").read_text() == "2\n"
    assert "c.txt" not in dict(buffers.writes)


def test_a_client_that_only_reads(tmp_path: Path, work: Path) -> None:
    """The edit of unsaved text is written to the disk, and both texts are kept."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"})

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done")], buffers, "read") as (_, session):
            assert "unsaved text" in str((await results_of(session))[1].structured)

    run(story())
    assert (work / "a.txt").read_text() == "one\n2\nthree\n"
    assert not buffers.writes
    assert kept_texts(work) == ["one\ntwo\n", "one\ntwo\nthree\n"]


def test_a_write_that_comes_late_loses_no_later_change(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the client has answered, nothing else changes the file that it may still write; others can be changed."""
    monkeypatch.setattr("jaato.server.sessions.client_files.WRITE_TIMEOUT_S", 0.2)
    (work / "b.txt").write_text("two\n")
    released = asyncio.Event()
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def hold(request: FileRequest) -> None:
        if request.content is not None and not released.is_set():
            await released.wait()

    buffers.before_answer = hold
    again = call("updateFile", path="a.txt", old="one", new="1")
    other = call("updateFile", path="b.txt", old="two", new="2")
    undo = call("undoFileChange", path="a.txt")
    move = call("moveFile", source_path="a.txt", destination_path="c.txt")

    async def story() -> None:
        script = [ACTIVATE, UPDATE, again, undo, move, other, READ, say("done"), again, say("done")]
        async with working(tmp_path, script, buffers) as (_, session):
            _, first, *held, elsewhere, read = await results_of(session)
            assert "has not answered within 0.2 s" in str(first.structured)
            for result in held:
                assert result.error is not None
                assert result.error.code == "file_unsaved"
                assert "may still write it" in result.error.message
            assert elsewhere.ok, elsewhere.error
            assert text_of(read).startswith("one\n2\n")
            buffers.answered.clear()
            released.set()
            await buffers.answered.wait()
            assert (await results_of(session))[0].ok

    run(story())
    assert (work / "a.txt").read_text() == "1\n2\n"
    assert (work / "b.txt").read_text() == "2\n"


UNAWARE = {
    "undo": call("undoFileChange", path="a.txt"),
    "remove": call("removeFile", path="a.txt"),
    "move": call("moveFile", source_path="a.txt", destination_path="c.txt"),
    "move over": call("moveFile", source_path="b.txt", destination_path="a.txt", overwrite=True),
    "copy": call("copyFile", source_path="a.txt", destination_path="c.txt"),
    "copy over": call("copyFile", source_path="b.txt", destination_path="a.txt", overwrite=True),
    "waypoint": call("restore_waypoint", waypoint_id="w1"),
}
"""Calls that change the disk without the client."""


@pytest.mark.parametrize("unaware", UNAWARE.values(), ids=UNAWARE)
def test_changes_on_the_disk_alone_spare_unsaved_text(
    tmp_path: Path, work: Path, unaware: dict[str, object]
) -> None:
    """They are refused while the client has unsaved text of the file, and work once that is saved."""
    (work / "b.txt").write_text("b\n")
    waypoints = call("get_tool_schemas", names=["create_waypoint", "restore_waypoint"])
    made = call("create_waypoint", description="before")
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})
    script = [ACTIVATE, waypoints, made, UPDATE, say("done"), unaware, say("refused"), unaware, say("done")]

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            assert all(result.ok for result in await results_of(session))
            buffers.texts["a.txt"] += "typed\n"
            (refused,) = await results_of(session)
            assert refused.error is not None
            assert refused.error.code == "file_unsaved"
            assert "save or discard" in refused.error.message
            assert (work / "a.txt").read_text() == "one\n2\n"
            assert not (work / "c.txt").exists()
            buffers.texts["a.txt"] = "one\n2\n"
            (done,) = await results_of(session)
            assert done.ok, done.error

    run(story())


def test_a_refused_undo_leaves_no_waypoint(tmp_path: Path, work: Path) -> None:
    """However often it is tried while text is unsaved; it works afterwards."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, say("done")], buffers) as (_, session):
            await results_of(session)
            buffers.texts["a.txt"] += "typed\n"
            for _ in range(2):
                assert "Save or discard" in await session.execute("undo", "")
            assert "Save or discard" in await session.execute("waypoint", "restore w0")
            assert "w1" not in await session.execute("waypoint", "list")
            buffers.texts["a.txt"] = "one\n2\n"
            assert "a.txt: restored" in await session.execute("undo", "")

    run(story())
    assert (work / "a.txt").read_text() == "one\ntwo\n"


def test_a_removed_file_comes_back_where_the_client_still_shows_it(tmp_path: Path, work: Path) -> None:
    """What the client had in common with the disk is not unsaved after the file was removed."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})
    script = [
        ACTIVATE,
        READ,
        call("removeFile", path="a.txt"),
        call("undoFileChange", path="a.txt"),
        call("removeFile", path="a.txt"),
        call("writeNewFile", path="a.txt", content="new\n"),
        say("done"),
    ]

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            for result in await results_of(session):
                assert result.ok, result.error

    run(story())
    assert (work / "a.txt").read_text() == "new\n"
    assert buffers.texts["a.txt"] == "new\n"


def test_a_waypoint_keeps_unsaved_text(tmp_path: Path, work: Path) -> None:
    """Unsaved text that was edited counts as saved by the user just before, and is what the first change found."""
    script = [
        call("get_tool_schemas", names=["create_waypoint", "restore_waypoint", "updateFile"]),
        call("create_waypoint", description="before"),
        UPDATE,
        call("restore_waypoint", waypoint_id="w1"),
        say("done"),
    ]
    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"})

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            for result in await results_of(session):
                assert result.ok, result.error

    run(story())
    assert buffers.writes == [("a.txt", "one\n2\nthree\n")]
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert "one\ntwo\n" in kept_texts(work)


@pytest.mark.parametrize(("save", "serves"), [(None, "read"), (refuse, "write")], ids=["read", "refused"])
def test_a_second_edit_keeps_the_first(tmp_path: Path, work: Path, save: Save | None, serves: str) -> None:
    """Where the disk was written and the client still has the text before it, the next edit applies to the disk."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"}, save)
    again = call("updateFile", path="a.txt", old="one", new="1")

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, again, READ, say("done")], buffers, serves) as (
            _,
            session,
        ):
            *_, read = await results_of(session)
            assert text_of(read).startswith("1\n2\nthree\n\n[from the disk: ")

    run(story())
    assert (work / "a.txt").read_text() == "1\n2\nthree\n"


def test_undo_keeps_unsaved_text(tmp_path: Path, work: Path) -> None:
    """`/undo` brings back what was unsaved before the first of its changes: it takes back nothing of the user's."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\nthree\n"})
    again = call("updateFile", path="a.txt", old="one", new="1")

    async def type_more(_request: FileRequest) -> None:
        if len(buffers.writes) == 1 and "four" not in buffers.texts["a.txt"]:
            buffers.texts["a.txt"] += "four\n"

    buffers.before_answer = type_more

    async def story() -> None:
        async with working(tmp_path, [ACTIVATE, UPDATE, again, say("done")], buffers) as (_, session):
            await results_of(session)
            assert (work / "a.txt").read_text() == "1\n2\nthree\nfour\n"
            assert "a.txt: restored" in str(await session.execute("undo", ""))
            assert (work / "a.txt").read_text() == "one\ntwo\nthree\n"
            assert "nothing to undo" in str(await session.execute("undo", ""))
            await session.execute("waypoint", "restore w2")

    run(story())
    assert (work / "a.txt").read_text() == "1\n2\nthree\nfour\n"
