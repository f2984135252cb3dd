"""The full-screen client in a real terminal, at a real server."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import Talk
from tests.tui.tmux import pane

from jaato.tui.questions.panel import GUARD_S

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60


@contextmanager
def terminal(desk: CliEnvironment, *args: str, start: Sequence[str] = (), **environ: str) -> Iterator[Any]:
    """A `jaato` in a pseudo-terminal of 80 by 24; what `start`s it is an interpreter of its own."""
    env = {**desk.env, "TERM": "xterm-256color", **environ}
    kind: type[pexpect.spawn] = pexpect.spawn
    if not start and desk.forks(env):
        start, kind = (sys.executable,), Talk
    program, *words = [*(start or desk.command), *args]
    child = kind(
        program,
        words,
        cwd=str(desk.work),
        env=env,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        dimensions=(24, 80),
    )
    try:
        yield child
    finally:
        child.close(force=True)


def desk_with_runtime(tmp_path: Path) -> CliEnvironment:
    """A desk whose server has its socket in a directory of its own."""
    desk = CliEnvironment(tmp_path)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    desk.env["XDG_RUNTIME_DIR"] = str(runtime)
    return desk


def expect_all(child: Any, *texts: str) -> None:
    """Wait for texts that are drawn in one frame, in any order."""
    left = list(texts)
    while left:
        del left[child.expect([re.escape(text) for text in left])]


def leave(child: Any) -> None:
    """Leave with Ctrl+C twice; the terminal is as it was."""
    child.send("\x03")
    child.expect("again leaves")
    child.send("\x03")
    child.expect(re.escape("\x1b[?1049l"))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_without_a_command_it_starts_a_server_and_opens(tmp_path: Path) -> None:
    """`jaato` at a terminal: a server is started, a message is answered, leaving keeps the session."""
    desk = desk_with_runtime(tmp_path)
    desk.env["JAATO_PROVIDER"] = "scripted"
    desk.env["JAATO_MODEL"] = desk.script(say("Hello **you**."))[-1]
    try:
        with terminal(desk, start=desk.command) as child:
            child.expect("ready")
            child.send("hi\r")
            expect_all(child, "Hello", "tokens in", "ready")
            leave(child)
            assert re.search(r"jaato: `jaato tui --session s\w+` resumes the session", child.before)
        with terminal(desk, "-c") as child:
            expect_all(child, "Session without a name", "Hello", "ready")
            leave(child)
        assert "serving at" in desk.run("serve", "--status").stdout
        assert len(desk.sessions()) == 1
    finally:
        desk.run("serve", "--stop")


def test_it_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """kill -9 in mid-turn: the client reconnects, says what was interrupted, and goes on."""
    with CliEnvironment(tmp_path).serving() as desk:
        script = desk.script(call("run", command="touch begun; sleep 100"), say("Gone on."), say("Second."))
        with terminal(desk, "tui", *script, "--yes") as child:
            child.expect("ready")
            child.send("work\r")
            desk.wait_for("begun")
            child.send("draft")
            child.expect("draft")
            desk.kill_server()
            child.expect("reconnecting")
            desk.start_server()
            expect_all(child, "The turn was interrupted", "ready")
            child.send("\x15/continue\r")
            expect_all(child, "Gone on.", "ready")
            leave(child)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.11")
def test_a_turn_continues_after_leaving_and_is_joined_again(tmp_path: Path) -> None:
    """Leaving in mid-turn lets the turn go on; the documented client joins it, and answers."""
    with CliEnvironment(tmp_path).serving() as desk:
        command = "touch begun; until [ -e go ]; do sleep 0.05; done"
        script = desk.script(call("run", command=command), say("All over."))
        with terminal(desk, "tui", *script, "--yes") as child:
            child.expect("ready")
            child.send("work\r")
            desk.wait_for("begun")
            child.send("\x04")
            child.expect(pexpect.EOF)
            assert "the turn continues" in child.before
        socket = Path(desk.env["XDG_RUNTIME_DIR"]) / "jaato" / "jaato.sock"
        found = re.search(r"serving at (\S+)", desk.run("serve", "--status").stdout)
        where = found[1] if found is not None else str(socket)
        with terminal(
            desk, "--connect", where, start=[sys.executable, str(ROOT / "rich_client.py")]
        ) as child:
            child.expect("until")
            (desk.work / "go").touch()
            expect_all(child, "All over.", "ready")
            leave(child)


@pytest.mark.parametrize("how", ["option", "variable"])
def test_screen_readers_get_plain_lines(tmp_path: Path, how: str) -> None:
    """`--accessible` and ACCESSIBLE=1: the line client, nothing that moves the cursor or colours."""
    desk = CliEnvironment(tmp_path)
    words = ["--accessible"] if how == "option" else []
    environ = {} if how == "option" else {"ACCESSIBLE": "1"}
    script = desk.script(say("Hello."))
    with terminal(desk, "tui", "--no-daemon", *words, *script, **environ) as child:
        child.expect("> ")
        child.send("hi\r")
        child.expect("Hello.")
        child.expect("tokens in")
        child.expect("> ")
        child.sendeof()
        child.expect(pexpect.EOF)
        assert "\x1b" not in child.before


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    """A server that is not there, and a session that does not exist: a message and an exit code, the terminal as it was."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--connect", str(tmp_path / "none.sock")) as child:
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1
        assert "No server" in child.before or "no server" in child.before
    with terminal(desk, "tui", "--no-daemon", "-s", "nothing", *desk.script(say("x"))) as child:
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus not in (0, None)
        assert "nothing" in child.before


