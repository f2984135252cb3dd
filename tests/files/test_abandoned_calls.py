"""Files that were changed by calls that never ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, plan, recorded, reopened, runtime, say, session

from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.protocol.events import ToolCallEnd, WorkspaceFilesChanged
from jaato.tools.call import Call
from jaato.tools.tool import tool

PLUGINS = ("introspection", "file_edit")


@tool(category="test", access="write", core=True)
def half(*, call: Call) -> str:
    """Change files, and be cut off as if the process had died."""
    live = call.services["session"]

    def run(name: str, **arguments: Any) -> None:
        live.catalog.find(name).tool.run(arguments, call)

    run("multiFileEdit", edits=[{"path": "new", "new_content": "1"}, {"path": "old", "old": "0", "new": "1"}])
    run("removeFile", path="gone")
    run("moveFile", source_path="here", destination_path="there")
    live.suspend()
    return "never heard of"


@pytest.mark.spec("C8", "Server and events")
def test_what_a_call_had_changed_is_told_after_a_crash(tmp_path: Path) -> None:
    """A call that was cut off has its changes told when the session is opened again, once, and before it is interrupted."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("old", "gone", "here"):
        (work / name).write_text("0")

    async def main() -> None:
        async with session(tmp_path, [call("half"), say("?")], [half], PLUGINS) as live:
            await live.post("go")
            assert not [
                event for event in recorded(live) if isinstance(event, WorkspaceFilesChanged | ToolCallEnd)
            ]
            session_id = live.state.session_id
        for _ in range(2):
            async with reopened(tmp_path, session_id, [say("?")], [half], PLUGINS) as again:
                told = [
                    event
                    for event in recorded(again)
                    if isinstance(event, WorkspaceFilesChanged | ToolCallEnd)
                ]
                assert [type(event) for event in told] == [WorkspaceFilesChanged, ToolCallEnd]
                assert isinstance(told[0], WorkspaceFilesChanged)
                assert told[0].call_id == told[1].call_id
                assert {one.path: one.change for one in told[0].files} == {
                    "new": "created",
                    "old": "modified",
                    "gone": "deleted",
                    "here": "deleted",
                    "there": "created",
                }

    anyio.run(main)


def test_what_a_call_had_changed_is_told_once_while_it_is_asked_what_came_of_it(tmp_path: Path) -> None:
    """However many processes the question about a cut off call lasts through, its changes are told once."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("old", "gone", "here"):
        (work / name).write_text("0")

    async def main() -> None:
        async with session(tmp_path, [call("half"), say("?")], [half], PLUGINS) as live:
            await live.post("go")
            session_id = live.state.session_id
        for last in (False, False, True):
            made = runtime(tmp_path, [half], PLUGINS)
            journal = Journal(made.store, State())
            journal.load(session_id)
            again = made.open(journal, plan(tmp_path, [say("?")], keep_interrupted_turns=True))
            async with again:
                assert len(again.state.questions) == 1
                if last:
                    await again.resume()
                kinds = [type(event) for event in recorded(again)]
                assert kinds.count(WorkspaceFilesChanged) == 1
                assert kinds.count(ToolCallEnd) == last
            made.close()

    anyio.run(main)
