"""`jaato run` with a scripted model: streams, sessions, outputs and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from tests.cli.environment import USAGE, CliEnvironment, call, say
from tests.cli.test_talking import PIXEL


def test_answer_and_everything_else_go_to_different_streams(desk: CliEnvironment) -> None:
    """Text goes to stdout; provider and why, calls, tokens, price, time and session go to stderr."""
    (desk.work / "a.txt").write_text("hello\n")
    made = desk.run(
        "run", *desk.script(call("readFile", path="a.txt"), say("It says hello.", chunks=5)), "look"
    )
    assert (made.returncode, made.stdout) == (0, "It says hello.\n")
    first, *middle, last = made.stderr.splitlines()
    assert re.fullmatch(r"scripted \S+script\.json \(--provider\)", first)
    assert middle == ["> readFile path=a.txt"]
    assert re.fullmatch(r"2,000 tokens in, 40 out, price unknown, \d+\.\d s, 1 call, session s\w{26}", last)


def test_piped_text_is_appended(desk: CliEnvironment) -> None:
    """Stdin is appended to the prompt; alone it is the prompt; bytes that are no UTF-8 become U+FFFD."""
    script = desk.script(say("ok"))
    desk.run("run", *script, "explain", "this", stdin=b"line \xff one\n")
    desk.run("run", *script, stdin="only this")
    second, first = desk.sessions()
    assert said(desk, first["id"]) == ["explain this\n\nline \ufffd one"]
    assert said(desk, second["id"]) == ["only this"]


def said(desk: CliEnvironment, session_id: str) -> list[str]:
    """What the user said in a session."""
    return [
        event["message"]["parts"][0]["text"]
        for event in desk.events(session_id)
        if event["type"] == "message.user"
    ]


@pytest.mark.spec("C4", "Permissions")
def test_nobody_to_ask_is_a_denial_with_the_reason(desk: CliEnvironment) -> None:
    """Without a terminal a call that needs permission is denied at once, with the reason and the remedy; exit 4."""
    made = desk.run(
        "run", *desk.script(call("run", command="touch made", need=["write"]), say("I could not.")), "make it"
    )
    assert made.returncode == 4
    assert "no one can answer" in made.stderr
    assert "--allow 'run(touch *)'" in made.stderr
    assert not (desk.work / "made").exists()
    assert made.stdout == "I could not.\n"


def test_a_denied_call_that_was_got_around_is_no_failure(desk: CliEnvironment) -> None:
    """Exit 4 is for a denial in the last round of calls alone."""
    (desk.work / "a.txt").write_text("x")
    script = desk.script(
        call("run", command="touch made", need=["write"]),
        call("readFile", path="a.txt"),
        say("Done otherwise."),
    )
    assert desk.run("run", *script, "go").returncode == 0


def test_allow_yes_deny_and_read_only(desk: CliEnvironment) -> None:
    """--allow lets a pattern run, --yes what no rule denies, --deny outranks both, --read-only everything."""
    script = desk.script(call("run", command="touch made", need=["write"]), say("done"))
    made = desk.work / "made"
    for flags, code in (
        (["--allow", "run(touch *)"], 0),
        (["--yes"], 0),
        (["--yes", "--deny", "run(touch *)"], 4),
        (["--yes", "--allow", "run(touch *)", "--read-only"], 4),
    ):
        made.unlink(missing_ok=True)
        ended = desk.run("run", *script, *flags, "go")
        assert (ended.returncode, made.exists()) == (code, code == 0), (flags, ended.stderr)


def test_read_only_still_reads(desk: CliEnvironment) -> None:
    """--read-only leaves reading tools and reading commands."""
    (desk.work / "a.txt").write_text("hello")
    steps = [call("readFile", path="a.txt"), call("run", command="cat a.txt"), say("read")]
    made = desk.run("run", *desk.script(*steps), "--read-only", "--output", "json", "go")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["denied"] == []


def test_json_output(desk: CliEnvironment) -> None:
    """--output json is one object with the answer, the session, usage, cost, ending and denied calls."""
    steps = [call("run", command="touch made", need=["write"]), say("No.")]
    made = desk.run("run", *desk.script(*steps), "--output", "json", "go")
    document: dict[str, Any] = json.loads(made.stdout)
    assert document["text"] == "No."
    assert document["session_id"] == desk.sessions()[0]["id"]
    assert document["usage"]["input_tokens"] == 2 * USAGE["input_tokens"]
    assert document["cost_usd"] is None
    assert (document["reason"], document["exit_code"], made.returncode) == ("stop", 4, 4)
    [denied] = document["denied"]
    assert (denied["tool"], denied["arguments"], denied["method"]) == (
        "run",
        {"command": "touch made", "need": ["write"]},
        "no_channel",
    )


def test_events_output_is_the_whole_log_and_more(desk: CliEnvironment) -> None:
    """--output events prints every event as a line of JSON: the durable ones as stored, the others between them."""
    (desk.work / "a.txt").write_text("x")
    made = desk.run(
        "run", *desk.script(call("readFile", path="a.txt"), say("hi")), "--output", "events", "go"
    )
    events = [json.loads(line) for line in made.stdout.splitlines()]
    stored = desk.events(events[0]["session_id"])
    numbers = {event["seq"]: event for event in events if event in stored}
    assert sorted(numbers) == [event["seq"] for event in stored]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "session.created"
    assert {"agent.output", "tool.call_start", "tool.call_end", "turn.completed"} <= set(kinds)


SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'


def test_schema_gives_validated_json(desk: CliEnvironment) -> None:
    """--schema prints the answer as JSON that fits, asking again for one that does not."""
    steps = [say('{"n": "one"}'), say("nonsense"), say('```json\n{"n": 1}\n```')]
    made = desk.run("run", *desk.script(*steps), "--schema", SCHEMA, "count")
    assert (made.returncode, json.loads(made.stdout)) == (0, {"n": 1})
    assert "does not match the schema (/n " in made.stderr
    assert "it is not JSON" in made.stderr


def test_an_answer_that_never_fits_is_a_provider_failure(desk: CliEnvironment) -> None:
    """After three tries the run fails with exit 3 and no answer; with --output json the object says so."""
    path = desk.work / "schema.json"
    path.write_text(SCHEMA)
    made = desk.run("run", *desk.script(*[say("no")] * 3), "--schema", str(path), "--output", "json", "count")
    assert made.returncode == 3
    assert json.loads(made.stdout)["error"]["code"] == "provider_malformed_reply"
    assert "does not match the schema" in made.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "must be a JSON object, such as"),
        ("nowhere.json", "cannot be read"),
        ('{"type": 7}', "not a JSON Schema"),
        ("[", "cannot be read"),
    ],
)
def test_a_wrong_schema_is_a_usage_error(desk: CliEnvironment, text: str, words: str) -> None:
    """A schema that cannot be read or is none ends with exit 2 before anything is asked."""
    made = desk.run("run", *desk.script(say("x")), "--schema", text, "go")
    assert made.returncode == 2
    assert words in made.stderr


@pytest.mark.spec("C5", "Client, runtime, session")
def test_continue_session_and_name(desk: CliEnvironment) -> None:
    """--continue goes on with the newest session of this workspace, --session with one by id, prefix or name."""
    script = desk.script(say("one"), say("two"), say("three"), say("four"))
    other = desk.root / "other"
    other.mkdir()
    assert desk.run("run", *script, "--name", "first", "a").stdout == "one\n"
    assert desk.run("run", *script, "elsewhere", cwd=other).stdout == "one\n"
    assert desk.run("run", "--continue", "b").stdout == "two\n"
    assert desk.run("run", "--session", "first", "c").stdout == "three\n"
    [session] = desk.sessions()
    made = desk.run("run", "--session", session["id"][:20], "d", cwd=other)
    assert made.stdout == "four\n", made.stderr
    assert "(as before)" in made.stderr
    assert said(desk, session["id"]) == ["a", "b", "c", "d"]


def test_a_session_that_is_not_there(desk: CliEnvironment) -> None:
    """An unknown session, or --continue where there is none, is exit 2 with the way to see what there is."""
    script = desk.script(say("x"))
    for flags in (["--session", "nope"], ["--continue"]):
        made = desk.run("run", *script, *flags, "go")
        assert made.returncode == 2
        assert "session" in made.stderr.lower()
    assert desk.run("run", *script, "--session", "a", "--continue", "go").returncode == 2


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("provider_authentication", 3), ("context_overflow", 3), ("content_refused", 3), ("model_not_found", 3)],
)
def test_provider_failures(desk: CliEnvironment, code: str, exit_code: int) -> None:
    """A provider's failure is exit 3 and its message, the history kept."""
    made = desk.run("run", *desk.script({"text": "par", "error": code}), "--output", "json", "go")
    assert made.returncode == exit_code
    assert json.loads(made.stdout)["error"]["code"] == code
    assert f"The script says: {code}" in made.stderr
    assert len(desk.sessions()) == 1