def test_without_colours_there_are_none(tmp_path: Path) -> None:
    """NO_COLOR: bold, reverse and the like, no colour of text or background."""
    desk = CliEnvironment(tmp_path)
    script = desk.script(say("# Words\n\n```python\nx = 1\n```"))
    written = io.StringIO()
    with terminal(desk, "tui", "--no-daemon", *script, NO_COLOR="1") as child:
        child.logfile_read = written
        child.expect("ready")
        child.send("hi\r")
        child.expect("Words")
        child.expect("tokens in")
        leave(child)
        assert not re.search(
            r"\x1b\[(?:[0-9;]*;)?(?:[34][0-7]|[34]8;[0-9;]+|9[0-7]|10[0-7])m", str(child.before)
        )


def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    """SIGTERM: the screen is restored, and the program ends."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--no-daemon", *desk.script(say("x"))) as child:
        child.expect("ready")
        child.kill(signal.SIGTERM)
        child.expect(re.escape("\x1b[?1049l"))
        child.expect(pexpect.EOF)


CRASH = """
import sys
from jaato.cli import main
from jaato.tui.app import FullScreenClient

def fail(self):
    hidden = "a secret " + "value"
    raise RuntimeError("out of order")

FullScreenClient.action_unfold = fail
sys.exit(main(sys.argv[1:]))
"""


def test_a_fault_leaves_the_terminal_and_the_draft_as_they_were(tmp_path: Path) -> None:
    """An exception in a handler: the screen is restored, the traceback shows no values, the draft is kept."""
    desk = CliEnvironment(tmp_path)
    words = ["tui", "--no-daemon", *desk.script(say("x"))]
    with terminal(desk, *words, start=[sys.executable, "-c", CRASH]) as child:
        child.expect("ready")
        child.send("my draft")
        child.expect("draft")
        child.send("\x0f")
        child.expect(re.escape("\x1b[?1049l"))
        child.expect("RuntimeError: out of order")
        child.expect("resumes the session")
        assert "a secret value" not in child.before
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1
    with terminal(desk, *words) as child:
        expect_all(child, "my draft", "ready")
        leave(child)


def test_a_closed_terminal_leaves_no_process(tmp_path: Path) -> None:
    """The terminal is closed while a tool runs in the client's own process: both end."""
    desk = CliEnvironment(tmp_path)
    script = desk.script(call("run", command="touch begun; sleep 987"), say("x"))
    with terminal(desk, "tui", "--no-daemon", *script, "--yes") as child:
        child.expect("ready")
        child.send("go\r")
        desk.wait_for("begun")
        tool = [one.pid for one in psutil.Process(child.pid).children(recursive=True)]
        assert tool
        child.ptyproc.fileobj.close()
        until = time.monotonic() + TIMEOUT_S
        while child.isalive() or any(map(psutil.pid_exists, tool)):
            assert time.monotonic() < until
            time.sleep(0.05)


