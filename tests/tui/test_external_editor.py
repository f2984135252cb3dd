"""The user's own editor for the prompt, in a real terminal."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.cli.environment import CliEnvironment, say
from tests.tui.tmux import TIMEOUT_S, Pane, pane


@contextmanager
def client(desk: CliEnvironment, editor: str, *args: str) -> Iterator[Pane]:
    """A client, by default of a new session, whose editor is a script; `after` has the terminal's state at its end, `tmp` its
    temporary files."""
    program, after, tmp = (desk.work.parent / name for name in ("editor", "after", "tmp"))
    program.write_text(f"#!/bin/sh\n{editor}")
    program.chmod(0o755)
    tmp.mkdir(exist_ok=True)
    words = [*desk.command, "tui", *(args or ["--no-daemon", *desk.script(say("x"))])]
    env = {**desk.env, "TERM": "tmux-256color", "EDITOR": str(program), "TMPDIR": str(tmp)}
    start = f'"$@"; code=$?; stty -a >{after}; exit $code'
    with pane(["sh", "-c", start, "sh", *words], cwd=desk.work, env=env) as shown:
        if not args:
            shown.see("ready")
        yield shown


def find_leftovers(place: Path) -> list[Path]:
    """The directories of messages that are or were in an editor."""
    return [*(place / "tmp").iterdir(), *(place / "home/.local/state/jaato").glob("tui_message*")]


def leave(shown: Pane) -> None:
    """Leave with Ctrl+C twice, the second within two seconds of the first."""
    shown.press("C-c", "C-c")
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
    """Ctrl+Z in an editor stops all that has the terminal; without a shell that could continue it, nothing is stopped, nor by the
    command of the palette."""
    with client(CliEnvironment(tmp_path), "kill -TSTP 0; sleep 0.5; echo edited >$1") as shown:
        shown.press("C-g")
        shown.see("edited", "ready")
        shown.press("C-p")
        shown.see("Search for commands")
        shown.type("suspend")
        shown.see("go to the shell")
        shown.press("Enter")
        shown.wait(lambda screen: "Search for commands" not in screen and "ready" in screen)
        shown.type("!")
        shown.see("edited!", "New session", "ready")
        leave(shown)


@pytest.mark.parametrize(
    "editor",
    ["echo edited >$1; kill -9 $$", "echo old >$1; echo edited >$1.save; exit 1", "rm $1; echo edited >$1"],
)
def test_what_an_editor_has_saved_is_kept_when_it_is_killed(tmp_path: Path, editor: str) -> None:
    """An editor that ends by a signal, as nano ends by one, or that replaces the file."""
    with client(CliEnvironment(tmp_path), editor) as shown:
        shown.press("C-g")
        shown.see(" edited", "ready")
        leave(shown)
    assert find_leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("editor", "error"),
    [
        (">$1; kill -9 $$", "-9;"),
        ("rm -r ${1%/*}", "left no file"),
        ("rm $1; mkdir $1", "not a regular file"),
        ("truncate -s 9000000 $1", "8,000,000"),
        (":", "has changed nothing"),
    ],
)
def test_an_editor_that_leaves_no_message_changes_nothing(tmp_path: Path, editor: str, error: str) -> None:
    """A file that is empty, removed, no file or huge; an editor that ends at once says what it may need."""
    with client(CliEnvironment(tmp_path), editor) as shown:
        shown.type("draft")
        shown.see("draft")
        shown.press("C-g")
        shown.wait(lambda screen: error in " ".join(screen.split()))
        shown.see(" draft", "ready")
        leave(shown)
    assert find_leftovers(tmp_path) == []


def test_a_closed_terminal_keeps_what_the_editor_has_saved(tmp_path: Path) -> None:
    """An editor that no signal but SIGKILL ends is ended; what it has saved is the draft, and nothing is left."""
    desk = CliEnvironment(tmp_path)
    editor = "trap '' HUP TERM; echo saved >$1; touch begun; while sleep 0.05; do :; done"
    with client(desk, editor) as shown:
        shown.type("draft")
        shown.see("draft")
        shown.press("C-g")
        desk.wait_for("begun")
        processes = [one for one in psutil.process_iter() if is_of(tmp_path, one)]
        assert len(processes) > 1
    assert not psutil.wait_procs(processes, timeout=TIMEOUT_S)[1]
    assert find_leftovers(tmp_path) == []
    with client(desk, "echo") as shown:
        shown.see("saved", "ready")
        leave(shown)


def test_a_client_that_cannot_continue_waits_for_the_editor(tmp_path: Path) -> None:
    """A server that fails while the message is in the editor: it is the draft when the editor ends, and then the client does."""
    desk, address = CliEnvironment(tmp_path), tmp_path / "socket"
    editor = "echo edited >$1; echo editing; until test -e saved; do sleep 0.05; done"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        with client(desk, editor, "--connect", str(address)) as shown:
            connection, _ = listener.accept()
            shown.see("─────")
            shown.press("C-g")
            shown.see("editing")
            connection.close()
            listener.close()
            time.sleep(1)  # in which the client sees that
            (desk.work / "saved").touch()
            shown.wait(
                lambda screen: "was lost" in screen or "jaato serve --stop" in screen
            )  # or it has waited for long
            assert shown.exit_code() != 0
    with client(desk, "echo") as shown:
        shown.see(" edited", "ready")
        leave(shown)


@pytest.mark.parametrize("is_gone", [True, False])
def test_the_message_of_a_killed_client_is_found_by_the_next(tmp_path: Path, is_gone: bool) -> None:
    """kill -9 of the client while its editor runs: once that has ended, the next start has what it has saved, and removes its
    directory; before, it stays."""
    desk = CliEnvironment(tmp_path)
    editor = "trap '' HUP; echo saved >$1; touch begun; until test -e end; do sleep 0.05; done; touch ended"
    with client(desk, editor) as shown:
        shown.type("draft")
        shown.wait(lambda _: "draft" in read_drafts(desk))
        shown.press("C-g")
        desk.wait_for("begun")
        find_client(tmp_path).kill()
        if is_gone:
            (desk.work / "end").touch()
            desk.wait_for("ended")
        with client(desk, "echo") as again:
            again.see("draft", "ready")
            if is_gone:
                again.see("newest message of Ctrl+R")
                assert find_leftovers(tmp_path) == []
                again.press("C-u", "Up")
                again.see(" saved")
            else:
                assert len(find_leftovers(tmp_path)) == 1
                (desk.work / "end").touch()
                desk.wait_for("ended")
            leave(again)
        with client(desk, "echo") as last:
            assert find_leftovers(tmp_path) == []
            leave(last)


def test_an_editor_behind_a_script_ends_with_the_client(tmp_path: Path) -> None:
    """SIGTERM for the client: what the script of the editor has started ends, too, and what that has saved is the draft."""
    desk = CliEnvironment(tmp_path)
    editor = "sh -c 'echo saved >$1; touch begun; sleep 600; echo' sh $1; echo"
    with client(desk, editor) as shown:
        shown.press("C-g")
        desk.wait_for("begun")
        own = find_client(tmp_path)
        started = own.children(recursive=True)
        assert len(started) == 3
        own.terminate()
        shown.exit_code()
        assert not psutil.wait_procs(started, timeout=TIMEOUT_S)[1]
    assert find_leftovers(tmp_path) == []
    with client(desk, "echo") as shown:
        shown.see(" saved", "ready")
        leave(shown)


def read_drafts(desk: CliEnvironment) -> str:
    """The file of the drafts."""
    path = desk.state / "tui_drafts.json"
    return path.read_text() if path.exists() else ""


def find_client(place: Path) -> psutil.Process:
    """The process of the client."""
    (own,) = [
        one
        for one in psutil.process_iter()
        if is_of(place, one) and one.cmdline()[1:4] == ["-m", "jaato", "tui"]
    ]
    return own


def is_of(place: Path, process: psutil.Process) -> bool:
    """Whether a process is that of a client or its editor."""
    try:
        return any(str(place) in word for word in process.cmdline())
    except psutil.Error:
        return False
