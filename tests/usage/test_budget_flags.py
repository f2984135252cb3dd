"""Budgets as a user of the command line meets them: flags, settings, exit codes, and the question at the terminal."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pexpect
import pytest
from tests.cli.conftest import desk as desk_fixture
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking

desk = desk_fixture


def flags(desk: CliEnvironment, count: int = 12) -> list[str]:
    """A priced model that makes so many calls of 1,020 tokens each."""
    steps = [call("list_tools", limit=number) for number in range(count)]
    path = desk.root / "budget.json"
    path.write_text(json.dumps({"steps": [*steps, say("Done.")], "price_input": 2.0, "price_output": 10.0}))
    return ["--provider", "scripted", "--model", str(path)]


def document(desk: CliEnvironment, *args: str, prompt: str = "go") -> tuple[int, dict[str, Any]]:
    """The exit code and the document of a run."""
    made = desk.run("run", "--output", "json", *args, prompt)
    found: dict[str, Any] = json.loads(made.stdout)
    return made.returncode, found


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("budget", ["8k tokens", "$0.02", "8k tokens, $5, 10m per session"])
def test_a_run_stops_with_5_and_goes_on_with_more(desk: CliEnvironment, served: bool, budget: str) -> None:
    """Nobody to ask: exit code 5 before the next call, and `--budget more` continues the session."""
    with desk.serving() if served else nullcontext():
        code, found = document(desk, *flags(desk), "--budget", budget)
        assert (code, found["reason"]) == (5, "limit")
        assert found["error"]["code"] == "limit_reached"
        assert "--budget more" in found["error"]["message"]
        used = found["usage"]["input_tokens"] + found["usage"]["output_tokens"]
        assert 0 < used <= 9_000
        code, again = document(desk, "--session", found["session_id"], *flags(desk), "--budget", "more")
        assert (code, again["text"]) == (0, "Done.")
        assert again["model_calls"] + found["model_calls"] == 13


def test_settings_flags_and_what_is_wrong(desk: CliEnvironment) -> None:
    """A setting holds for every session, a flag before it; an untrusted workspace can only lower a limit."""
    desk.config.mkdir(parents=True)
    (desk.config / "config.toml").write_text("budget_turn_tokens = 3000\n")
    code, found = document(desk, *flags(desk))
    assert (code, found["reason"]) == (5, "limit")
    assert "3,000 tokens per turn" in found["error"]["message"]
    assert document(desk, *flags(desk), "--budget", "100k tokens per turn")[0] == 0
    assert document(desk, *flags(desk), "--budget", "off")[0] == 0
    (desk.work / ".jaato").mkdir()
    (desk.work / ".jaato" / "config.toml").write_text("budget_turn_tokens = 900000\n")
    assert document(desk, *flags(desk))[0] == 5
    for wrong in ("a lot", "$2 per week"):
        made = desk.run("run", *flags(desk), "--budget", wrong, "go")
        assert made.returncode == 2
        assert "is not understood" in made.stderr
    (desk.work / ".jaato" / "config.toml").unlink()
    (desk.config / "config.toml").write_text("budget_turn_tokens = -1\n")
    assert desk.run("run", *flags(desk), "go").returncode == 2


def test_money_for_a_model_without_a_price_is_refused(desk: CliEnvironment) -> None:
    """Before anything begins, with what to do instead; no session is left behind."""
    made = desk.run("run", *desk.script(say("hi")), "--budget", "$2", "go")
    assert made.returncode == 2
    assert "A budget in money cannot be held: the price of" in made.stderr
    assert "--budget '200k tokens'" in made.stderr
    assert desk.sessions() == []


@pytest.mark.parametrize("served", [False, True])
def test_the_question_in_the_terminal(desk: CliEnvironment, served: bool) -> None:
    """The chat asks; a number chooses, and the turn goes on or ends."""
    with (
        desk.serving() if served else nullcontext(),
        talking(desk, *flags(desk), "--budget", "8k tokens per turn") as child,
    ):
        child.expect("Ctrl-D leaves")
        child.send("go\r")
        child.expect("The budget of 8,000 tokens per turn is used up: ")
        child.expect("1. continue with 8,000 tokens more")
        child.expect("2. stop")
        child.send("1\r")
        child.expect("the budget per turn is [0-9,]+ tokens now")
        child.expect("Done.")
        child.expect("tokens in")
        child.send("\x04")
        child.expect(pexpect.EOF)


@pytest.mark.parametrize(
    ("budget", "lines", "ends"),
    [
        ("8k tokens per turn", ["a bit", "20000"], "Done."),
        ("$0.02 per turn", ["10m", "5"], "Done."),
        ("$0.02 per turn", ["2"], "is used up"),
    ],
)
def test_amounts_are_typed_at_the_terminal(
    desk: CliEnvironment, budget: str, lines: list[str], ends: str
) -> None:
    """A number without a unit is taken in that of the budget, one of the list as its choice; anything else is asked again
    with what was wrong."""
    with talking(desk, *flags(desk), "--budget", budget) as child:
        child.expect("Ctrl-D leaves")
        child.send("go\r")
        for number, line in enumerate(lines):
            if number:
                child.expect(f"'{lines[number - 1]}' is not understood: it is no amount of this budget")
            child.expect(r"answer \(.*stop\): ")
            child.send(f"{line}\r")
        child.expect(ends)
        child.expect("tokens in")
        child.send("\x04")
        child.expect(pexpect.EOF)


@pytest.mark.parametrize("served", [False, True])
def test_a_run_that_repeats_itself_stops_with_5(desk: CliEnvironment, served: bool) -> None:
    """The model is told first; with no one to ask the turn ends. The setting turns it off."""
    script = [call("list_tools", category="tea") for _ in range(12)]
    with desk.serving() if served else nullcontext():
        code, found = document(desk, *desk.script(*script, say("Done.")))
        assert (code, found["reason"], found["model_calls"]) == (5, "limit", 10)
        assert "list_tools was called 10 times in a row with the same arguments" in found["error"]["message"]
        shown = desk.run("sessions", "show", found["session_id"]).stdout
        assert "You are repeating yourself: list_tools was called 4 times in a row" in shown
    (desk.config).mkdir(parents=True, exist_ok=True)
    (desk.config / "config.toml").write_text("loop_detection = false\n")
    assert document(desk, *desk.script(*script, say("Done.")))[0] == 0


@pytest.mark.parametrize("served", [False, True])
def test_what_to_do_instead_is_typed_at_the_terminal(desk: CliEnvironment, served: bool) -> None:
    """The answer reaches the agent as a message of the user, and the turn goes on."""
    script = [*[call("list_tools", category="tea") for _ in range(10)], say("Coffee it is.")]
    with desk.serving() if served else nullcontext(), talking(desk, *desk.script(*script)) as child:
        child.expect("Ctrl-D leaves")
        child.send("find tea\r")
        child.expect("The agent repeats itself: list_tools was called 10 times")
        child.expect("1. continue")
        child.send("look for coffee\r")
        child.expect("Coffee it is.")
        child.expect("tokens in")
        child.send("\x04")
        child.expect(pexpect.EOF)
    said = [event for event in desk.events(desk.sessions()[0]["id"]) if event["type"] == "message.user"]
    assert [
        event["message"]["parts"][0]["text"]
        for event in said
        if event["message"].get("source", "user") == "user"
    ] == [
        "find tea",
        "look for coffee",
    ]
