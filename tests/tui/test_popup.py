"""The popup of an interactive session, with a real program at a terminal."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.tui.studio import call, say, studio

from jaato.protocol.events import ToolCallEnd
from jaato.protocol.events.state import State
from jaato.protocol.messages import Text, ToolResult
from jaato.tui.transcript.conversation import Conversation
from jaato.tui.transcript.popup import PopupPanel

pytestmark = pytest.mark.anyio


async def test_the_popup_follows_an_interactive_session(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program shows in each call is below the conversation while the agent works; F6 shows and hides it."""
    monkeypatch.setattr(secrets, "token_hex", lambda count=32: "1" * 2 * count)
    steps = [
        call("get_tool_schemas", names=["shell_spawn", "shell_input", "shell_close"]),
        call("shell_spawn", command="PS1='> ' bash --norc --noprofile", wait_s=30),
        call("shell_input", session_id="t-11111111", text="echo $((6*7))", wait_s=30),
        call("run", command="until [ -e go ]; do sleep 0.05; done"),
        call("shell_close", session_id="t-11111111"),
        say("Over."),
    ]
    async with studio(work, "--yes", steps=steps, size=(100, 40)) as one:
        await one.send("go")
        await one.see(
            "t-11111111 · awaiting_input · F6 hides", "▸ shell_spawn", "▸ shell_input", "42", "run until"
        )
        panel = one.app.view.query_one(PopupPanel)
        await one.press("f6")
        await one.wait(lambda: not panel.display)
        await one.press("f6")
        await one.see("F6 hides")
        await one.pilot.resize_terminal(40, 12)
        await one.wait(lambda: "F6 hides" not in one.screen)
        await one.pilot.resize_terminal(100, 40)
        await one.see("F6 hides")
        one.app.view._popup_choice = "", False
        (work / "go").touch()
        await one.see("Over.")
        await one.rest()
        await one.wait(lambda: not panel.display)
        await one.press("f6")
        await one.see("t-11111111 · ended", "42", "▸ shell_close")


@pytest.mark.spec("S1", "Executor Metadata", "S1.metadata.4")
async def test_calls_of_one_continuation_are_one_popup() -> None:
    """A call with `show_popup` false is not in it, one with another `continuation_id` begins the next."""
    conversation = Conversation(State(session_id="s", root_agent_id="a"), "")
    shown = []
    for seq, (continuation_id, show_popup) in enumerate(
        [("one", True), ("one", False), (None, True), ("one", True), ("two", True)], 1
    ):
        fields: dict[str, Any] = {"session_id": "s", "agent_id": "a", "tool": "shell"}
        result = ToolResult(call_id=f"c{seq}", name="shell", ok=True, content=[Text(f"text {seq}")])
        conversation.take(
            ToolCallEnd(
                seq=seq,
                call_id=f"c{seq}",
                result=result,
                duration_s=1.0,
                continuation_id=continuation_id,
                show_popup=show_popup,
                **fields,
            )
        )
        popup = conversation.popups["a"]
        shown.append((popup.id, [text for _, text in popup._calls]))
    assert shown[3] == ("one", ["text 1", "text 4"])
    assert shown[4] == ("two", ["text 5"])
