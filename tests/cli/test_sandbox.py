"""The sandbox at the command line: `jaato sandbox`, the flags that open something, and the mode of a conversation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import leave, talking

MARK = f"4242{os.getpid()}"
WRITES = ("--profile", "workspace-write")


def test_a_command_by_hand_reads_and_changes_nothing(desk: CliEnvironment) -> None:
    """In the profile read-only it sees the files, the write fails, the output and the exit code are its own."""
    (desk.work / "a.txt").write_text("here\n")
    made = desk.run("sandbox", "--", "sh", "-c", "cat a.txt; echo no > made; cat; exit 7", stdin="piped\n")
    assert made.returncode == 7
    assert made.stdout == "here\npiped\n"
    assert "Read-only file system" in made.stderr
    assert not (desk.work / "made").exists()


def test_a_command_by_hand_changes_the_workspace_alone(desk: CliEnvironment) -> None:
    """In workspace-write it changes the workspace and what `--add-dir` names; nothing else, and sees no keys."""
    beside, other = desk.root / "beside", desk.root / "other"
    for place in (beside, other, desk.home / ".ssh"):
        place.mkdir()
    (desk.home / ".ssh/id").write_text("KEY-CANARY")
    script = f"touch made {beside}/made; touch {other}/made; cat {desk.home}/.ssh/id; true"
    made = desk.run("sandbox", *WRITES, "--add-dir", "../beside", "--", "sh", "-c", script)
    assert made.returncode == 0, made.stderr
    assert (desk.work / "made").exists()
    assert (beside / "made").exists()
    assert not (other / "made").exists()
    assert "KEY-CANARY" not in made.stdout + made.stderr


def test_all_of_the_output_comes_through(desk: CliEnvironment) -> None:
    """Nothing of it is cut, in a pipe or a file; what is written to errors comes as errors."""
    made = desk.run("sandbox", "--", "sh", "-c", "seq 300000; echo bad >&2")
    assert made.stdout.splitlines()[-1] == "300000"
    assert len(made.stdout.splitlines()) == 300_000
    assert made.stderr == "bad\n"


def test_a_command_by_hand_has_no_terminal(desk: CliEnvironment) -> None:
    """At a terminal its output is copied: the terminal itself, into which it could type, is never handed over."""
    words = ["--", "sh", "-c", "test -t 0 || test -t 1 || test -t 2 || echo none; ls -l /proc/self/fd"]
    with talking(desk, *words, command="sandbox") as child:
        child.expect("none")
        shown = child.read()
        child.close()
    assert child.exitstatus == 0
    assert "/dev/pts" not in shown


def test_an_interrupted_command_by_hand_leaves_nothing(desk: CliEnvironment) -> None:
    """Ctrl-C ends all of it, and the exit code is that of an interruption."""
    child = subprocess.Popen(
        [*desk.command, "sandbox", "--", "sh", "-c", f"echo begun; sleep {MARK}"],
        cwd=desk.work,
        env=desk.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    last = time.monotonic() + 60
    while sleeping() and time.monotonic() < last:
        time.sleep(0.05)
    assert not sleeping()


def sleeping() -> list[str]:
    """The sleeps of the test above that are alive."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(place)] if b"\0%b\0" % MARK.encode() in place.read_bytes() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "There is no command"),
        (["--", "no-such-program"], 127, "No such file"),
        (["--allow-domain", "pypi.org", "--", "true"], 2, "--profile workspace-write"),
        ([*WRITES, "--add-dir", "/", "--", "true"], 2, "whole machine"),
        ([*WRITES, "--add-dir", "~", "--", "true"], 2, "cannot be opened"),
        ([*WRITES, "--allow-domain", "https://pypi.org", "--", "true"], 2, "is no host"),
        (["--profile", "full", "--", "true"], 2, "invalid choice"),
        (["--json", "--", "true"], 2, "--explain"),
    ],
)
def test_what_cannot_be_run_is_said(desk: CliEnvironment, words: list[str], code: int, said: str) -> None:
    """With the reason, and a code that tells usage from the command's own."""
    made = desk.run("sandbox", *words)
    assert made.returncode == code
    assert said in made.stderr


