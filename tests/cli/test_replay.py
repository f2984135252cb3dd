"""`--provider scripted` plays a script, an export or a stored session."""

from __future__ import annotations

import json

import pytest
from tests.cli.environment import CliEnvironment, call, say

ASK = ["--provider", "scripted", "--model"]


@pytest.mark.parametrize("by", ["id", "name", "lines", "document"])
def test_a_recorded_session_is_played_again(desk: CliEnvironment, by: str) -> None:
    """A stored session by id or name, and its export in both forms, give the same calls and the same answer."""
    (desk.work / "a.txt").write_text("hello\n")
    script = desk.script(call("readFile", path="a.txt"), say("It says hello."))
    assert desk.run("run", *script, "--name", "first", "read it").returncode == 0
    recorded = desk.sessions()[0]["id"]
    file = desk.root / "first.jsonl"
    desk.run("sessions", "export", recorded, "--to", str(file), *(["--json"] if by == "document" else []))
    model = {"id": recorded, "name": "first"}.get(by, str(file))
    made = desk.run("run", *ASK, model, "once more")
    assert (made.returncode, made.stdout) == (0, "It says hello.\n"), made.stderr
    assert "> readFile path=a.txt" in made.stderr
    again = desk.run("run", "--continue", "and now")
    assert again.returncode == 3
    assert "over after 2 replies" in again.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "neither a file nor a stored session"),
        ("{", "is not a list of steps"),
        (json.dumps([{"txt": "x"}]), "is not a list of steps"),
        ('{"type": "nonsense"}\n', "line 1 is no event"),
    ],
)
def test_what_cannot_be_played(desk: CliEnvironment, content: str | None, words: str) -> None:
    """What is no script and no session is named, with exit 2."""
    path = desk.root / "it.json"
    if content is not None:
        path.write_text(content)
    made = desk.run("run", *ASK, str(path) if content is not None else "it", "go")
    assert made.returncode == 2
    assert words in made.stderr
