"""The user's own editor for the prompt, in a real terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.environment import CliEnvironment, say
from tests.tui.tmux import Pane, pane


@contextmanager
def client(desk: CliEnvironment, editor: str) -> Iterator[Pane]:
    """A client whose editor is a script; `after` has the state of the terminal at its end, `tmp` its temporary files."""
    program, after, tmp = (desk.work.parent / name for name in ("editor", "after", "tmp"))
    program.write_text(f"#!/bin/sh\n{editor}")
    program.chmod(0o755)
    tmp.mkdir(exist_ok=True)
    words = [*desk.command, "tui", "--no-daemon", *desk.script(say("x"))]
    env = {**desk.env, "TERM": "tmux-256color", "EDITOR": str(program), "TMPDIR": str(tmp)}
    start = f'"$@"; code=$?; stty -a >{after}; exit $code'
    with pane(["sh", "-c", start, "sh", *words], cwd=desk.work, env=env) as shown:
        shown.see("ready")
        yield shown


def leave(shown: Pane) -> None:
    """Leave with Ctrl+C twice."""
    shown.press("C-c")
    shown.see("again leaves")
    shown.press("C-c")
    assert shown.exit_code() == 0


def test_an_editor_leaves_the_terminal_in_any_state(tmp_path: Path) -> None:
    """Raw mode, margins, another character set: the screen is whole afterwards, and the shell's terminal as it was."""
    mess = r"stty raw -echo; printf '\033[?1049h\033[5;10r\033[?6h\033[4h\033(0\033[31;7m'"
    with client(CliEnvironment(tmp_path), f"{mess}; echo edited >$1") as shown:
        shown.press("C-g")
        shown.see("New session", "F1 shows the keys", "edited", "ready")
        shown.type("lq")
        shown.see("editedlq", "New session")
        leave(shown)
        state = (tmp_path / "after").read_text().split()
        assert {"echo", "icanon", "isig", "icrnl"} <= set(state)


def test_a_stop_in_the_editor_needs_a_shell_that_continues_it(tmp_path: Path) -> None:
    """Ctrl+Z in an editor stops all that has the terminal; without a shell that could continue it, nothing is stopped."""
    with client(CliEnvironment(tmp_path), "kill -TSTP 0; sleep 0.5; echo edited >$1") as shown:
        shown.press("C-g")
        shown.see("edited", "ready")
        leave(shown)
