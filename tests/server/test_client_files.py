"""Text files that a client serves to the file tools of a session: read with its unsaved changes, written through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit import call, say
from tests.server.serving import served

from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.errors import NotAllowed
from jaato.protocol.commands import FileResponse, SessionAttach
from jaato.protocol.events import MessageModel, ToolCallEnd
from jaato.protocol.frames import FileRequest, Role
from jaato.protocol.messages import ToolResult
from jaato.server.auth.tokens import add_token
from jaato.tools.filesystem.backups import Backups

ACTIVATE = call(
    "get_tool_schemas",
    names="updateFile writeNewFile multiFileEdit findAndReplace apply_patch undoFileChange removeFile".split(),
)
UPDATE = call("updateFile", path="a.txt", old="two", new="2")
READ = call("readFile", path="a.txt")
Save = Callable[[Path, str], Awaitable[str] | str]


class Buffers:
    """A client with open files: `texts` by path, and how it saves: by itself, or as `save` does, which gives a problem."""

    def __init__(self, work: Path, texts: dict[str, str] | None = None, save: Save | None = None) -> None:
        self.work = work
        self.texts = texts or {}
        self.asked: list[tuple[str, str | None]] = []
        self._save = save
        self.before_answer: Callable[[FileRequest], Awaitable[FileResponse | None]] | None = None

    async def answer(self, request: FileRequest) -> FileResponse:
        """Answer a request."""
        self.asked.append((request.path, request.content))
        if self.before_answer is not None and (given := await self.before_answer(request)) is not None:
            return given
        reply = {"session_id": request.session_id, "request_id": request.id}
        if request.content is None:
            if request.path not in self.texts:
                return FileResponse(**reply, problem="not open")
            return FileResponse(**reply, content=self.texts[request.path])
        if self._save is not None:
            problem = self._save(self.work / request.path, request.content)
            return FileResponse(**reply, problem=problem if isinstance(problem, str) else await problem)
        self.texts[request.path] = request.content
        (self.work / request.path).write_text(request.content, newline="")
        return FileResponse(**reply)

    @property
    def reads(self) -> list[str]:
        """The paths that were read."""
        return [path for path, content in self.asked if content is None]

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was written."""
        return [(path, content) for path, content in self.asked if content is not None]


@asynccontextmanager
async def working(
    tmp_path: Path, script: list[Any], buffers: Buffers | None, serves: Any = "write"
) -> AsyncIterator[tuple[Client, RemoteSession]]:
    """A client with a session in which everything is allowed."""
    async with served(tmp_path, script, yes=True) as server, connect(server.path, name="editor") as client:
        session = await client.create(tmp_path / "work")
        if buffers is not None:
            await client.attach(session.id, serves, buffers.answer)
        yield client, session


async def results_of(session: RemoteSession, text: str = "go") -> list[ToolResult]:
    """The results of the calls of one turn."""
    with session.events() as events:
        await session.send(text)
        found: list[ToolResult] = []
        async for event in events:
            if isinstance(event, ToolCallEnd):
                found.append(event.result)
            if isinstance(event, MessageModel) and not event.message.function_calls:
                return found
    raise AssertionError("the turn has no end")


def text_of(result: ToolResult) -> str:
    """What the model reads."""
    assert result.ok, result.error
    return "".join(getattr(part, "text", "") for part in result.content)


def run(story: Any) -> None:
    """Run a test on a loop of its own."""
    asyncio.run(story)


def kept_texts(work: Path, path: str = "a.txt") -> list[str]:
    """The texts in the backups of a file, oldest first."""
    backups = Backups(work)
    return [backups.content(one.digest).decode() for one in reversed(backups.records(path)) if one.digest]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a file."""
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").write_text("one\ntwo\n")
    return made


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


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"content": "x" * ((4 << 20) + 1)}, "more than 4 MB"),
        ({"content": "a\0b"}, "without text"),
        ({}, "without text"),
    ],
    ids=["large", "binary", "empty"],
)
def test_an_answer_that_is_no_text(tmp_path: Path, work: Path, given: dict[str, Any], why: str) -> None:
    """The disk is read, and the result says why."""
    buffers = Buffers(work)

    async def answer(request: FileRequest) -> FileResponse:
        return FileResponse(session_id=request.session_id, request_id=request.id, **given)

    buffers.before_answer = answer

    async def story() -> None:
        async with working(tmp_path, [READ, say("done")], buffers) as (_, session):
            text = text_of((await results_of(session))[0])
            assert text.startswith("one\ntwo\n\n[from the disk: ")
            assert why in text

    run(story())


def test_a_client_that_never_answers(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call waits until the deadline; then the disk is used without waiting, until the client answers again."""
    monkeypatch.setattr("jaato.server.sessions.client_files.READ_TIMEOUT_S", 0.2)
    buffers = Buffers(work, {"a.txt": "unsaved two\n"})
    released = asyncio.Event()

    async def wait(_request: FileRequest) -> None:
        await released.wait()

    buffers.before_answer = wait

    async def story() -> None:
        script = [ACTIVATE, READ, READ, UPDATE, say("done"), READ, say("done")]
        async with working(tmp_path, script, buffers) as (_, session):
            _, first, second, edited = await results_of(session)
            assert "has not answered within 0.2 s" in text_of(first)
            assert "does not answer" in text_of(second)
            assert "does not answer" in str(edited.structured)
            assert len(buffers.asked) == 1
            released.set()
            await asyncio.sleep(0.1)  # the late answer, which has no other effect
            assert "unsaved two" in text_of((await results_of(session))[0])

    run(story())
    assert (work / "a.txt").read_text() == "one\n2\n"


