"""Permission prompts at a real terminal: diffs, text that comes between, keys, pasted text, and messages that are no answer."""

from __future__ import annotations

import os
from typing import Any

import pexpect
import pytest
from tests.cli.environment import USAGE, CliEnvironment, call, say
from tests.cli.terminal import talking

EDIT = call("updateFile", path="a.py", old="retries = 3", new="retries = 5")
TOUCH = call("run", command="touch made", need=["write"])
GATED = call("run", command="touch begun; cat gate", need=["write"])
ALLOW_GATED = ("--allow", "run(touch begun)", "--allow", "run(cat gate)")


def both(*steps: dict[str, Any]) -> dict[str, Any]:
    """One reply with the calls of several."""
    return {"calls": [one for step in steps for one in step["calls"]], "usage": USAGE}


def test_an_edit_is_asked_for_with_its_diff(desk: CliEnvironment) -> None:
    """A permission prompt for an edit shows a unified diff of the file as it is, in place of the arguments; a new file is
    compared with nothing; an edit that does not fit shows its arguments."""
    (desk.work / "a.py").write_text("import time\n\nretries = 3\nwait_s = 1\n")
    steps = [
        call("get_tool_schemas", names=["updateFile", "writeNewFile", "multiFileEdit"]),
        EDIT,
        call("writeNewFile", path="b.txt", content="one\ntwo\n"),
        call(
            "multiFileEdit",
            edits=[
                {"path": "a.py", "old": "wait_s = 1", "new": "wait_s = 2"},
                {"path": "a.py", "old": "wait_s = 2", "new": "wait_s = 3"},
                {"path": "c.txt", "new_content": "new\n"},
            ],
        ),
        call("updateFile", path="a.py", old="not there", new="x"),
        say("Over."),
    ]
    with talking(desk, *desk.script(*steps), "go", command="run") as child:
        for diff in (
            ["--- a.py", "+++ a.py", "@@ -1,4 +1,4 @@", " import time", "-retries = 3", "+retries = 5"],
            ["--- /dev/null", "+++ b.txt", "+one", "+two"],
            ["--- a.py", "-wait_s = 1", "+wait_s = 3", "--- /dev/null", "+++ c.txt", "+new"],
        ):
            for line in diff:
                child.expect_exact(f"  {line}\r\n")
            child.expect(r"allow\? $")
            assert "old:" not in child.before
            child.sendline("y")
        child.expect_exact("  old: not there")
        child.expect(r"allow\? $")
        child.sendline("y")
        child.expect("Over.")
        child.expect(pexpect.EOF)
    assert (desk.work / "a.py").read_text() == "import time\n\nretries = 5\nwait_s = 3\n"
    asked = [e for e in desk.events(desk.sessions()[0]["id"]) if e["type"] == "permission.requested"]
    assert "+retries = 5" in asked[0]["preview"]


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_prompt_is_redrawn_below_other_text(desk: CliEnvironment, command: str) -> None:
    """Text that is printed while a question waits begins on a line of its own, and the prompt follows it."""
    other = call("run", command="cat gate; echo hello")
    script = desk.script(both(other, TOUCH), say("Over."))
    os.mkfifo(desk.work / "gate")
    with talking(desk, *script, "--verbose", "go", command=command) as child:
        child.expect(r"allow\? $")
        (desk.work / "gate").write_text("")
        child.expect(r"^\r\n    hello\r\nMay run run\? allow\? ")
        child.sendline("y")
        child.expect("Over.")
    assert (desk.work / "made").exists()


@pytest.mark.parametrize("command", ["run", "chat"])
def test_keys_are_not_input(desk: CliEnvironment, command: str) -> None:
    """F2 and the arrows before an answer do not change it, and alone they are no answer."""
    ask = call("request_clarification", context="", questions=[{"question": "Colour?", "default": "red"}])
    steps = [TOUCH, call("get_tool_schemas", names=["request_clarification"]), ask, say("Over.")]
    with talking(desk, *desk.script(*steps), "go", command=command, term="xterm") as child:
        child.expect(r"allow\? ")
        child.sendline("\x1bOQ")
        child.expect(r"allow\? ")
        child.sendline("\x1b[A\x1bOQy\x1b[D\x1b[12~")
        child.expect(r"answer \(empty: red\): ")
        child.sendline("\x1bOQ")
        child.expect(r"answer \(empty: red\): ")
        child.sendline("\x1b[Cblue")
        child.expect("Over.")
    assert (desk.work / "made").exists()
    [resolved] = [e for e in desk.events(desk.sessions()[0]["id"]) if e["type"] == "clarification.resolved"]
    assert [answer for _, answer in resolved["qa_pairs"]] == ["blue"]


