"""Where results go: large ones behind a handle, metadata to clients, shared output to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, provider_of, recorded, reopened, results, say, session
from tests.spec.documented import Documented

from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Text
from jaato.tools.tool import tool


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.5")
def test_a_large_result_is_behind_a_handle_that_readfile_reads_on(tmp_path: Path) -> None:
    """The model gets head and tail and the handle; readFile gives the middle; another session's handle is nothing."""
    lines = [f"line {n:06d}" for n in range(20_000)]

    @tool(core=True, access="read")
    def much() -> str:
        """Say much."""
        return "\n".join(lines)

    def read(request: Any) -> Any:
        text = request.messages[-1].parts[0].content[0].text
        assert len(text) < 32_000
        assert text.startswith("line 000000")
        assert text.endswith("line 019999")
        handle = request.messages[-1].parts[0].handle
        assert handle.startswith("result:")
        assert handle in text
        handles.append(handle)
        return call("readFile", path=handle, offset=120_000, limit=36)

    handles: list[str] = []

    async def main() -> None:
        plugins = ["introspection", "file_edit"]
        async with session(tmp_path, [call("much"), read, say("done")], [much], plugins) as live:
            await live.post("go")
            part = results(live)[1].content[0]
            assert isinstance(part, Text)
            assert "line 010001" in part.text
            assert "line 010005" not in part.text
        script = [call("readFile", path=handles[0]), say("done")]
        async with session(tmp_path, script, [much], plugins) as other:
            await other.post("go")
            assert results(other)[0].error is not None
        again = [say(""), say(""), say(""), call("readFile", path=handles[0], limit=1), say("done")]
        async with reopened(tmp_path, live.state.session_id, again, [much], plugins) as back:
            await back.post("go")
            assert results(back)[-1].ok

    anyio.run(main)


@pytest.mark.spec("S1", "Executor Metadata", "S1.metadata.2")
def test_metadata_reaches_the_clients_and_not_the_model(tmp_path: Path) -> None:
    """continuation_id, show_output and show_popup are on the end event, with their defaults where not given."""

    @tool(core=True, access="read")
    async def hidden() -> Any:
        """Show nothing."""
        return {"output": "x"}, {"continuation_id": "sess_1", "show_output": False}

    @tool(core=True, access="read")
    async def plain() -> Any:
        """Show everything."""
        return {"output": "y"}

    async def main() -> None:
        script = [calls(("hidden", {}), ("plain", {})), say("done")]
        async with session(tmp_path, script, [hidden, plain]) as live:
            await live.post("go")
            ends = {event.tool: event for event in recorded(live) if isinstance(event, ToolCallEnd)}
            shown = ends["hidden"]
            assert (shown.continuation_id, shown.show_output, shown.show_popup) == ("sess_1", False, True)
            assert (ends["plain"].continuation_id, ends["plain"].show_output) == (None, True)
            part = results(live)[0].content[0]
            assert isinstance(part, Text)
            assert "continuation_id" not in part.text

    anyio.run(main)


@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.3")
@pytest.mark.parametrize("share", [True, False])
def test_only_a_shared_commands_output_joins_the_conversation(tmp_path: Path, *, share: bool) -> None:
    """With share_with_model the model sees the output at its next turn; without, never."""
    from tests.kit import plan, runtime

    from jaato.abc.plugin import UserCommand
    from jaato.runtime.user_commands import run_command

    async def main() -> None:
        made = runtime(tmp_path)
        mine = Documented("mine")
        mine.commands = [UserCommand("weather", "Say it.", share_with_model=share)]
        mine.executors = {"weather": lambda args: f"rain in {args['args'][0]}"}
        made.registry.register_plugin(mine, expose=True)
        async with made.create(plan(tmp_path, [say("ok")])) as live:
            assert await run_command(live, made.registry, "weather", "Bern") == "rain in Bern"
            assert await run_command(live, made.registry, "unheard", "") is None
            await live.post("go")
            seen = "\n".join(m.text for m in provider_of(live).requests[0].messages)
            assert ("rain in Bern" in seen) is share
        made.close()

    anyio.run(main)
