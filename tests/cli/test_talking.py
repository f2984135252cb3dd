"""What a chat understands beside messages: a first one, several lines, images, paths, and commands that fail."""

from __future__ import annotations

import json
import time
from base64 import b64decode

import pytest
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import TIMEOUT_S, leave, talking

PLUGIN = """
from jaato import UserCommand

PLUGIN_KIND = "tool"


class Burst:
    name = "burst"

    def __getattr__(self, name):
        if name in ("get_tool_schemas", "get_auto_approved_tools"):
            return list
        if name in ("initialize", "shutdown", "get_system_instructions"):
            return lambda *_: None
        raise AttributeError(name)

    def get_user_commands(self):
        return [UserCommand("burst", "Fail."), UserCommand("count", "Count.", True)]

    def get_executors(self):
        return {"burst": lambda given: 1 / 0, "count": lambda given: f"{len(given['args'])} words"}


def create_plugin():
    return Burst()
"""
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def said(desk: CliEnvironment) -> list[list[dict[str, str]]]:
    """The parts of every message of the user."""
    events = desk.events(desk.sessions()[0]["id"])
    return [event["message"]["parts"] for event in events if event["type"] == "message.user"]


def test_messages_of_every_kind(desk: CliEnvironment) -> None:
    """A first message on the command line, a backslash that goes on, a path in front, an image beside."""
    (desk.work / "dot.png").write_bytes(PIXEL)
    script = desk.script(say("one"), say("two"), say("three"), say("four"))
    with talking(desk, *script, "good", "day") as child:
        child.expect("one")
        for line, expected in (
            ("first\\\nsecond", "two"),
            ("/etc/hosts is what?", "three"),
            ("/image nothing.png", "cannot be read"),
            ("/image dot.png", "is attached to your next message"),
            ("look", "four"),
            ("/save /nonexistent/x", "/nonexistent/x: No such file"),
            ("/status", "workspace /"),
        ):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0
    texts = [[part.get("text", part.get("name")) for part in parts] for parts in said(desk)]
    assert texts[:3] == [["good day"], ["first\nsecond"], ["/etc/hosts is what?"]]
    assert texts[3][:2] == ["look", "dot.png"]


def test_a_plugins_command_that_fails_ends_no_chat(desk: CliEnvironment) -> None:
    """What a plugin's command raises is said, and the chat goes on; another one's output reaches the model."""
    (desk.config / "plugins").mkdir(parents=True)
    (desk.config / "plugins" / "burst.py").write_text(PLUGIN)
    with talking(desk, *desk.script(say("one"))) as child:
        for line, expected in (
            ("/burst", "command /burst of burst failed: ZeroDivisionError"),
            ("/count a b c", "3 words"),
            ("hello", "one"),
        ):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0
    assert "The user ran /count a b c\n3 words" in json.dumps(said(desk)).replace("\\n", "\n")


@pytest.mark.parametrize("flag", ["-c", "--continue"])
def test_short_flags(desk: CliEnvironment, flag: str) -> None:
    """-m names the model and -c goes on, as elsewhere."""
    path = desk.script(say("one"), say("two"))[-1]
    assert desk.run("run", "--provider", "scripted", "-m", path, "hi").stdout == "one\n"
    assert desk.run("run", flag, "and?").stdout == "two\n"


def test_a_terminal_that_is_gone(desk: CliEnvironment) -> None:
    """A chat whose terminal closes between turns ends by itself, and its session can be opened again."""
    with talking(desk, *desk.script(say("one"), say("two"))) as child:
        child.expect("> $")
        child.sendline("hi")
        child.expect("one")
        child.expect("> $")
        child.ptyproc.fileobj.close()
        until = time.monotonic() + TIMEOUT_S
        while child.isalive() and time.monotonic() < until:
            time.sleep(0.02)
        assert not child.isalive()
    assert desk.run("run", "--continue", "more").stdout == "two\n"


def test_names_and_forks(desk: CliEnvironment) -> None:
    """A session gets a name, and a fork goes on beside it and says how to come back. Whoever gives a name that another
    session has is told at once, with its id; by that name neither is opened, and both are listed with their times."""
    script = desk.script(say("one"), say("two"))
    assert desk.run("run", *script, "--name", "tea", "hi").returncode == 0
    [tea] = [row["id"] for row in desk.sessions()]
    twice = f"'tea' is the name of {tea}"
    with talking(desk, *script) as child:
        for line, expected in (
            ("hello", "one"),
            ("/session nome x", "/rename NAME renames it"),
            ("/rename", "Give a name"),
            ("/rename pot", r"renamed s\w+ to pot"),
            ("/session", r"s\w+ pot"),
            ("/fork", r"This is the fork; /resume s\w+ returns"),
            ("/session", r"s\w+ fork of pot"),
            ("/fork cup", r"/resume s\w+ returns"),
            ("/new tea", twice),
            ("/resume pot", "1 turn so far"),
            ("/rename tea", "and of others"),
            ("/resume tea", rf"(?s)fits 3 sessions.*{tea}  20\d\d-"),
            ("/help", "/rename +NAME"),
        ):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0
    for told in (
        desk.run("sessions", "rename", tea, "cup"),
        desk.run("sessions", "fork", tea, "--name", "cup"),
        desk.run("run", *script, "--name", "cup", "hi"),
    ):
        assert told.returncode == 0, told.stderr
        assert "'cup' is the name of s" in told.stderr, told.stderr
