"""What the tests of files that clients serve share: a client with open files, its session, results and backups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit import call
from tests.server.serving import served

from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.protocol.commands import FileResponse
from jaato.protocol.events import MessageModel, ToolCallEnd
from jaato.protocol.frames import FileRequest
from jaato.protocol.messages import ToolResult
from jaato.tools.filesystem.backups import Backups

ACTIVATE = call(
    "get_tool_schemas",
    names="updateFile writeNewFile multiFileEdit findAndReplace apply_patch undoFileChange restoreFile removeFile "
    "moveFile copyFile".split(),
)
UPDATE = call("updateFile", path="a.txt", old="two", new="2")
READ = call("readFile", path="a.txt")
Save = Callable[[Path, str], Awaitable[str] | str]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a file."""
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").write_text("one\ntwo\n")
    return made


class Buffers:
    """A client with open files: `texts` by path, and how it saves: by itself, or as `save` does, which gives a problem."""

    def __init__(self, work: Path, texts: dict[str, str] | None = None, save: Save | None = None) -> None:
        self.work = work
        self.texts = texts or {}
        self.asked: list[tuple[str, str | None]] = []
        self._save = save
        self.before_answer: Callable[[FileRequest], Awaitable[FileResponse | None]] | None = None
        self.answered = asyncio.Event()
        """Set when an answer is sent."""

    async def answer(self, request: FileRequest) -> FileResponse:
        """Answer a request."""
        try:
            return await self._answer(request)
        finally:
            self.answered.set()

    async def _answer(self, request: FileRequest) -> FileResponse:
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