def test_without_a_back_end_nothing_is_run(desk: CliEnvironment) -> None:
    """Where nothing can be confined, the command does not run unconfined instead."""
    made = desk.run("sandbox", *WRITES, "--", "touch", "made", environ={"JAATO_SANDBOX_BACKEND": "none"})
    assert made.returncode == 1
    assert "No sandbox works" in made.stderr
    assert not (desk.work / "made").exists()
    explained = desk.run("sandbox", "--explain", environ={"JAATO_SANDBOX_BACKEND": "none"})
    assert "none: commands cannot be sandboxed" in explained.stdout


def test_explain_says_what_is_seen_and_changed(desk: CliEnvironment) -> None:
    """Writable, fixed and hidden paths are those that a command then meets, as text and as JSON."""
    (desk.home / ".ssh").mkdir()
    (desk.work / ".git/hooks").mkdir(parents=True)
    (desk.work / ".git/config").write_text("")
    beside = desk.root / "beside"
    beside.mkdir()
    openings = (*WRITES, "--add-dir", str(beside), "--allow-domain", "pypi.org")
    plan = json.loads(desk.run("sandbox", *openings, "--explain", "--json").stdout)
    assert plan["profile"] == "workspace-write"
    assert plan["profile"] in plan["profiles"]
    assert plan["backend"]
    assert plan["domains"] == ["pypi.org"]
    assert {str(desk.work), str(beside)} <= set(plan["writable"])
    assert str(desk.work / ".git/config") in plan["fixed"]
    assert str(desk.home / ".ssh") in plan["hidden"]
    text = desk.run("sandbox", *openings, "--explain").stdout
    for line in ("back end", "network", f"writable  {beside}", f"hidden    {desk.home}/.ssh"):
        assert line in text
    tried = desk.run(
        "sandbox", *openings, "--", "sh", "-c", "echo x >> .git/config; ls ~/.ssh; touch ../beside/ok"
    )
    assert (desk.work / ".git/config").read_text() == ""
    assert (beside / "ok").exists()
    assert "Read-only" in tried.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--read-only", "--mode", "auto"], "--read-only is the mode read-only"),
        (["--read-only", "--sandbox", "full"], "leave out --sandbox full"),
        (["--mode", "read-only", "--add-dir", "/srv"], "leave out --add-dir"),
        (["--mode", "read-only", "--allow-domain", "pypi.org"], "leave out --allow-domain"),
        (["--mode", "yolo"], "invalid choice"),
        (["--sandbox", "read-only"], "invalid choice"),
        (["--add-dir", "nowhere"], "No such file"),
        (["--add-dir", ""], "absolute path"),
        (["--allow-domain", "a b"], "is no host"),
    ],
)
def test_flags_that_contradict_or_mean_nothing(desk: CliEnvironment, flags: list[str], said: str) -> None:
    """They are usage errors: nothing begins."""
    made = desk.run("run", *desk.script(say("Never.")), *flags, "go")
    assert made.returncode == 2
    assert said in made.stderr
    assert desk.sessions() == []


def test_flags_of_run_reach_the_command(desk: CliEnvironment) -> None:
    """A granted command may change the directory of `--add-dir`, named from here, and no other."""
    beside, other = desk.root / "beside", desk.root / "other"
    beside.mkdir()
    other.mkdir()
    steps = [call("run", command=f"touch {place}/made") for place in (beside, other)]
    desk.run(
        "run", *desk.script(*steps, say("Over.")), "--allow", "run(touch *)", "--add-dir", "../beside", "go"
    )
    assert (beside / "made").exists()
    assert not (other / "made").exists()


def test_permissions_explain_takes_the_same_flags(desk: CliEnvironment) -> None:
    """It says what would happen under them."""
    made = desk.run(
        "permissions", "explain", "--mode", "read-only", "writeNewFile", '{"path": "a", "content": ""}'
    )
    assert "denied" in made.stdout
    made = desk.run("permissions", "explain", "--read-only", "--mode", "auto", "ls")
    assert made.returncode == 2


