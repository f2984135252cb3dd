"""`jaato flow`: run, replay and show, in processes of their own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.arp.serving import Shop, definition, shop, stalling
from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking

PLAN = say(json.dumps({"steps": [{"tool": "echo", "purpose": "say it"}]}))
SCRIPT = (PLAN, call("echo", words="x"), call("echo", text="x"), say("It says x."))


@pytest.fixture
def desk(tmp_path: Path) -> CliEnvironment:
    """One user's machine."""
    return CliEnvironment(tmp_path)


@pytest.fixture
def it() -> Iterator[Shop]:
    """A registry with one tool."""
    with shop(definition("echo")) as made:
        yield made


def test_run_show_replay(desk: CliEnvironment, it: Shop) -> None:
    """A flow tells its steps on stderr and its answer on stdout; its trace is shown, and plays again with the same words, without
    model and registry."""
    model = desk.script(*SCRIPT)
    made = desk.run(
        "flow",
        "run",
        "Say",
        "x.",
        "--registry",
        it.url,
        "--yes",
        *model,
        "--trace",
        "t.jsonl",
        stdin="And y.",
    )
    assert (made.returncode, made.stdout) == (0, "It says x.\n"), made.stderr
    told = made.stderr.splitlines()
    assert told[2:4] == ["plan: echo", next(line for line in told if line.startswith("plan: ok"))]
    for line in ("1 tool", "step-1 echo: say it", "> echo words=x", "> echo text=x"):
        assert line in told
    assert any("Invalid arguments for echo" in line for line in told)
    assert re.search(r"^ok · 1 step · 4 model calls · 4,000 in, 80 out · [\d.]+ s · s[0-9A-Z]{26}$", told[-1])
    [stored] = desk.sessions()
    assert stored["id"] == told[-1].rpartition(" ")[2]
    again = desk.run("flow", "replay", "t.jsonl")
    assert (again.returncode, again.stdout) == (0, made.stdout)
    assert again.stderr.splitlines() == [
        *(line for line in told if "script" not in line),
        "the replay matches the recording",
    ]
    shown = desk.run("flow", "show", "t.jsonl")
    assert shown.returncode == 0
    for text in ("Say x. And y.", it.url, 'arguments: {"text":"x"}', "answer:    It says x.", "invalid:   /"):
        assert text in shown.stdout
    document = json.loads(desk.run("flow", "show", "t.jsonl", "--json").stdout)
    assert (document["status"], document["instruction"]) == ("ok", "Say x.\n\nAnd y.")
    assert json.loads(desk.run("flow", "replay", "t.jsonl", "--json").stdout) == document
    refused = desk.run("flow", "run", "x", "--registry", it.url, *model, "--trace", "t.jsonl")
    assert (refused.returncode, "already" in refused.stderr) == (2, True)


def test_what_is_asked_for_wrongly(desk: CliEnvironment, it: Shop) -> None:
    """What a command would leave undone is refused, and what is refused says what to do; nothing tells to remove what is no
    trace."""
    model = desk.script(*SCRIPT)
    at = ("run", "x", "--registry", it.url, "--yes", *model)
    assert desk.run("flow", *at, "--trace", "t.jsonl").returncode == 0
    (desk.work / "cut.jsonl").write_bytes(
        b"".join((desk.work / "t.jsonl").read_bytes().splitlines(keepends=True)[:7])
    )
    for words, code, said in (
        ((*at, "--trace", ""), 2, "--trace needs the name of a new file"),
        ((*at, "--trace", "."), 2, "name a file that is not there yet"),
        (("show", "."), 2, "name a trace that `jaato flow run --trace FILE` has written"),
        (("show", ""), 2, "name a trace that"),
        (("replay", "/dev/null"), 2, "name a trace that"),
        (("replay", "cut.jsonl"), 1, "The trace is incomplete"),
        (("run", "x", "--registry", it.url.removeprefix("http://"), *model), 2, f"by its URL ({it.url})"),
        (("run", "x", "--registry", "http://", *model), 2, "https://host/path.\n"),
    ):
        made = desk.run("flow", *words)
        assert (made.returncode, said in made.stderr) == (code, True), (words, made.stderr)
        assert "remove it" not in made.stderr.casefold()
    assert len(it.asked("POST")) == 1


