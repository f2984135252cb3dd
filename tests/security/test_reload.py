"""Who may have an open session begin anew: a client of the owner's, and no signal, which any call can send."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.permissions.ground import C4
from tests.security.auth_server import Keep, awaited


def run(command: str) -> dict[str, Any]:
    """A step of the model."""
    return {"calls": [{"name": "run", "arguments": {"command": command}}]}


def ends(keep: Keep, session_id: str) -> list[bool]:
    """How the calls of a session went, once it rests."""

    def resting() -> list[dict[str, Any]] | None:
        log = keep.log(session_id)
        return log if log[-1]["type"] == "turn.completed" else None

    log: list[dict[str, Any]] = awaited(resting)
    return [event["result"].get("ok", True) for event in log if event["type"] == "tool.call_end"]


@C4
def test_a_call_cannot_have_its_session_begin_anew(tmp_path: Path) -> None:
    """It rewrites the user's settings and sends SIGHUP: new sessions see them, the session itself goes on as it was, until a
    client of the owner's asks for it, which no program below a call is."""
    keep = Keep(tmp_path, "--idle-after", "1")
    config = keep.home / ".config" / "jaato" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('deny = ["run(touch *)"]\n')
    try:
        attack = f"echo > {config}; kill -HUP {keep.process.pid}; "
        attack += f"{sys.executable} -m jaato serve --reload --ipc-socket {keep.path} 2> said; true"
        touch = run("touch mark")
        script = keep.scripted(run(attack), {"text": "1"}, touch, {"text": "2"}, touch, {"text": "3"})
        with keep.client(unix=True) as line:
            made = line.command("session.create", **script, yes=True)
            session_id: str = made["result"]["session_id"]

            def turn() -> list[bool]:
                assert "result" in line.command("message.send", session_id=session_id, text="go")
                return ends(keep, session_id)

            assert turn() == [True]
            assert config.read_text() == "\n", "the attack was carried out"
            assert "A tool call has started this client" in (keep.work / "said").read_text()
            time.sleep(2.5)  # the server looks after its sessions every second
            assert turn() == [True, False]
            assert not (keep.work / "mark").exists()
            done = keep.run("serve", "--reload", *keep.flags[:2])
            assert (done.returncode, done.stderr) == (
                0,
                "jaato: sessions are reloaded, each as soon as it is idle\n",
            )
            assert turn() == [True, False, True], "a scripted model begins anew too"
            assert turn()[-1]
            assert (keep.work / "mark").exists()
    finally:
        assert keep.stop()[0] == 0
