"""`jaato chat` at a real terminal, on a dumb one, and without any."""

from __future__ import annotations

import os
import re
import stat
import subprocess

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import leave, talking


@pytest.mark.parametrize(("term", "toolkit"), [("dumb", True), ("xterm", True), ("xterm", False)])
def test_a_conversation(desk: CliEnvironment, term: str, toolkit: bool) -> None:
    """Messages are answered, calls shown as they run, and Ctrl-D leaves; with prompt_toolkit, readline or neither."""
    (desk.work / "a.txt").write_text("hello\n")
    script = desk.script(say("Good day."), call("readFile", path="a.txt"), say("It says hello."))
    with talking(desk, *script, term=term, toolkit=toolkit) as child:
        child.expect("Ctrl-D leaves")
        child.send("hi there\r")
        child.expect("Good day.")
        child.expect("tokens in")
        child.send("read it\r")
        child.expect("> readFile path=a.txt")
        child.expect("It says hello.")
        child.expect("tokens in")
        if not toolkit:
            child.expect("> ")  # readline makes nothing of an earlier Ctrl-D
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    if term != "dumb" and (toolkit or not desk.served):  # beside a server readline would hold everything up
        history = desk.state / "chat_history"
        assert stat.S_IMODE(history.stat().st_mode) == 0o600
        assert "hi there" in history.read_text()


@pytest.mark.parametrize("toolkit", [True, False])
def test_ctrl_c_stops_the_turn_and_not_the_program(desk: CliEnvironment, toolkit: bool) -> None:
    """During a turn Ctrl-C stops it; at the prompt it says how to leave; the chat goes on."""
    script = desk.script(call("run", command="sleep 60"), say("Still here."))
    with talking(desk, *script, "--yes", term="xterm", toolkit=toolkit) as child:
        child.expect("Ctrl-D leaves")
        child.send("wait\r")
        child.expect("> run sleep 60")
        child.sendintr()
        child.expect("Interrupted; completed work is kept")
        child.expect("tokens in")
        child.expect(">")
        child.sendintr()
        child.expect("/exit leaves")
        child.send("and now?\r")
        child.expect("Still here.")
        child.expect("tokens in")
        if not toolkit:
            child.expect("> ")  # readline makes nothing of an earlier Ctrl-D
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


def test_typing_while_the_agent_works(desk: CliEnvironment) -> None:
    """What is typed during a turn reaches the agent at its next pause, in the same turn."""
    os.mkfifo(desk.work / "gate")
    script = desk.script(call("run", command="touch begun; cat gate"), say("I heard you."))
    with talking(desk, *script, "--yes") as child:
        child.expect("> $")
        child.sendline("work")
        child.expect("> run touch")
        child.sendline("and hurry")
        child.expect("queued until the agent")
        (desk.work / "gate").write_text("")
        child.expect("your message was delivered to the agent")
        child.expect("I heard you.")
        assert leave(child) == 0
    kinds = [event["type"] for event in desk.events(desk.sessions()[0]["id"])]
    assert kinds.count("turn.completed") == 1
    assert kinds.count("message.user") == 2


def test_a_command_as_the_first_prompt(desk: CliEnvironment) -> None:
    """`jaato chat /COMMAND` runs the command, and the model is not asked; what follows is a message."""
    made = desk.run("chat", *desk.script(say("one")), "/mode", stdin="hello\n")
    assert made.returncode == 0, made.stderr
    assert "for this session." in made.stderr
    assert made.stdout.endswith("one\n")


def test_commands(desk: CliEnvironment) -> None:
    """Slash commands: help, unknown ones, names, models, new sessions, resuming, saving, plugins' own."""
    script = desk.script(say("one"), say("two"))
    other = desk.script(say("uno"), say("dos"), name="other.json")[-1]
    with talking(desk, *script) as child:
        for line, expected in (
            ("/help", r"/undo {12}\[--dry-run\]"),
            ("/nonsense", "no command /nonsense"),
            ("hello", "one"),
            ("/session name first", r"renamed s\w+ to first"),
            ("/usage", "context: "),
            ("/tools filesystem", "readFile"),
            ("/tools cooking", "no category"),
            ("/plan", "no plan"),
            ("/tasks", "no background tasks"),
            ("/permissions", "No lasting answers"),
            (f"/model scripted {other}", "switched to"),
            ("again", "dos"),
            ("/model scripted nowhere.json", "neither a file"),
            ("/new", r"session s\w+ in "),
            ("first words", "uno"),
            ("/resume first", "2 turns so far"),
            ("/sessions", r"(?s)  first words\r.*  first\r|  first\r.*  first words\r"),
            ("/save", r"Saved as \.jaato/sessions/s\w+\.json"),
            (f"/save {desk.root}/saved.jsonl", r"wrote \d+ events to"),
            (f"/save {desk.root}/saved.jsonl", "exists"),
        ):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        child.expect("> $")
        child.sendline("/exit")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert len((desk.root / "saved.jsonl").read_text().splitlines()) > 5
    assert len(desk.sessions()) == 2


