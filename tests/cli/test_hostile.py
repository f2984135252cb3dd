"""Arguments, streams and texts that nobody sane would give: one bounded message, the right code, a terminal unharmed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say

from jaato.cli.output.console import MAX_WAITING_CHARS, Console, printable, visible
from jaato.cli.output.wording import call_text, indent_argument

HUGE = "a" * 120_000
BYTES = "a\udcff\udcfeb"
"""What an argument of the bytes 61 FF FE 62 is to Python."""


@pytest.mark.parametrize(
    "args",
    [
        ["run", "--provider", HUGE, "x"],
        ["run", "--session", HUGE, "x"],
        ["run", "--workspace", HUGE, "x"],
        ["run", "--image", HUGE, "x"],
        ["run", "--effort", HUGE, "x"],
        ["run", f"--{HUGE}", "x"],
        ["tools", "schema", HUGE],
        ["config", "--workspace", HUGE],
        [HUGE],
    ],
    ids=lambda args: " ".join(word for word in args if len(word) < 20),
)
def test_a_huge_argument_is_a_short_complaint(desk: CliEnvironment, args: list[str]) -> None:
    """An argument of 120,000 characters ends with exit 2 and a message that fits on a screen."""
    made = desk.run(*args)
    assert made.returncode == 2, made.stderr[:300]
    assert 0 < len(made.stderr) < 6000


@pytest.mark.parametrize("flag", ["--name", "--system-prompt", "--base-url", "--allow", "--deny"])
def test_bytes_that_are_no_unicode(desk: CliEnvironment, flag: str) -> None:
    """Flags with bytes that are no UTF-8 are used with replacement characters; the session can be written."""
    made = desk.run("run", *desk.script(say("Hello.")), flag, BYTES, BYTES)
    assert (made.returncode, made.stdout) == (0, "Hello.\n"), made.stderr
    if flag == "--name":
        assert desk.sessions()[0]["name"] == "a\ufffd\ufffdb"


def test_bytes_in_a_path_are_not_left_out(desk: CliEnvironment) -> None:
    """A path in a message shows that there is something in it that cannot be shown."""
    made = desk.run("run", "--workspace", BYTES, "x")
    assert "a\ufffd\ufffdb is not a directory" in made.stderr


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e999", "warm"])
def test_a_temperature_is_a_number_from_zero_up(desk: CliEnvironment, text: str) -> None:
    """What is no temperature is a usage error, before anything is sent."""
    made = desk.run("run", *desk.script(say("x")), f"--temperature={text}", "x")
    assert made.returncode == 2
    assert "usage: jaato run" in made.stderr


def test_jaato_alone_shows_its_help(desk: CliEnvironment) -> None:
    """Without a command and a terminal the whole help goes to stderr, then what to do; the code is that of wrong usage."""
    made = desk.run()
    assert (made.returncode, made.stdout) == (2, "")
    assert "examples:" in made.stderr
    assert "jaato run PROMPT" in made.stderr.splitlines()[-1]


@pytest.mark.parametrize("action", ["tools list", "sessions export", "permissions explain"])
def test_help_of_an_action_says_what_it_does(desk: CliEnvironment, action: str) -> None:
    """The second level of commands is described too, with an example."""
    made = desk.run(*action.split(), "--help")
    assert f"jaato {action}" in made.stdout.partition("examples:")[2]
    usage, _, rest = made.stdout.partition("\n\n")
    assert usage.startswith("usage:")
    assert rest[0].isupper()


def shell(desk: CliEnvironment, line: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """A `jaato` whose streams are bent by a shell."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *desk.command, *args],
        env=desk.env,
        cwd=desk.work,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "args", "code"),
    [
        ('"$@" >/dev/full', ["--help"], 1),
        ('"$@" >/dev/full', ["--version"], 1),
        ('"$@" 2>/dev/full', ["fly"], 2),
        ('"$@" 2>/dev/full', ["run", "--provider", "nobody", "x"], 2),
        ('"$@" 2>/dev/full </dev/null', ["run", "SCRIPT", "x"], 0),
        ('"$@" 2>&- </dev/null', ["run", "SCRIPT", "x"], 0),
        ('"$@" >&- 2>&- <&-', ["run", "SCRIPT", "x"], 0),
        ('"$@" >&-', ["--help"], 0),
        ('"$@" >&- 2>&-', ["fly"], 2),
        ('"$@" >&- 2>&-', [], 2),
    ],
)
def test_the_exit_code_outlives_the_streams(
    desk: CliEnvironment, line: str, args: Sequence[str], code: int
) -> None:
    """A full disk or nothing at all under a stream changes no exit code but that of output which was lost."""
    given = [word for arg in args for word in (desk.script(say("x")) if arg == "SCRIPT" else [arg])]
    made = shell(desk, line, *given)
    assert made.returncode == code, made.stderr
    assert b"Exception ignored" not in made.stderr