def test_a_limit_is_exit_5(desk: CliEnvironment) -> None:
    """--max-turns bounds the model calls of a prompt; reaching it is exit 5."""
    (desk.work / "a.txt").write_text("x")
    steps = [call("readFile", path="a.txt")] * 3
    made = desk.run("run", *desk.script(*steps), "--max-turns", "2", "go")
    assert made.returncode == 5
    assert "--max-turns" in made.stderr


def test_an_answer_cut_by_its_length_is_exit_5(desk: CliEnvironment) -> None:
    """A reply that reached its longest length is no success."""
    made = desk.run("run", *desk.script(say("half", finish_reason="length")), "go")
    assert (made.returncode, made.stdout) == (5, "half\n")


def test_images(desk: CliEnvironment) -> None:
    """--image attaches a file to the prompt; one that cannot be read, or that no provider takes, is exit 2."""
    (desk.work / "a.png").write_bytes(PIXEL)
    made = desk.run("run", *desk.script(say("a picture")), "--image", "a.png", "what is it?")
    assert made.returncode == 0, made.stderr
    [event] = [event for event in desk.events(desk.sessions()[0]["id"]) if event["type"] == "message.user"]
    assert event["message"]["parts"][1]["mime_type"] == "image/png"
    (desk.work / "cut.png").write_bytes(PIXEL[:40])
    for name, problem in (
        ("none.png", "none.png is not a readable file"),
        ("cut.png", "cut.png: This is a damaged"),
    ):
        made = desk.run("run", *desk.script(say("x")), "--image", name, "go")
        assert (made.returncode, problem in made.stderr) == (2, True), made.stderr
    assert len(desk.sessions()) == 1


