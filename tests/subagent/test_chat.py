"""Subagents at the terminal: they go on while the user thinks, ask there, and stop with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pexpect
import pytest
from tests.cli.conftest import desk as desk_fixture
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import talking
from tests.processes import alive
from tests.subagent.test_output import DELEGATE, call

desk = desk_fixture


@pytest.mark.parametrize("toolkit", [True, False])
def test_a_subagent_in_the_background_asks_at_the_prompt(desk: CliEnvironment, toolkit: bool) -> None:
    """The turn is over and the user is at the prompt; the subagent's question stands there with its name, the next line
    answers it, and the one after is a message again."""
    script = desk.script(
        call("get_tool_schemas", **DELEGATE),
        call("delegate", task="x", name="bob", background=True),
        say("Bob is at it."),
        call("run", command="touch made", need=["write"]),
        say("I made it."),
        say("Good."),
    )
    with talking(desk, *script, term="xterm", toolkit=toolkit) as child:
        child.expect("Ctrl-D leaves")
        child.send("go\r")
        child.expect("Bob is at it.")
        child.expect(r"\[bob\] May run run\?")
        child.send("y\r")
        child.expect(r"\[bob\] I made it.")
        child.expect(r"\[bob\] completed")
        child.send("and?\r")
        child.expect("Good.")
        child.expect("tokens in")
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert (desk.work / "made").exists()


def test_ctrl_c_at_the_prompt_stops_those_in_the_background(desk: CliEnvironment) -> None:
    """What they started ends with them; the chat goes on."""
    script = desk.script(
        call("get_tool_schemas", **DELEGATE),
        call("delegate", task="x", name="bob", background=True),
        say("Bob is at it."),
        call("run", command="sleep 321 && touch made"),
        say("Well."),
    )
    with talking(desk, *script, "--yes", term="xterm", toolkit=False) as child:
        child.expect("Ctrl-D leaves")
        child.send("go\r")
        child.expect(r"(?s)\[bob\] > run sleep 321.*tokens in|tokens in.*\[bob\] > run sleep 321")
        child.sendintr()
        child.expect("Subagents are stopped")
        child.expect(r"\[bob\] cancelled")
        child.send("well?\r")
        child.expect("Well.")
        child.expect("tokens in")
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert not (desk.work / "made").exists()


@pytest.mark.parametrize("background", [True, False])
def test_a_signal_ends_a_run_with_all_its_subagents(
    desk: CliEnvironment, background: bool, tmp_path: Path
) -> None:
    """SIGINT while a subagent's command runs: the command is gone, the exit code says interrupted, the record is whole."""
    steps = [
        call("get_tool_schemas", **DELEGATE),
        call("delegate", task="x", name="bob", background=background),
        *([say("Bob is at it.")] if background else []),
        call("run", command="echo $$ > started; exec sleep 321"),
        say("never"),
    ]
    made = subprocess.Popen(
        [*desk.command, "run", "--yes", *desk.script(*steps), "go"],
        cwd=desk.work,
        env={**desk.env, "JAATO_SANDBOX": "full"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started = desk.work / "started"
    until = time.monotonic() + 60
    while not (started.exists() and started.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)
    number = int(started.read_text())
    made.send_signal(signal.SIGINT)
    _out, err = made.communicate(timeout=60)
    assert made.returncode == 130, err
    assert not alive(number)
    kinds = [event["type"] for event in desk.events(desk.sessions()[0]["id"])]
    assert kinds.count("agent.completed") == 1
    assert kinds.count("turn.completed") == 2