@pytest.mark.parametrize("pasted", ["\x1b[200~y\n\x1b[201~", "y\nand more\n"])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_pasted_text_is_no_answer(desk: CliEnvironment, command: str, pasted: str) -> None:
    """Pasted lines do not answer a permission request, marked by the terminal or not; in a chat they are sent as a message."""
    with talking(desk, *desk.script(TOUCH, say("Over.")), "go", command=command, term="xterm") as child:
        child.expect(r"allow\? ")
        child.send(pasted)
        child.expect(
            "sent as a message, which is no answer" if command == "chat" else "Pasted text is no answer"
        )
        child.expect(r"allow\? ")
        assert not (desk.work / "made").exists()
        child.sendline("n")
        child.expect("Over.")
    assert not (desk.work / "made").exists()


def test_a_line_begun_before_a_question_is_no_answer(desk: CliEnvironment) -> None:
    """What was typed when the question came is a message: whole lines, and the line that was begun, once it is ended."""
    os.mkfifo(desk.work / "gate")
    script = desk.script(GATED, TOUCH, say("Over."), say("And more."))
    with talking(desk, *ALLOW_GATED, *script, "go") as child:
        desk.wait_for("begun")
        child.sendline("first message")
        child.expect("queued until")
        child.send("fix the test ")
        (desk.work / "gate").write_text("")
        child.expect("unfinished: 'fix the test'")
        child.expect(r"allow\? ")
        child.sendline("y")
        child.expect("sent as a message, which is no answer")
        child.expect(r"allow\? ")
        assert not (desk.work / "made").exists()
        child.sendline("n")
        child.expect("Over.")
    assert not (desk.work / "made").exists()
    events = desk.events(desk.sessions()[0]["id"])
    said = [e["message"]["parts"][0]["text"] for e in events if e["type"] == "message.user"]
    assert said[:1] == ["go"]
    assert {"first message", "fix the test y"} <= set(said)


def test_plans_of_subagents_are_shown(desk: CliEnvironment) -> None:
    """A chat shows each step of a subagent's plan under its name, and /plan lists it beside the agent's own."""
    task = call("delegate", task="count")
    task["calls"][0]["arguments"]["name"] = "anna"
    script = desk.script(
        call("createPlan", title="Mend it", steps=["Look"]),
        call("get_tool_schemas", names=["delegate"]),
        task,
        call("createPlan", title="Count them", steps=["Find", "Count"]),
        GATED,
        say("Two."),
        say("Over."),
    )
    os.mkfifo(desk.work / "gate")
    with talking(desk, "--yes", *script, "go") as child:
        child.expect(r"\[anna\] plan 0/2: Count them")
        desk.wait_for("begun")
        child.sendline("/plan")
        child.expect("Mend it")
        child.expect(r"\[anna\]\r\nCount them .*\r\n  \[.\] Find")
        (desk.work / "gate").write_text("")
        child.expect("Over.")


def test_commands_work_during_a_turn(desk: CliEnvironment) -> None:
    """/plan and /usage answer while a command runs, and while a question waits, whose prompt is shown again; what leaves the
    session is refused; only messages of the user are confirmed."""
    plan = call("createPlan", title="Mend it", steps=["Look", "Repair"])
    os.mkfifo(desk.work / "gate")
    script = desk.script(plan, GATED, TOUCH, say("Over."))
    with talking(desk, *ALLOW_GATED, *script, "go") as child:
        desk.wait_for("begun")
        child.sendline("/plan")
        child.expect("Mend it")
        child.expect("Repair")
        child.sendline("/usage")
        child.expect("session: .* tokens in")
        child.sendline("/new")
        child.expect("/new is not available during a turn")
        child.sendline("be quick")
        child.expect("queued until")
        (desk.work / "gate").write_text("")
        child.expect("your message was delivered")
        child.expect(r"allow\? ")
        child.sendline("/plan")
        child.expect("Repair")
        child.expect(r"allow\? ")
        child.sendline("y")
        child.expect("Over.")
    assert (desk.work / "made").exists()
