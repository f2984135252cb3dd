"""Changed files as clients are told them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, say
from tests.server.serving import served

from jaato.client.connection import connect
from jaato.client.state import FILES, apply
from jaato.protocol.codec import encode
from jaato.protocol.events import WorkspaceFilesChanged
from jaato.protocol.events.state import State
from jaato.protocol.frames import Opened
from jaato.protocol.specs import FileChange
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.snapshot import StateFold
from jaato.tools.filesystem.changes import MAX_REPORTED, count_changed_lines, summarize_changes
from jaato.tools.redaction.redactor import Redactor

C8 = pytest.mark.spec("C8", "Server and events")
FILE_SCRIPT = [
    call(
        "get_tool_schemas",
        names=(
            "writeNewFile updateFile removeFile moveFile multiFileEdit findAndReplace apply_patch undoFileChange "
            "createDirectory copyFile renderTemplate create_template delete_template archive_create archive_extract "
            "sqlite_execute notebook_create"
        ).split(),
    ),
    call("writeNewFile", path="src/new.py", content="a\nb\n"),
    call("updateFile", path="old.txt", new_content="one\n2\nthree\nfour\n"),
    calls(
        ("updateFile", {"path": "src/new.py", "old": "b", "new": "c"}),
        ("removeFile", {"path": "gone.txt"}),
    ),
    call(
        "multiFileEdit",
        edits=[{"path": "m1", "new_content": "x"}, {"path": "old.txt", "old": "2", "new": "two"}],
    ),
    call("moveFile", source_path="m1", destination_path="deep/m2"),
    call("findAndReplace", pattern="three", replacement="3", dry_run=True),
    call("findAndReplace", pattern="three", replacement="3", dry_run=False),
    call("undoFileChange", path="old.txt"),
    call("updateFile", path="missing.txt", old="a", new="b"),
    call("renderTemplate", template="Dear {{name}}", variables={"name": "Ann"}, output_path="letter.txt"),
    call("create_template", name="t.md", content="{{ x }}"),
    call("delete_template", name="t.md"),
    call("archive_create", path="all.zip", paths=["old.txt"]),
    call("archive_extract", path="all.zip", destination="out"),
    call("sqlite_execute", path="data.db", sql="CREATE TABLE t (a)", create=True),
    call("run", command="echo shell > shell.txt", need=["write"]),
    say("Done."),
]


@C8
def test_changed_files_are_told_as_they_change(tmp_path: Path) -> None:
    """Each call that has changed files says which, with its end; a client that comes back, one that comes anew, and the
    log itself give the same list; the user going back to a waypoint is told, too."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "old.txt").write_text("one\ntwo\n")
    (work / "gone.txt").write_text("1\n2\n3\n")

    async def main() -> None:
        async with served(tmp_path, FILE_SCRIPT, yes=True) as server, connect(server.path) as client:
            session = await client.create(work)
            with session.events() as events:
                await session.run("Go.")
                await session.execute("waypoint", "restore w0")
                await client.list()
                heard = [event for event in list(events._held) if isinstance(event, WorkspaceFilesChanged)]
            changes = [
                [(one.path, one.change, one.added, one.removed) for one in event.files] for event in heard
            ]
            restored = changes.pop()
            assert not heard[-1].call_id
            assert all(event.call_id for event in heard[:-1])
            changes[2:4] = sorted(changes[2:4])  # calls of one reply end in any order
            assert changes == [
                [("src/new.py", "created", 2, 0)],
                [("old.txt", "modified", 3, 1)],
                [("gone.txt", "deleted", 0, 3)],
                [("src/new.py", "modified", 1, 1)],
                [("m1", "created", 1, 0), ("old.txt", "modified", 1, 1)],
                [("m1", "deleted", None, None), ("deep/m2", "created", None, None)],
                [("old.txt", "modified", 1, 1)],
                [("old.txt", "modified", 1, 1)],
                [("letter.txt", "created", 1, 0)],
                [(".jaato/templates/t.md", "created", None, None)],
                [(".jaato/templates/t.md", "deleted", None, None)],
                [("all.zip", "created", None, None)],
                [("out", "modified", None, None)],
                [("data.db", "created", None, None)],
            ]
            assert {path for path, *_ in restored} >= {"old.txt", "gone.txt", "src/new.py"}
            assert (work / "shell.txt").exists()
            state = session.state
            assert "shell.txt" not in state.files
            assert state.files["gone.txt"].change == "modified"
            assert not {"m1", "src/new.py"} & set(state.files)
            room = server.hub.rooms[session.id]
            assert encode(state) == encode(room.state)
            stored = folded(server.hub, session.id)
            assert (stored.files, stored.files_left_out) == (state.files, state.files_left_out)
            async with server.client("late") as late:
                await late.ask("session.attach", session_id=session.id)
                await late.ask("client.config")
                assert late.states[session.id].files == state.files
                forked = await late.ask("session.fork", session_id=session.id)
                assert isinstance(forked.result, Opened)
                await late.ask("session.attach", session_id=forked.result.session_id)
                await late.ask("client.config")
                assert late.states[forked.result.session_id].files == state.files

    anyio.run(main)


def folded(hub: Hub, session_id: str) -> State:
    """What the log alone says."""
    folding = StateFold(hub.store, Redactor.none(), session_id)
    for _ in folding:
        pass
    return folding.state


def changed(
    path: str, change: Any = "modified", added: int | None = None, removed: int | None = None
) -> FileChange:
    """A change."""
    return FileChange(path, change, added, removed)


def test_changes_of_one_file_are_one() -> None:
    """What came and went is not told, what went and came was modified, and lines are summed where they are known."""
    both = [
        ("created", "modified", "created"),
        ("created", "deleted", None),
        ("modified", "deleted", "deleted"),
        ("deleted", "created", "modified"),
        ("modified", "created", "modified"),
        ("deleted", "deleted", "deleted"),
    ]
    for first, second, told in both:
        now = changed("a", first).then(changed("a", second))
        assert (now.change if now else None) == told
    assert changed("a", "created", 3, 0).then(changed("a", "modified", 2, 1)) == changed("a", "created", 5, 1)
    assert changed("a", "modified", 3, 0).then(changed("a")) == changed("a")
    assert changed("a", "deleted", 0, 3).then(changed("a", "created", 3, 0)) == changed("a")


def test_lines_are_counted_where_that_is_cheap() -> None:
    """Lines only one side has are counted; what is large or no text is not."""
    assert count_changed_lines(b"a\nb\n", b"a\nc\nd\n") == (2, 1)
    assert count_changed_lines(b"a\nb", b"b\na") == (0, 0)
    assert (
        count_changed_lines(b"a\0", b"b")
        == count_changed_lines(None, b"")
        == count_changed_lines(b"", b"x" * (2 << 20))
        == (None, None)
    )


def test_lists_of_files_are_bounded() -> None:
    """A call that changes thousands of files says how many it leaves out, and a state keeps the latest."""
    many = [changed(f"f{n}", "created") for n in range(MAX_REPORTED + 7)] + [changed("x" * 5_000)]
    files, more = summarize_changes(many)
    assert (len(files), more) == (MAX_REPORTED, 8)
    state = State(session_id="s")
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    for seq in range(1, 4):
        apply(state, WorkspaceFilesChanged(**head, seq=seq, files=files, more=more))
    assert len(state.files) == FILES
    assert next(iter(state.files)) == f"f{MAX_REPORTED - FILES}"
    assert state.files_left_out == 3 * (MAX_REPORTED - FILES + 8)