def test_it_is_suspended_and_drawn_again(tmp_path: Path) -> None:
    """Stopped, the screen is the shell's; continued, also in the background first, all of it is drawn again."""
    desk = CliEnvironment(tmp_path)
    words = [*desk.command, "tui", "--no-daemon", *desk.script(say("x"))]
    env = {**desk.env, "TERM": "tmux-256color", "HISTFILE": "", "PS1": "shell$ "}
    with pane(["bash", "--norc", "--noprofile", "-i"], cwd=desk.work, env=env) as shown:
        shown.type(shlex.join(words))
        shown.press("Enter")
        for back in (["fg"], ["bg", "fg"]):
            shown.see("ready")
            shown.press("C-p")
            shown.see("Search for commands")
            shown.type("suspend")
            shown.see("go to the shell")
            shown.press("Enter")
            for command in back:
                shown.wait(lambda screen: screen.rstrip().endswith("shell$"))
                shown.type(f"clear; {command}")
                shown.press("Enter")
            shown.see("New session", "F1 shows the keys", "ready")
            shown.type("a")
        shown.see(" aa", "ready")
        shown.press("C-c")
        shown.see("again leaves")
        shown.press("C-c")
        shown.see("resumes the session", "shell$")


def test_a_message_is_written_in_the_users_editor(tmp_path: Path) -> None:
    """Ctrl+G: the editor has the terminal, Ctrl+C too, while the agent works on; what it saves is the message. One that fails
    changes nothing."""
    desk = CliEnvironment(tmp_path)
    editor = tmp_path / "editor"
    editor.write_text("""#!/bin/sh
trap 'echo caught' INT
test -n "$(cat $2)" && { echo wrote; exit 3; }
printf '%s\\n' "first of $1" second >$2
echo editing
while test ! -e saved; do sleep 0.05; done
""")
    editor.chmod(0o755)
    steps = desk.script(
        call("run", command="touch begun; while test ! -e went; do sleep 0.05; done"),
        call("run", command="for one in $(seq 25); do echo $one; sleep 0.04; done; touch over"),
        say("Done."),
    )
    words = ["tui", "--no-daemon", *steps, "--yes"]
    with terminal(desk, *words, EDITOR=f"'{editor}' 'two words'") as child:
        child.expect("ready")
        child.send("go\r")
        desk.wait_for("begun")
        child.send("\x07")
        child.expect(re.escape("\x1b[?1049l"))
        child.expect("editing")
        child.send("\x03")
        child.expect("caught")
        (desk.work / "went").touch()
        desk.wait_for("over")
        (desk.work / "saved").touch()
        child.expect(re.escape("\x1b[?1049h"))
        assert "\x1b[" not in child.before
        expect_all(child, "first of two words", "second", "Done.")
        child.send("\x07")
        child.expect("wrote")
        expect_all(child, "exit code 3", "first of two words")
        leave(child)


def test_without_a_provider_it_says_what_to_do(tmp_path: Path) -> None:
    """An option alone is one of the full-screen client; a download that is refused ends it with what else can be done."""
    desk = CliEnvironment(tmp_path)
    for name in [name for name in desk.env if name.endswith("_API_KEY") or name == "JAATO_PROVIDER"]:
        del desk.env[name]
    with terminal(desk, "--no-daemon") as child:
        child.expect("has to be downloaded")
        child.send("n")
        child.expect(re.escape("\x1b[?1049l"))
        child.expect("save a key")
        assert "Traceback" not in child.before
        assert "Group" not in child.before
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 2
    with terminal(desk, "--no-daemn") as child:
        child.expect("--no-daemn")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 2


def test_a_message_starts_the_server_again(tmp_path: Path) -> None:
    """The server was killed and nothing starts it: the status says what does, and the message is answered."""
    desk = desk_with_runtime(tmp_path)
    try:
        with terminal(desk, "tui", *desk.script(say("First."), say("Second."))) as child:
            child.expect("ready")
            child.send("hi\r")
            child.expect("First.")
            child.expect("ready")
            found = re.search(r"process (\d+)", desk.run("serve", "--status").stdout)
            assert found is not None
            os.kill(int(found[1]), signal.SIGKILL)
            child.expect("a message starts the server")
            child.send("again\r")
            child.expect("Second.")
            child.expect("ready")
            leave(child)
    finally:
        desk.run("serve", "--stop")


