"""Skills and stored prompts in a real process: found by what they are for, and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say


def put(path: Path, text: str) -> None:
    """A file, with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_skills_and_prompts_are_found_and_used(desk: CliEnvironment) -> None:
    """The user's and the workspace's are in the catalogue, allowed because they only read; the model gets their text."""
    put(
        desk.config / "skills/ship/SKILL.md",
        "---\nname: ship\ndescription: How releases are published.\n---\nTag it first.\n",
    )
    put(desk.config / "commands/review.md", "---\ndescription: Look for defects.\n---\nRead $1 twice.\n")
    put(
        desk.work / ".jaato/skills/brew/SKILL.md",
        "---\nname: brew\ndescription: How coffee is made for guests.\n---\nBoil the water.\n",
    )
    put(desk.work / ".jaato/commands/greet.md", "---\ndescription: Welcome a colleague.\n---\nWave at $1.\n")
    wanted = ("publish a release", "review it for defects", "make coffee", "welcome a new colleague")
    found = json.loads(desk.run("tools", "search", *wanted, "--json").stdout)
    best = [result["tools"][0] for result in found]
    assert [row["name"] for row in best] == ["skill__ship", "prompt__review", "skill__brew", "prompt__greet"]
    assert {row["access"] for row in best} == {"allowed"}
    for skill, prompt, texts, is_foreign in (
        ("ship", "review", ("Tag it first.", "Read a.py twice."), False),
        ("brew", "greet", ("Boil the water.", "Wave at a.py."), True),
    ):
        flags = desk.script(
            call("get_tool_schemas", names=[f"skill__{skill}", "processCommand"]),
            call(f"skill__{skill}"),
            call("processCommand", command_name=prompt, args=["a.py"]),
            say("done"),
        )
        made = desk.run("run", *flags, "--output", "events", "go")
        assert made.returncode == 0, made.stderr
        assert all(text in made.stdout for text in texts)
        assert ("written in this workspace" in made.stdout) is is_foreign


def test_without_any_nothing_is_there(desk: CliEnvironment) -> None:
    """No skill, no prompt, no file kept for them."""
    listed = json.loads(desk.run("tools", "list", "--json").stdout)
    assert not [tool for tool in listed if tool["name"].startswith(("skill__", "prompt__"))]
    assert not list(desk.home.rglob("skills.json"))


@pytest.mark.slow
def test_what_the_terminal_finds_is_what_the_model_finds(desk: CliEnvironment) -> None:
    """Rows with category and access, a note and the categories when nothing fits, a limit that is kept."""
    queries = ("delete a file", "create a new file", "zzz")
    [fits, also, weak] = json.loads(desk.run("tools", "search", *queries, "--json", "--limit", "3").stdout)
    assert fits["tools"][0]["name"] == "removeFile"
    assert fits["tools"][0]["access"] == "asks"
    assert also["tools"][0]["name"] == "writeNewFile"
    assert len(fits["tools"]) == 3
    assert "note" not in fits
    assert "filesystem" in weak["categories"]
    assert "No tool fits well" in desk.run("tools", "search", "zzz").stdout
    denied = desk.run("tools", "search", "delete a file", environ={"JAATO_DENY": "removeFile"}).stdout
    assert "denied" in denied.splitlines()[0]