def test_going_on_with_a_saved_session(desk: CliEnvironment) -> None:
    """`/resume` takes a file that `/save` wrote when the store does not have the session any more."""
    script = desk.script(say("one"), say("two"))
    with talking(desk, *script) as child:
        for line, expected in (("hello", "one"), ("/save", "[Ss]aved as")):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0
    [session] = desk.sessions()
    desk.run("sessions", "delete", "--yes", session["id"])
    with talking(desk, *script) as child:
        for line, expected in ((f"/resume {session['id']}", "1 turn so far"), ("more", "two")):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0


def test_without_a_terminal(desk: CliEnvironment) -> None:
    """Lines from a pipe are messages, one after the other; what needs permission is denied; no prompt is printed."""
    script = desk.script(say("one"), call("run", command="touch made", need=["write"]), say("two"))
    made = desk.run("chat", *script, stdin="first\n\nsecond")
    assert (made.returncode, made.stdout) == (0, "one\ntwo\n")
    assert "no one can answer" in made.stderr
    assert ">  " not in made.stderr
    assert desk.run("chat", *script, stdin="").returncode == 0
    assert desk.run("chat", "--session", "nope", *script, stdin="").returncode == 2


def test_continuing(desk: CliEnvironment) -> None:
    """--continue goes on with the newest session and says where it stands."""
    script = desk.script(say("one"), say("two"))
    desk.run("run", *script, "hi")
    made = desk.run("chat", "--continue", stdin="more\n")
    assert made.stdout == "two\n"
    assert "1 turn so far" in made.stderr


def test_continuing_after_an_empty_session(desk: CliEnvironment) -> None:
    """--continue passes over sessions that were opened and left without a message, unless they have a name."""
    script = desk.script(say("one"), say("two"))
    desk.run("run", *script, "hi")
    [begun] = desk.sessions()
    desk.run("chat", *script, "--mode", "plan", stdin="")
    for command in (("chat", "--continue"), ("chat", "--continue", "--no-daemon")):
        assert "1 turn so far" in desk.run(*command, stdin="").stderr
    assert desk.run("context").stdout.startswith(f"session {begun['id']}")
    desk.run("chat", *script, "--name", "later", stdin="")
    assert "later" in desk.run("chat", "--continue", stdin="").stderr


def test_what_the_model_writes_cannot_drive_the_terminal(desk: CliEnvironment) -> None:
    """Escape sequences in answers, arguments and questions do not reach a terminal; a pipe gets the bytes."""
    evil = "\x1b]0;owned\x07\x1b[2Jhello\u202e"
    script = desk.script(
        {**call("run", command=f"touch x{evil}", need=["write"]), "text": evil}, say("Over.")
    )
    with talking(desk, *script) as child:
        child.expect("> $")
        child.sendline("go")
        child.expect(r"allow\? ")
        assert not re.search("\x1b|\x07|\u202e", child.before)
        child.sendline("n")
        child.expect("Over.")
        leave(child)
    assert desk.run("run", *desk.script(say(evil)), "go").stdout == evil + "\n"


@pytest.mark.parametrize(("term", "toolkit"), [("dumb", True), ("xterm", True), ("xterm", False)])
def test_sigterm_leaves(desk: CliEnvironment, term: str, toolkit: bool) -> None:
    """SIGTERM at the prompt ends the chat in order, with 130."""
    with talking(desk, *desk.script(say("x")), term=term, toolkit=toolkit) as child:
        child.expect("Ctrl-D leaves")
        child.expect(">")
        child.kill(15)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130


def test_stdin_that_is_closed(desk: CliEnvironment) -> None:
    """Started without any stdin, chat ends and run works."""
    for command in (["chat"], ["run", "hi"]):
        made = subprocess.run(
            ["bash", "-c", 'exec "$@" <&-', "-", *desk.command, *command, *desk.script(say("ok"))],
            capture_output=True,
            cwd=desk.work,
            env=desk.env,
            timeout=30,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        assert b"Traceback" not in made.stderr


def test_rules_that_are_written_meanwhile_count_once_the_user_trusts_them(desk: CliEnvironment) -> None:
    """A chat asks about what a new permission file allows, says why, and goes by the file after `/permissions trust`; that
    a command elsewhere trusts it changes nothing here."""
    made = [call("run", command=f"touch made{n}", need=["write"]) for n in (1, 2)]
    script = desk.script(made[0], say("asked"), made[1], say("not asked"))
    with talking(desk, *script) as child:
        child.expect("> $")
        rules = desk.work / ".jaato" / "permissions.json"
        rules.parent.mkdir(exist_ok=True)
        rules.write_text('{"version": 1, "whitelist": {"patterns": ["run(touch *)"]}}')
        trusted = desk.run("permissions", "trust")
        assert "Open sessions keep" in trusted.stdout
        child.sendline("go")
        child.expect("touch made1")
        child.expect("(?i)allow")
        child.sendline("n")
        child.expect("asked")
        child.expect("> $")
        assert not (desk.work / "made1").exists()
        child.sendline("/permissions trust")
        child.expect("this session goes by it")
        child.expect("> $")
        child.sendline("go")
        child.expect("not asked")
        assert (desk.work / "made2").exists()
        assert leave(child) == 0