def test_an_answer_that_no_server_has_taken_starts_one(tmp_path: Path) -> None:
    """The server hangs when the question is answered, and is killed: the call runs once, without another key."""
    desk = desk_with_runtime(tmp_path)
    script = desk.script(call("run", command="echo once >> log.txt", need=["write"]), say("It is done."))
    try:
        with terminal(desk, "tui", *script) as child:
            child.expect("ready")
            child.send("go\r")
            child.expect("May run run")
            found = re.search(r"process (\d+)", desk.run("serve", "--status").stdout)
            assert found is not None
            os.kill(int(found[1]), signal.SIGSTOP)
            child.send("\t")
            expect_all(child, "whole")
            time.sleep(GUARD_S + 0.05)
            child.send("y")
            time.sleep(0.2)
            os.kill(int(found[1]), signal.SIGKILL)
            expect_all(child, "It is done.", "ready")
            leave(child)
        assert (desk.work / "log.txt").read_text() == "once\n"
    finally:
        desk.run("serve", "--stop")


def test_a_message_that_waits_for_the_connection_is_no_lost_one(tmp_path: Path) -> None:
    """The server is gone and that of another place: who leaves finds the message in the prompt again."""
    with CliEnvironment(tmp_path).serving() as desk:
        socket = str(Path(desk.env["XDG_RUNTIME_DIR"]) / "jaato" / "jaato.sock")
        words = ["tui", "--connect", socket, *desk.script(say("First."))]
        with terminal(desk, *words) as child:
            child.expect("ready")
            desk.kill_server()
            child.expect("reconnecting")
            child.send("take this\r")
            child.expect("waits for the connection")
            child.kill(signal.SIGTERM)
            child.expect(pexpect.EOF)
        desk.start_server()
        with terminal(desk, *words) as child:
            expect_all(child, "take this", "ready")
            leave(child)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_terminal_that_cannot_show_it_gets_plain_lines(tmp_path: Path, environ: dict[str, str]) -> None:
    """A message says why, and nothing is drawn."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--no-daemon", *desk.script(say("Hello.")), **environ) as child:
        child.expect("Plain lines are used")
        child.expect("Ctrl-D leaves")
        child.send("hi\r")
        child.expect("Hello.")
        assert "\x1b[?1049h" not in child.before


def test_nothing_is_written_at_rest(tmp_path: Path) -> None:
    """No cursor blinks and no spinner turns: a client that waits for a message costs nothing."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--no-daemon", *desk.script(say("x"))) as child:
        child.expect("ready")
        assert any(child.expect([pexpect.TIMEOUT, ".+"], timeout=2) == 0 for _ in range(20))
        leave(child)


def test_a_message_that_the_server_does_not_take_is_shown(tmp_path: Path) -> None:
    """The server is silent: the message is shown as waiting, and is a draft again for one who leaves then."""
    with CliEnvironment(tmp_path).serving() as desk:
        words = ["tui", *desk.script(say("First."))]
        found = re.search(r"process (\d+)", desk.run("serve", "--status").stdout)
        assert found is not None
        with terminal(desk, *words) as child:
            child.expect("ready")
            os.kill(int(found[1]), signal.SIGSTOP)
            try:
                child.send("are you there\r")
                child.expect("waits for the server")
                leave(child)
            finally:
                os.kill(int(found[1]), signal.SIGCONT)
        with terminal(desk, *words) as child:
            expect_all(child, "are you there", "ready")
            leave(child)


def test_it_ends_while_a_list_waits_for_the_server(tmp_path: Path) -> None:
    """The server does not answer: the list of sessions takes keys, and Ctrl+C twice ends the program."""
    with (
        CliEnvironment(tmp_path).serving() as desk,
        terminal(desk, "tui", *desk.script(say("x"))) as child,
    ):
        child.expect("ready")
        found = re.search(r"process (\d+)", desk.run("serve", "--status").stdout)
        assert found is not None
        os.kill(int(found[1]), signal.SIGSTOP)
        try:
            child.send("\x1bOR")
            child.expect("type to search")
            child.send("some words")
            child.expect("words")
            leave(child)
        finally:
            os.kill(int(found[1]), signal.SIGCONT)
