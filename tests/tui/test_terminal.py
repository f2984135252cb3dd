"""The full-screen client in a real terminal, at a real server."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import TIMEOUT_S
from tests.tui.terminal import desk_with_runtime, expect_all, leave, terminal
from tests.tui.tmux import pane

from jaato.tui.questions.dialogs import GUARD_S

ROOT = Path(__file__).parents[2]


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


@pytest.mark.parametrize("more", ["", "er"])
def test_a_message_is_sent_once_there_is_a_connection(tmp_path: Path, more: str) -> None:
    """Enter while the client connects: the message waits in the prompt; it is not sent if it was changed meanwhile."""
    with CliEnvironment(tmp_path).serving() as desk:
        pid = desk.server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            with terminal(desk, "tui", *desk.script(say("Hello."))) as child:
                child.expect("connecting")
                child.send("early\r")
                child.expect("sent then")
                child.send(more)
                child.expect("connecting")
                os.kill(pid, signal.SIGCONT)
                expect_all(child, "ready", *(["earlyer"] if more else ["Hello.", "tokens in"]))
                leave(child)
        finally:
            os.kill(pid, signal.SIGCONT)


def leave_in_turn(desk: CliEnvironment) -> str:
    """Begin a session whose turn waits for a file `go`, and leave; what was printed then."""
    command = "touch begun; until [ -e go ]; do sleep 0.05; done"
    script = desk.script(call("run", command=command), say("All over."))
    with terminal(desk, "tui", *script, "--yes") as child:
        child.expect("ready")
        child.send("work\r")
        desk.wait_for("begun")
        child.send("\x04")
        child.expect(pexpect.EOF)
        return str(child.before)


def see_end_of_turn(desk: CliEnvironment, child: Any) -> None:
    """A client that has joined this turn shows how it ends; it is left."""
    child.expect("until")
    (desk.work / "go").touch()
    expect_all(child, "All over.", "ready")
    leave(child)


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.11")
def test_a_turn_continues_after_leaving_and_is_joined_again(tmp_path: Path) -> None:
    """Leaving in mid-turn lets the turn go on; the documented client joins it, and answers."""
    with CliEnvironment(tmp_path).serving() as desk:
        assert "the turn continues" in leave_in_turn(desk)
        socket = Path(desk.env["XDG_RUNTIME_DIR"]) / "jaato" / "jaato.sock"
        found = re.search(r"serving at (\S+)", desk.run("serve", "--status").stdout)
        where = found[1] if found is not None else str(socket)
        with terminal(
            desk, "--connect", where, start=[sys.executable, str(ROOT / "rich_client.py")]
        ) as child:
            see_end_of_turn(desk, child)


def test_continue_joins_a_turn_that_runs(tmp_path: Path) -> None:
    """`-c` attaches to the newest session of the directory while its turn runs, as `-s` does."""
    with CliEnvironment(tmp_path).serving() as desk:
        leave_in_turn(desk)
        with terminal(desk, "tui", "-c") as child:
            see_end_of_turn(desk, child)
        assert len(desk.sessions()) == 1


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
    """A server that is not there, a current directory that was removed, a session that does not exist: a message and an exit code,
    the terminal as it was."""
    desk = CliEnvironment(tmp_path)
    with terminal(desk, "tui", "--connect", str(tmp_path / "none.sock")) as child:
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1
        assert "No server" in child.before or "no server" in child.before
    removed = f"mkdir gone; cd gone; rmdir ../gone; exec {shlex.join(desk.command)} tui --no-daemon"
    with terminal(desk, start=["/bin/sh", "-c", removed]) as child:
        child.expect("The current directory no longer exists")
        child.expect(pexpect.EOF)
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
        shown.press("C-c", "C-c")
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
    with terminal(desk, *words, EDITOR="editor 'two words'", PATH=f"{tmp_path}:{desk.env['PATH']}") as child:
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
        time.sleep(GUARD_S + 0.2)  # a key that comes sooner was meant for the prompt
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
