"""Text files that a client serves to the file tools of a session: read with its unsaved changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit import call, say
from tests.server.client_buffers import (
    ACTIVATE,
    READ,
    UPDATE,
    Buffers,
    results_of,
    run,
    text_of,
    work,
    working,
)
from tests.server.serving import served

from jaato.client.connection import connect
from jaato.errors import NotAllowed
from jaato.protocol.commands import FileResponse, SessionAttach
from jaato.protocol.frames import FileRequest, Role
from jaato.server.auth.tokens import add_token

__all__ = ["work"]


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
            buffers.answered.clear()
            released.set()
            await buffers.answered.wait()  # the late answer has no other effect
            assert "unsaved two" in text_of((await results_of(session))[0])

    run(story())
    assert (work / "a.txt").read_text() == "one\n2\n"


def test_a_client_that_has_dropped_a_request_is_asked_again(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never answers one request may answer others: it is asked again after some time."""
    monkeypatch.setattr("jaato.server.sessions.client_files.READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr("jaato.server.sessions.client_files.RETRY_AFTER_S", 0.0)
    buffers = Buffers(work, {"a.txt": "unsaved two\n"})

    async def drop(_request: FileRequest) -> None:
        if len(buffers.asked) == 1:
            monkeypatch.setattr("jaato.server.sessions.client_files.READ_TIMEOUT_S", 30.0)
            await asyncio.Event().wait()

    buffers.before_answer = drop

    async def story() -> None:
        async with working(tmp_path, [READ, READ, say("done")], buffers) as (_, session):
            first, second = await results_of(session)
            assert "has not answered within 0.2 s" in text_of(first)
            assert "unsaved two" in text_of(second)

    run(story())


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


@pytest.mark.parametrize("turn", [1, 2])
def test_a_directory_that_becomes_a_link_meanwhile(tmp_path: Path, work: Path, turn: int) -> None:
    """A client goes by names: it is not asked to write, and its text not used, where the name leads elsewhere now."""
    outside = tmp_path / "outside"
    for directory in (outside, work / "d"):
        directory.mkdir()
        (directory / "a.txt").write_text("one\ntwo\n")
    buffers = Buffers(work, {"d/a.txt": "one\ntwo\n"})

    async def swap(_request: FileRequest) -> None:
        if len(buffers.asked) == turn:
            (work / "d").rename(work / "old")
            (work / "d").symlink_to(outside)

    buffers.before_answer = swap

    async def story() -> None:
        edit = call("updateFile", path="d/a.txt", new_content="new\n")
        async with working(tmp_path, [ACTIVATE, edit, say("done")], buffers) as (_, session):
            edited = (await results_of(session))[1]
            assert edited.error is not None
            assert edited.error.code == "file_changed"

    run(story())
    assert not buffers.writes
    assert (outside / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("name", ["a.txt", "new.txt"])
def test_a_file_that_changes_on_the_disk_while_the_client_answers(
    tmp_path: Path, work: Path, name: str
) -> None:
    """It is compared after the last answer: neither the change nor the new file of another program is overwritten."""
    buffers = Buffers(work, {"a.txt": "one\ntwo\n"})

    async def change(_request: FileRequest) -> None:
        if len(buffers.asked) == 2:
            (work / name).write_text("mine\n")

    buffers.before_answer = change

    async def story() -> None:
        edits = [{"path": name, "new_content": "new\n"}]
        async with working(
            tmp_path, [ACTIVATE, call("multiFileEdit", edits=edits), say("done")], buffers
        ) as (
            _,
            session,
        ):
            edited = (await results_of(session))[1]
            assert edited.error is not None
            assert edited.error.code == "file_changed"

    run(story())
    assert not buffers.writes
    assert (work / name).read_text() == "mine\n"
