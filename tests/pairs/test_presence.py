"""Who joins and leaves a session while its answer streams, at the clients that show it as lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.serve_page import HOLD
from tests.pairs.faces import Line, QuickServer, Terminal, scene

TEXT = f"One word in two hal{HOLD}ves.\nThe end."


class Other(Line):
    """The line client of another user."""

    user = "bea"


@pytest.mark.system
def test_a_client_that_joins_breaks_no_line_of_the_answer(tmp_path: Path) -> None:
    """The line client shows it once the line is complete, the full-screen client at once, below the answer."""
    with scene(tmp_path, {"text": TEXT, "chunks": len(TEXT)}, kind=QuickServer) as stage:
        line, terminal, other = Line(stage), Terminal(stage), Other(stage)
        with line.open():
            line.send("Go.")
            line.see(HOLD)
            with terminal.open(stage.session_id()):
                terminal.see(HOLD)
                with other.open(stage.session_id()):
                    terminal.see(r"bea at pts/\d+ joined")
                    other.leave()
                terminal.see(r"bea at pts/\d+ left")
                assert "joined" not in line.shown()
                (stage.work / "go").touch()
                line.see(
                    rf"hal{HOLD}ves\.\n{terminal.name} joined\nbea at pts/\d+ joined\nbea at pts/\d+ left\nThe end\."
                )
                terminal.see(rf"hal{HOLD}ves\.", r"The end\.")
                terminal.leave()
            line.see(rf"{terminal.name} left")
            line.leave()
