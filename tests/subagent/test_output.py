"""What a person sees of subagents: in the terminal, in reports, and in the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import desk as desk_fixture
from tests.cli.environment import USAGE, CliEnvironment, say

desk = desk_fixture
DELEGATE = {"names": ["delegate"]}


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted reply that makes one call."""
    return {"calls": [{"name": tool, "arguments": arguments}], "usage": USAGE}


def test_the_words_of_a_subagent_are_not_the_answer(desk: CliEnvironment) -> None:
    """stdout has the answer alone; what the subagent says and does stands on stderr with its name in front; the closing
    line counts the tokens of both."""
    (desk.work / "a.txt").write_text("hello\n")
    made = desk.run(
        "run",
        *desk.script(
            call("get_tool_schemas", **DELEGATE),
            call("delegate", task="read a.txt", name="reader"),
            call("readFile", path="a.txt"),
            say("It is hello.\nTruly."),
            say("The reader says hello."),
        ),
        "look",
    )
    assert (made.returncode, made.stdout) == (0, "The reader says hello.\n")
    lines = made.stderr.splitlines()
    assert [line for line in lines if line.startswith("  [reader] ")] == [
        "  [reader] started (scripted " + next(x for x in lines if "started" in x).partition("(scripted ")[2],
        "  [reader] > readFile path=a.txt",
        "  [reader] It is hello.",
        "  [reader] Truly.",
        "  [reader] completed",
    ]
    assert "5,000 tokens in, 100 out" in lines[-1]
    assert "3 calls" in lines[-1]


def test_the_report_counts_all_agents(desk: CliEnvironment) -> None:
    """With --output json usage and calls are those of the whole tree, and a denial names the subagent."""
    made = desk.run(
        "run",
        "--output",
        "json",
        *desk.script(
            call("get_tool_schemas", **DELEGATE),
            call("delegate", task="x", name="one"),
            call("run", command="touch made", need=["write"]),
            say("could not"),
            say("done"),
        ),
        "look",
    )
    report = json.loads(made.stdout)
    assert report["text"] == "done"
    assert report["usage"]["input_tokens"] == 5000
    assert (report["model_calls"], report["tool_calls"]) == (5, 3)
    assert report["exit_code"] == 0
    (denied,) = report["denied"]
    assert denied["arguments"] == {"command": "touch made", "need": ["write"]}
    assert denied["agent_id"].startswith("a")
    assert not (desk.work / "made").exists()


def test_events_carry_the_agent(desk: CliEnvironment) -> None:
    """With --output events every line says whose it is."""
    made = desk.run(
        "run",
        "--output",
        "events",
        *desk.script(
            call("get_tool_schemas", **DELEGATE),
            call("delegate", task="x", name="one"),
            say("yes"),
            say("done"),
        ),
        "look",
    )
    events = [json.loads(line) for line in made.stdout.splitlines()]
    created = next(
        event for event in events if event["type"] == "agent.created" and event.get("parent_agent_id")
    )
    own = [event["type"] for event in events if event["agent_id"] == created["agent_id"]]
    assert own[0] == "agent.created"
    assert own[-1] == "agent.status_changed"
    assert {"agent.output", "message.model", "turn.completed", "agent.completed"} <= set(own)


def test_a_run_ends_when_its_subagents_have(desk: CliEnvironment) -> None:
    """Work begun in the background is not thrown away with the process: the agent hears of it and has the last word."""
    made = desk.run(
        "run",
        *desk.script(
            call("get_tool_schemas", **DELEGATE),
            call("delegate", task="x", name="one", background=True),
            say("one works"),
            say("one has found it"),
            say("found."),
        ),
        "look",
    )
    assert made.returncode == 0
    assert made.stdout.splitlines()[-1] == "found."


def test_a_stored_session_shows_its_subagents_apart(desk: CliEnvironment) -> None:
    """`jaato sessions show` puts their name in front of their lines; the list counts the agent's turns alone."""
    desk.run(
        "run",
        *desk.script(
            call("get_tool_schemas", **DELEGATE),
            call("delegate", task="x", name="one"),
            say("yes"),
            say("done"),
        ),
        "look",
    )
    shown = desk.run("sessions", "show", desk.sessions()[0]["id"]).stdout
    assert "  [one] agent one: scripted" in shown
    assert "  [one] parent: [parent] x" in shown
    assert "  [one] agent: yes" in shown
    assert "\nagent: done" in shown


@pytest.mark.parametrize("depth", [1, 2])
def test_a_recorded_session_with_subagents_plays_again(desk: CliEnvironment, depth: int) -> None:
    """--provider scripted plays a stored session with its delegations, word for word."""
    inner = [
        call("get_tool_schemas", **DELEGATE),
        call("delegate", task="y", name="two"),
        say("deep"),
        say("middle"),
    ]
    steps = [say("deep")] if depth == 1 else inner
    desk.run(
        "run",
        *desk.script(
            call("get_tool_schemas", **DELEGATE), call("delegate", task="x", name="one"), *steps, say("done")
        ),
        "look",
    )
    first = desk.sessions()[0]["id"]
    again = desk.run("run", "--provider", "scripted", "--model", first, "look")
    assert (again.returncode, again.stdout) == (0, "done\n")


def test_what_is_secret_stays_out_of_all_that_subagents_say(desk: CliEnvironment, tmp_path: Path) -> None:
    """Task, words, shared values and results are masked on the screen and in the log, as everywhere."""
    secret = "sk-" + "a1B2c3D4" * 5
    made = desk.run(
        "run",
        "--verbose",
        *desk.script(
            call("get_tool_schemas", names=["delegate", "set_shared_state"]),
            call("set_shared_state", key="token", value=secret),
            call(
                "delegate", task=f"use {secret}", name="one", inline_config={"instructions": f"key {secret}"}
            ),
            say(f"I used {secret}"),
            say("done"),
        ),
        "look",
        environ={"SOME_API_KEY": secret},
    )
    assert made.returncode == 0
    assert secret not in made.stdout + made.stderr
    assert secret not in json.dumps(desk.events(desk.sessions()[0]["id"]))
    assert secret.encode() not in (desk.state / "jaato.db").read_bytes()