@pytest.mark.parametrize("served", [False, True])
def test_the_mode_of_a_conversation(desk: CliEnvironment, served: bool) -> None:
    """It is told at the start with the back end, changed by `/mode`, in the log, and the session goes on in it."""
    with desk.serving() if served else nullcontext():
        with talking(desk, *desk.script(say("Over.")), "--allow-domain", "pypi.org") as child:
            child.expect(r"mode ask, sandbox \w+.*pypi\.org")
            child.expect("> $")
            child.sendline("/mode nonsense")
            child.expect("There is no mode 'nonsense'")
            child.expect("> $")
            child.sendline("/mode auto")
            child.expect("The mode is auto: that, and commands")
            child.expect("> $")
            child.sendline("/mode")
            child.expect(r"\* auto")
            child.expect("> $")
            child.sendline("/session")
            child.expect("mode auto, sandbox")
            child.expect("network pypi.org")
            assert leave(child) == 0
        [session] = desk.sessions()
        modes = [event["mode"] for event in desk.events(session["id"]) if "mode" in event]
        assert modes == ["auto"]
        with talking(desk, *desk.script(say("Over.")), "-c") as child:
            child.expect("mode auto, sandbox")
            assert leave(child) == 0
        with talking(desk, *desk.script(say("Over.")), "-c", "--mode", "plan") as child:
            child.expect("mode plan, sandbox")
            assert leave(child) == 0
        with talking(desk, *desk.script(say("Over.")), "-c", "--read-only") as child:
            child.expect("mode read-only, sandbox")
            child.expect("> $")
            child.sendline("/mode auto")
            child.expect("begin another one")
            assert leave(child) == 0
        assert [event["mode"] for event in desk.events(session["id"]) if "mode" in event] == ["auto"]


def test_without_a_sandbox_the_conversation_says_so(desk: CliEnvironment) -> None:
    """In capitals, whether the machine has none or the user wants none."""
    desk.env["JAATO_SANDBOX_BACKEND"] = "none"
    with talking(desk, *desk.script(say("Over."))) as child:
        child.expect("NO SANDBOX on this machine")
    del desk.env["JAATO_SANDBOX_BACKEND"]
    with talking(desk, *desk.script(say("Over.")), "--sandbox", "full") as child:
        child.expect("NO SANDBOX for commands that a rule allows")


def test_verbose_says_in_which_sandbox_a_call_ran(desk: CliEnvironment) -> None:
    """Below each command, with what was refused."""
    steps = [call("run", command="touch made"), say("Over.")]
    made = desk.run("run", *desk.script(*steps), "--verbose", "--allow", "run(touch *)", "go")
    assert "sandbox: workspace-write" in made.stderr, made.stderr


def test_help_names_what_opens(desk: CliEnvironment) -> None:
    """`run` and `chat` take the arguments that open something to commands."""
    for name in ("run", "chat"):
        text = desk.run(name, "--help").stdout
        assert all(
            flag in text for flag in ("--mode", "--sandbox", "--allow-domain", "--add-dir", "--read-only")
        )


@pytest.mark.parametrize("served", [False, True])
def test_a_question_says_what_a_yes_opens(desk: CliEnvironment, served: bool) -> None:
    """Each host and directory a line of its own, before the answer; without a sandbox in capitals, for this call only. What
    is allowed for longer is listed with what it opens."""
    beside = desk.root / "beside"
    beside.mkdir()
    steps = [
        call(
            "run", command="touch ../beside/made", need=[f"dir:{beside}", "net:pypi.org"], reason="to build"
        ),
        call("run", command="touch away", need=["full"], reason="to look"),
        say("Over."),
    ]
    with desk.serving() if served else nullcontext(), talking(desk, *desk.script(*steps)) as child:
        child.expect("> $")
        child.sendline("go")
        for line in ("yes allows:", "workspace-write: may", "network: pypi.org", f"may change {beside}"):
            child.expect(line)
        child.expect("a always")
        child.expect(r"allow\? ")
        child.sendline("a")
        child.expect("yes allows:")
        child.expect("NO SANDBOX")
        child.expect("this call only")
        assert "a always" not in child.before
        child.expect(r"allow\? ")
        child.sendline("n")
        child.expect("Over.")
        assert leave(child) == 0
    assert (beside / "made").exists()
    assert not (desk.work / "away").exists()
    listed = desk.run("permissions").stdout
    assert f"[workspace-write, network pypi.org, {beside}]" in listed
