"""The `plan` command works on the plan of the session it is typed in."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.kit import call, say, session


def test_the_command_shows_the_plan_of_its_session(tmp_path: Path) -> None:
    """What the model has planned is what the user sees, also when the command comes from a client."""
    script = [call("createPlan", title="the work", steps=["first", "second"]), say("Planned.")]

    async def main() -> None:
        async with session(tmp_path, script, plugins=("introspection", "todo")) as live:
            await live.post("plan it")
            said = await live.run_command("plan", "")
            assert "the work" in said
            assert "1. first" in said

    anyio.run(main)
