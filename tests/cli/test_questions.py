"""Questions at a terminal: permissions with every answer, edited arguments, clarifications."""

from __future__ import annotations

import json
import subprocess
from io import StringIO
from typing import Any

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import leave, talking

from jaato.cli.output.console import Console
from jaato.cli.repl.questions import Questions
from jaato.errors import SessionBusy
from jaato.protocol.events import ClarificationQuestion

ANSWERS = [
    ("y", True, "user_approved"),
    ("yes", True, "user_approved"),
    ("n", False, "user_denied"),
    ("once", True, "user_approved"),
    ("all", True, "user_approved"),
    ("t", True, "turn"),
    ("i", True, "idle"),
    ("a", True, "user_approved"),
    ("never", False, "user_denied"),
    ("c use the other file", False, "user_denied"),
]


@pytest.mark.spec("C4", "Permissions")
@pytest.mark.parametrize(("answer", "runs", "method"), ANSWERS)
def test_every_answer_to_a_permission_question(
    desk: CliEnvironment, answer: str, runs: bool, method: str
) -> None:
    """Each answer does what it says, and is recorded with how."""
    with talking(
        desk, *desk.script(call("run", command="touch made", need=["write"]), say("Over."))
    ) as child:
        child.expect("> $")
        child.sendline("go")
        child.expect("May run run")
        child.expect("command: touch made")
        child.expect("'always' would cover: touch")
        child.expect(r"allow\? ")
        child.sendline("what?")
        child.expect_exact("'what?' is no answer:")
        child.expect("deny, with a comment for the agent")
        child.expect(r"allow\? ")
        child.sendline(answer)
        child.expect("Over.")
        assert leave(child) == 0
    assert (desk.work / "made").exists() == runs
    [ended] = [event for event in desk.events(desk.sessions()[0]["id"]) if event["type"] == "tool.call_end"]
    assert ended["permission"]["decision"] == ("allowed" if runs else "denied")
    if method in ("turn", "idle"):
        assert f"for this {method}" in ended["permission"]["reason"]
    else:
        assert ended["permission"]["method"] == method
    if answer.startswith("c "):
        assert "use the other file" in ended["permission"]["reason"]
    grants = json.loads(desk.run("permissions", "list", "--json").stdout)["grants"]
    assert len(grants) == (answer in ("a", "never"))
    if grants:
        assert desk.run("permissions", "revoke", grants[0]["id"]).returncode == 0
        assert json.loads(desk.run("permissions", "list", "--json").stdout)["grants"] == []


@pytest.mark.spec("C4", "Permissions")
def test_editing_the_arguments(desk: CliEnvironment) -> None:
    """`e` lets the user change the arguments as JSON; what is run is what was written."""
    with talking(
        desk, *desk.script(call("run", command="touch made", need=["write"]), say("Over."))
    ) as child:
        child.expect("> $")
        child.sendline("go")
        child.expect(r"allow\? ")
        child.sendline("e")
        child.expect('"command": "touch made"')
        child.expect("arguments as JSON")
        child.sendline("{nonsense")
        child.expect("[Nn]ot valid JSON")
        child.sendline('{"command": 3}')
        child.expect("/command")
        child.expect("arguments as JSON")
        child.sendline('{"command": "touch other", "need": ["write"]}')
        child.expect("Over.")
        assert leave(child) == 0
    assert [path.name for path in desk.work.iterdir()] == ["other"]
    shown = desk.run("sessions", "show", desk.sessions()[0]["id"]).stdout
    assert ("touch other" in shown, "touch made" in shown) == (True, False)


def test_a_question_at_the_terminal_shows_its_deadline(desk: CliEnvironment) -> None:
    """`question_timeout_s`: the prompt says until when; after that the call is denied and the agent goes on."""
    desk.config.mkdir(parents=True, exist_ok=True)
    (desk.config / "config.toml").write_text("question_timeout_s = 1\n")
    with talking(
        desk, *desk.script(call("run", command="touch made", need=["write"]), say("Over."))
    ) as child:
        child.expect("> $")
        child.sendline("go")
        child.expect(r"denied at \d\d:\d\d:\d\d without an answer")
        child.expect("Over.")
        assert leave(child) == 0
    assert not (desk.work / "made").exists()


def test_run_asks_on_a_terminal_too(desk: CliEnvironment) -> None:
    """`jaato run` puts the same question where somebody can answer."""
    script = desk.script(call("run", command="touch made", need=["write"]), say("Over."))
    with talking(desk, *script, "go", command="run") as child:
        child.expect(r"allow\? ")
        child.sendline("y")
        child.expect("Over.")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert (desk.work / "made").exists()