def test_a_client_that_leaves_in_the_middle(tmp_path: Path, work: Path) -> None:
    """Its request ends at once, and the client that served files before is asked from then on."""
    first, second = Buffers(work, {"a.txt": "first two\n"}), Buffers(work)
    leaving = asyncio.Event()

    async def wait(_request: FileRequest) -> None:
        leaving.set()
        await asyncio.sleep(60)

    second.before_answer = wait

    async def story() -> None:
        async with (
            served(tmp_path, [READ, READ, say("done")], yes=True) as server,
            connect(server.path, name="one") as client,
        ):
            session = await client.create(work)
            await client.attach(session.id, "read", first.answer)
            async with connect(server.path, name="two") as other:
                await other.attach(session.id, "read", second.answer)
                turn = asyncio.create_task(results_of(session))
                await leaving.wait()
            left, read = await turn
            assert "two has left" in text_of(left)
            assert "first two" in text_of(read)

    run(story())
    assert (len(first.asked), len(second.asked)) == (1, 1)


def test_only_who_may_write_serves_files(tmp_path: Path, work: Path) -> None:
    """Viewers and approvers are refused; an answer of a client that was not asked has no effect."""
    roles: list[Role] = ["viewer", "approver"]
    tokens = {role: add_token(tmp_path / "state", role, role, None) for role in roles}

    async def story() -> None:
        async with served(tmp_path, [say("done")], yes=True) as server, connect(server.path) as owner:
            session = await owner.create(work)
            for role in tokens:
                address = f"ws://127.0.0.1:{server.port}"
                async with connect(address, token=tokens[role]) as client:
                    with pytest.raises(NotAllowed, match="serves no files"):
                        await client.ask(SessionAttach(session_id=session.id, serves_files="read"))
                    with pytest.raises(NotAllowed):
                        await client.ask(FileResponse(session_id=session.id, request_id="q1", content=""))
            settled = await owner.ask(FileResponse(session_id=session.id, request_id="q1", content=""))
            assert not getattr(settled, "accepted", True)

    run(story())


def test_no_client_is_asked_for_what_tools_may_not_reach(tmp_path: Path, work: Path) -> None:
    """Paths outside, links that lead there, and denied calls never reach it, nor do files that are no plain UTF-8."""
    (tmp_path / "secret.txt").write_text("secret")
    (work / "link.txt").symlink_to(tmp_path / "secret.txt")
    (work / "latin.txt").write_bytes(b"caf\xe9 caf\xe9 caf\xe9\n")
    (work / "image.bin").write_bytes(b"\0\1\2")
    (work / "inner.txt").symlink_to("a.txt")
    paths = [
        str(tmp_path / "secret.txt"),
        "link.txt",
        "../secret.txt",
        "latin.txt",
        "image.bin",
        "missing.txt",
    ]
    script = [*[call("readFile", path=path) for path in paths], ACTIVATE, UPDATE]
    script += [call("readFile", path="inner.txt"), say("done")]
    buffers = Buffers(work, {"a.txt": "buffer two\n"})

    async def story() -> None:
        async with served(tmp_path, script) as server, connect(server.path) as client:
            session = await client.create(work, deny=["updateFile"])
            await client.attach(session.id, "write", buffers.answer)
            results = await results_of(session)
            assert [result.ok for result in results[:3]] == [False] * 3
            assert "buffer two" in text_of(results[-1])

    run(story())
    assert buffers.asked == [("a.txt", None)]  # the link inside, by the file it leads to


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


def test_searches_and_other_sessions_do_not_ask(tmp_path: Path, work: Path) -> None:
    """What searches and lists reads the disk; a session without such a client has no requests."""
    script = [
        call("get_tool_schemas", names=["grep_content", "glob_files", "get_file_info"]),
        call("grep_content", pattern="two"),
        call("glob_files", pattern="*.txt"),
        call("get_file_info", path="a.txt"),
        say("done"),
    ]
    buffers = Buffers(work, {"a.txt": "unsaved\n"})

    async def story() -> None:
        async with working(tmp_path, [*script, *script[:0], READ, say("plain")], buffers) as (
            client,
            session,
        ):
            for result in await results_of(session):
                assert result.ok, result.error
            other = await client.create(work)
            assert text_of((await results_of(other))[0]) == "one\ntwo\n"

    run(story())
    assert not buffers.asked


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


def test_a_waypoint_brings_back_what_the_disk_held(tmp_path: Path, work: Path) -> None:
    """Unsaved text that was edited counts as saved by the call: before it, the disk had the older text."""
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
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert "one\ntwo\nthree\n" in kept_texts(work)


def test_a_buffer_that_is_behind_the_disk_is_not_unsaved(tmp_path: Path, work: Path) -> None:
    """A file that a command has changed, and the client has not loaded again, is read from the disk and written to it."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def story() -> None:
        script = [READ, say("read"), ACTIVATE, READ, UPDATE, say("done")]
        async with working(tmp_path, script, buffers) as (_, session):
            await results_of(session)
            (work / "a.txt").write_text("one\ntwo\nby a command\n")
            _, read, edited = await results_of(session)
            assert "by a command" in text_of(read)
            assert edited.ok, edited.error

    run(story())
    assert (work / "a.txt").read_text() == "one\n2\nby a command\n"
    assert not buffers.writes


def test_subagents_see_unsaved_text(tmp_path: Path, work: Path) -> None:
    """The client of their session serves them as well."""
    script = [
        call("get_tool_schemas", names=["delegate"]),
        call("delegate", task="read it", name="reader"),
        READ,
        say("read"),
        say("done"),
    ]
    buffers = Buffers(work, {"a.txt": "unsaved\n"})

    async def story() -> None:
        async with working(tmp_path, script, buffers) as (_, session):
            await session.run("go")

    run(story())
    assert buffers.reads == ["a.txt"]