def test_how_it_ends(desk: CliEnvironment, it: Shop) -> None:
    """Every ending has its exit code, and with --json is one document on stdout."""
    good = desk.script(*SCRIPT, name="good.json")
    bad = desk.script(PLAN, call("echo"), call("echo"), say("It cannot be."), name="bad.json")
    wordy = desk.script(say("Hm."), say("Hm."), name="wordy.json")
    long = desk.script(
        *[say(json.dumps({"steps": [{"tool": "echo", "purpose": ""}] * 3}))] * 2, name="long.json"
    )
    at = ("--registry", it.url)
    for words, code, status in (
        (("run", "x", *at, "--yes", *good), 0, "ok"),
        (("run", "x", *at, "--yes", *bad), 1, "failed"),
        (("run", "x", "--registry", "http://127.0.0.1:9", *good), 1, "failed"),
        (("run", *at, *good), 2, "failed"),
        (("run", "x", *good), 2, "failed"),
        (("run", "x", "--registry", "nobody", *good), 2, "failed"),
        (("run", "x", *at, "--token", "a\nb", *good), 2, "failed"),
        (("run", "x", *at, "--max-steps", "99", *good), 2, "failed"),
        (("run", "x", *at, "--provider", "scripted", "--model", "missing.json"), 2, "failed"),
        (("run", "x", *at, "--yes", *wordy), 3, "failed"),
        (("run", "x", *at, *good), 4, "denied"),
        (("run", "x", *at, "--yes", "--max-steps", "2", *long), 5, "limit"),
        (("replay", "good.json"), 2, "failed"),
        (("replay", "missing.jsonl"), 2, "failed"),
        (("show", "missing.jsonl"), 2, "failed"),
    ):
        made = desk.run("flow", *words, "--json")
        assert made.returncode == code, (words, made.stderr)
        document = json.loads(made.stdout)
        assert (document["status"], document["exit_code"]) == (status, code), words
        assert "Traceback" not in made.stderr
    helped = desk.run("flow", "run", "--help").stdout
    assert "exit codes: 0 success" in helped
    assert "jaato flow run" in helped


def test_asked_at_the_terminal(desk: CliEnvironment, it: Shop) -> None:
    """Somebody at a terminal is asked about the call, with its arguments; the session of the flow can be gone on with."""
    model = desk.script(*SCRIPT, say("I said x."))
    words = ("run", "Say x.", "--registry", it.url, "--name", "said", *model)
    with talking(desk, *words, command="flow") as child:
        child.expect_exact("May echo run?")
        child.expect_exact("text: x")
        child.expect_exact("allow? ")
        child.sendline("y")
        child.expect_exact("It says x.")
        child.expect("ok · 1 step")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
    assert [one.body["args"] for one in it.asked("POST")] == [{"text": "x"}]
    on = desk.run("run", "--session", "said", "What did you say?", *model)
    assert (on.returncode, on.stdout) == (0, "I said x.\n"), on.stderr
    assert "It says x." in desk.run("sessions", "show", "said").stdout


def test_killed_and_interrupted(desk: CliEnvironment, it: Shop) -> None:
    """A flow that is killed in the middle of a call leaves a trace and a log up to there, which play and say so; one that is
    interrupted ends by itself."""
    it.lies["POST"] = stalling(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    model = desk.script(*SCRIPT)
    for number, sent in enumerate((signal.SIGKILL, signal.SIGINT)):
        trace = f"{number}.jsonl"
        running = desk.start("flow", "run", "x", "--registry", it.url, "--yes", *model, "--trace", trace)
        wait_for(lambda asked=number + 1: len(it.asked("POST")) == asked, running)
        running.send_signal(sent)
        _, err = running.communicate(timeout=60)
        again = desk.run("flow", "replay", trace)
        shown = desk.run("flow", "show", trace).stdout
        if sent == signal.SIGKILL:
            assert running.returncode == -signal.SIGKILL
            assert (again.returncode, "trace is incomplete" in again.stderr) == (1, True)
            assert "step-1 echo: interrupted" in shown
        else:
            assert running.returncode == 130, err
            assert b"Interrupted" in err
            assert (again.returncode, "matches the recording" in again.stderr) == (0, True)
            assert "step-1 echo: cancelled" in shown
        session = shown.split()[1].rstrip(",")
        assert any(event["type"] == "tool.call_start" for event in desk.events(session))


def wait_for(done: Any, running: subprocess.Popen[bytes]) -> None:
    """Wait until something is so; fails where the process ends before."""
    until = time.monotonic() + 60
    while not done():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