def test_undo_is_no_prompt_and_works_in_a_chat(desk: CliEnvironment) -> None:
    """`run` names the command for `/undo`, which takes back what an earlier run has changed, outside git, a binary file too."""
    (desk.work / "old.bin").write_bytes(bytes(range(256)))
    activate = call("get_tool_schemas", names=["writeNewFile", "removeFile"])
    steps = (
        activate,
        call("writeNewFile", path="new", content="x"),
        call("removeFile", path="old.bin"),
        say("done"),
    )
    script = desk.script(*steps)
    assert desk.run("run", *script, "--yes", "change files").returncode == 0
    made = desk.run("run", *script, "--continue", "/undo")
    assert (made.returncode, "run `jaato chat --continue /undo`" in made.stderr) == (2, True), made.stderr
    assert (desk.work / "new").exists()
    made = desk.run("chat", "--continue", "/undo", stdin="/undo\n")
    assert made.returncode == 0
    assert (
        'Took back what changed since "change files":\n  new: removed\n  old.bin: brought back' in made.stderr
    )
    assert "There is nothing to undo" in made.stderr
    assert (desk.work / "old.bin").read_bytes() == bytes(range(256))
    assert not (desk.work / "new").exists()


def test_sampling_and_system_prompt_reach_the_session(desk: CliEnvironment) -> None:
    """--system-prompt replaces the prompt of a new session."""
    desk.run(
        "run",
        *desk.script(say("x")),
        "--system-prompt",
        "Be a duck.",
        "--temperature",
        "0.5",
        "--effort",
        "low",
        "go",
    )
    created = [event for event in desk.events(desk.sessions()[0]["id"]) if event["type"] == "agent.created"]
    assert created[0]["system_prompt"] == "Be a duck."


def test_retries_are_told(desk: CliEnvironment) -> None:
    """A retry is one line on stderr; the run goes on."""
    steps = [{"error": "rate_limited", "retry_after_s": 0.01}, say("there")]
    made = desk.run("run", *desk.script(*steps), "go")
    assert (made.returncode, made.stdout) == (0, "there\n")
    assert "retry 2 of" in made.stderr


def test_a_file_gets_whole_messages_only(desk: CliEnvironment) -> None:
    """Into a file no void beginning of a reply is written that broke off and began again."""
    steps = [{"text": "void", "error": "rate_limited", "retry_after_s": 0.01}, say("whole")]
    path = desk.root / "out.txt"
    with path.open("wb") as file:
        subprocess.run(
            [*desk.command, "run", *desk.script(*steps), "go"],
            stdout=file,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            cwd=desk.work,
            env=desk.env,
            check=True,
        )
    assert path.read_text() == "whole\n"


def test_verbose_shows_thinking_and_results(desk: CliEnvironment) -> None:
    """--verbose adds thinking and results to stderr, and nothing to stdout."""
    (desk.work / "a.txt").write_text("the content\n")
    steps = [{"thinking": "hm, a file", **call("readFile", path="a.txt")}, say("ok")]
    made = desk.run("run", *desk.script(*steps), "--verbose", "go")
    assert made.stdout == "ok\n"
    assert "hm, a file" in made.stderr
    assert "the content" in made.stderr


def test_background_tasks_do_not_outlive_the_run(desk: CliEnvironment) -> None:
    """A task that still runs at the end is stopped, and said."""
    steps = [call("run", command="sleep 60", background=True), say("started")]
    made = desk.run("run", *desk.script(*steps), "--yes", "go")
    assert made.returncode == 0
    assert re.search(r"background task b\w+ \(run\) is still running and is stopped now", made.stderr)


def test_a_lone_surrogate_in_the_prompt_is_no_failure(desk: CliEnvironment) -> None:
    """An argument that is no UTF-8 is read with U+FFFD in its place."""
    made = subprocess.run(
        [*desk.command, "run", *desk.script(say("ok")), b"caf\xe9"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=desk.work,
        env=desk.env,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert said(desk, desk.sessions()[0]["id"]) == ["caf\ufffd"]