def test_what_was_typed_before_the_question_is_no_answer(desk: CliEnvironment) -> None:
    """`jaato run` forgets what was typed before it asked: it is begun slowly enough for that to be typed."""
    script = desk.script(
        call("readFile", path="slow"), call("run", command="touch made", need=["write"]), say("Over.")
    )
    subprocess.run(["mkfifo", str(desk.work / "slow")], check=True)
    with talking(desk, *script, "go", command="run", fresh=True) as child:
        child.sendline("y")
        child.sendline("y")
        child.expect(r"allow\? ")
        child.sendline("n")
        child.expect("Over.")
        child.expect(pexpect.EOF)
    assert not (desk.work / "made").exists()


def test_a_pending_question_can_be_interrupted(desk: CliEnvironment) -> None:
    """Ctrl-C at a question stops the turn; nothing was run."""
    with talking(
        desk, *desk.script(call("run", command="touch made", need=["write"])), "go", command="run"
    ) as child:
        child.expect(r"allow\? ")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130
    assert not (desk.work / "made").exists()


def test_the_model_asks_the_user(desk: CliEnvironment) -> None:
    """Clarification questions are answered by text, the number of a choice, or the default."""
    questions = [
        {"question": "Which colour?", "choices": ["red", "blue"]},
        {"question": "How many?", "default": "three"},
        {"question": "Why?"},
    ]
    ask = call("request_clarification", context="Before I begin", questions=questions)
    script = desk.script(call("get_tool_schemas", names=["request_clarification"]), ask, say("Thanks."))
    with talking(desk, *script) as child:
        child.expect("> $")
        child.sendline("paint")
        child.expect("Before I begin")
        child.expect("2. blue")
        child.expect_exact("answer (number or text, empty: no answer): ")
        child.sendline("2")
        child.expect("How many")
        child.expect_exact("answer (empty: three): ")
        child.sendline("")
        child.expect("Why")
        child.expect_exact("answer (empty: no answer): ")
        child.sendline("because")
        child.expect("Thanks.")
        assert leave(child) == 0
    [resolved] = [e for e in desk.events(desk.sessions()[0]["id"]) if e["type"] == "clarification.resolved"]
    assert [answer for _, answer in resolved["qa_pairs"]] == ["blue", "three", "because"]


def test_the_end_of_a_long_command_is_shown(desk: CliEnvironment) -> None:
    """Of a command that is cut, the end is shown, and all of it on request: nothing hides behind many lines or a long one."""
    rows, long = "\n" * 100, "a" * 2_490
    commands = [f"echo a{rows}touch middle{rows}touch evil", f"echo {long}; touch middle; {long}; touch evil"]
    steps = [call("run", command=command, need=["write"]) for command in commands]
    with talking(desk, *desk.script(*steps, say("Over.")), "go", command="run") as child:
        for left in ("171 more lines", "3,013 more characters"):
            child.expect_exact(left)
            child.expect("touch evil\r\n  need")
            assert "middle" not in child.before
            child.expect(r"allow\? ")
            child.sendline("v")
            child.expect("touch middle")
            child.expect("touch evil\r\n  need")
            assert "more lines" not in child.before
            assert "more characters" not in child.before
            child.expect(r"May run run\? allow\? ")
            child.sendline("n")
        child.expect("Over.")
        child.expect(pexpect.EOF)


class Refusing:
    """A responder that takes the second answer."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def respond(self, _question_id: str, answer: Any, /) -> None:
        """Take an answer."""
        self.given.append(answer)
        if len(self.given) == 1:
            raise SessionBusy("The server is going down.")


def test_replies_that_were_not_taken_are_asked_for_from_the_first(desk: CliEnvironment) -> None:
    """The prompt after a refusal is that of the question which the next line answers."""
    screen, responder = StringIO(), Refusing()
    questions = Questions(responder, Console(desk.env, out=StringIO(), err=screen))
    asked = [{"question": "Which colour?"}, {"question": "Which size?"}]
    questions(
        ClarificationQuestion(
            session_id="s1",
            agent_id="a1",
            seq=1,
            timestamp="2026-01-01T00:00:00Z",
            question_id="q1",
            call_id="c1",
            context="",
            questions=asked,
        )
    )
    questions.take("red")
    questions.take("large")
    shown = screen.getvalue()
    assert "going down" in shown
    assert shown.rindex("Which colour?") > shown.rindex("going down")
    questions.take("blue")
    questions.take("small")
    assert responder.given == [["red", "large"], ["blue", "small"]]
