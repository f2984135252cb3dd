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


@pytest.mark.parametrize("owner", ["user", "workspace"])
def test_a_skill_and_a_prompt_are_found_and_used(desk: CliEnvironment, owner: str) -> None:
    """The user's and the workspace's are in the catalogue, allowed because they only read; the model gets their text."""
    place = desk.config if owner == "user" else desk.work / ".jaato"
    put(
        place / "skills/ship/SKILL.md",
        "---\nname: ship\ndescription: How releases are published.\n---\nTag it first.\n",
    )
    put(place / "commands/review.md", "---\ndescription: Look for defects.\n---\nRead $1 twice.\n")
    found = json.loads(
        desk.run("tools", "search", "publish a release", "review it for defects", "--json").stdout
    )
    best = [result["tools"][0] for result in found]
    assert [row["name"] for row in best] == ["skill__ship", "prompt__review"]
    assert {row["access"] for row in best} == {"allowed"}
    flags = desk.script(
        call("get_tool_schemas", names=["skill__ship", "processCommand"]),
        call("skill__ship"),
        call("processCommand", command_name="review", args=["a.py"]),
        say("done"),
    )
    made = desk.run("run", *flags, "--output", "events", "go")
    assert made.returncode == 0, made.stderr
    assert "Tag it first." in made.stdout
    assert "Read a.py twice." in made.stdout
    assert ("written in this workspace" in made.stdout) is (owner == "workspace")


def test_without_any_nothing_is_there(desk: CliEnvironment) -> None:
    """No skill, no prompt, no file kept for them."""
    listed = json.loads(desk.run("tools", "list", "--json").stdout)
    assert not [tool for tool in listed if tool["name"].startswith(("skill__", "prompt__"))]
    assert not list(desk.home.rglob("skills.json"))


@pytest.mark.slow
def test_what_the_terminal_finds_is_what_the_model_finds(desk: CliEnvironment) -> None:
    """Rows with category and access, a note and the categories when nothing fits, a limit that is kept."""
    [fits, weak] = json.loads(
        desk.run("tools", "search", "delete a file", "zzz", "--json", "--limit", "3").stdout
    )
    assert fits["tools"][0]["name"] == "removeFile"
    assert fits["tools"][0]["access"] == "asks"
    assert len(fits["tools"]) == 3
    assert "note" not in fits
    assert "filesystem" in weak["categories"]
    assert "No tool fits well" in desk.run("tools", "search", "zzz").stdout
    denied = desk.run("tools", "search", "delete a file", environ={"JAATO_DENY": "removeFile"}).stdout
    assert "denied" in denied.splitlines()[0]