@pytest.mark.parametrize("output", ["text", "json", "events"])
def test_output_is_utf8_whatever_the_locale(desk: CliEnvironment, output: str) -> None:
    """Into a pipe or file everything is written as it is, in UTF-8, also where the locale knows ASCII only."""
    plain = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    made = desk.run("run", *desk.script(say("Grüße 日本")), "--output", output, "x", environ=plain)
    assert made.returncode == 0
    assert "Grüße 日本" in made.stdout


def test_a_dash_is_stdin(desk: CliEnvironment) -> None:
    """`-` stands for what is piped in, as with other programs."""
    made = desk.run("run", *desk.script(say("x")), "-", stdin="what to do")
    assert made.returncode == 0
    assert desk.events(desk.sessions()[0]["id"])[2]["message"]["parts"][0]["text"] == "what to do"


def test_what_is_to_be_judged_is_shown_whole() -> None:
    """Characters that steer a terminal or cannot be seen have names where a person decides; in an answer they go."""
    command = "rm \x1b[8m -rf\u200b /\u202e x\r\U000e0041\x9b"
    assert visible(command) == "rm <U+001B>[8m -rf<U+200B> /<U+202E> x<U+000D><U+E0041><U+009B>"
    assert indent_argument("command", command).startswith("  command: rm <U+001B>[8m -rf<U+200B> /<U+202E> x")
    assert "<U+001B>" in call_text("run", {"command": command}, 100)
    assert printable("a\x1b[31mb\x07\r\nc\ud800") == "a[31mb\nc\ufffd"


class Terminal(StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_progress_tells_its_end_once(term: str) -> None:
    """However often the end of a download is reported, and whatever is said meanwhile, it is told once."""
    out = Terminal() if term == "xterm" else StringIO()
    screen = Console({"TERM": term, "NO_COLOR": "1"}, out=StringIO(), err=out)
    for done in (50, 100, 100):
        screen.progress("fetching", done, 100)
    screen.note("by the way")
    screen.progress("fetching", 100, 100)
    assert out.getvalue().replace(" ", "").count("100%") == 1
    screen.progress("checking", 100, 100)
    assert out.getvalue().replace(" ", "").count("100%") == 2


def test_notes_do_not_wait_without_bounds_for_the_end_of_a_line() -> None:
    """Notes that wait for the end of a line of the answer are written after it; a line that does not end is broken for them
    before they are too many. Every character comes, in its order."""
    screen = Terminal()
    console = Console({"NO_COLOR": "1"}, out=screen, err=screen)
    console.text("a line")
    console.note("first", waits=True)
    console.text(" of the answer\nno end")
    assert screen.getvalue() == "a line of the answer\nfirst\nno end"
    notes = [f"{number:06} {'x' * 993}" for number in range(500)]
    for note in notes:
        console.note(note, waits=True)
        console.text(".")
        assert sum(len(text) for text, _ in console._waiting) <= MAX_WAITING_CHARS
    console.end_text()
    console.note("after", waits=True)
    lines = screen.getvalue().splitlines()[2:]
    assert [line for line in lines if "x" in line] == notes
    assert "".join(line for line in lines if "x" not in line) == f"no end{'.' * len(notes)}after"


def test_models_of_what_plays_recordings(desk: CliEnvironment) -> None:
    """The scripted provider lists no models, and says so."""
    made = desk.run("models", "--provider", "scripted")
    assert made.returncode == 2
    assert "plays a recording" in made.stderr


def test_json_stays_json_when_a_run_cannot_begin(desk: CliEnvironment) -> None:
    """With --output json even wrong usage that is found late is one JSON object on stdout."""
    for args in (["--session", "none"], ["--image", "gone.png"], ["--schema", "{"], ["--workspace", "gone"]):
        made = desk.run("run", *desk.script(say("x")), *args, "--output", "json", "go")
        assert made.returncode == 2
        assert json.loads(made.stdout)["error"]["code"]


def test_a_tool_named_like_a_trap(desk: CliEnvironment, tmp_path: Path) -> None:
    """A file name with control characters neither reaches the terminal nor a second line."""
    name = "a\x1b[2J\nfake: 0 tokens"
    made = desk.run("run", *desk.script(call("readFile", path=name), say("x")), "go")
    assert "\x1b" not in made.stderr
    assert not any(line.startswith("fake") for line in made.stderr.splitlines())
