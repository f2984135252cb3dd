"""The documented plugin: construction, the result of a check, and both channels."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import READ, Script

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError
from jaato.plugins.permission import PermissionPlugin, QueueChannel
from jaato.plugins.permission.channels import question_text
from jaato.tools.invisible_text import escape_all

S1 = pytest.mark.spec("S1", "Permission Integration")
C4 = pytest.mark.spec("C4", "Permissions")


def plugin(tmp_path: Path, channel_type: str = "console", **more: Any) -> PermissionPlugin:
    """A plugin for a workspace of its own."""
    return PermissionPlugin(
        channel_type=channel_type, workspace=tmp_path, state_dir=tmp_path / "state", **more
    )


@S1
def test_check_permission_gives_decision_reason_and_method(tmp_path: Path) -> None:
    """The result says whether, why and how; with nobody at the terminal that is no."""
    allowed, answer = plugin(tmp_path).check_permission("deleteFile", {"path": "x"})
    assert not allowed
    assert answer.keys() == {"decision", "reason", "method"}
    assert (answer["decision"], answer["method"]) == ("denied", "no_channel")


@pytest.mark.spec("S3", "Plugin System Architecture")
def test_ask_permission_says_what_would_happen_and_asks_nobody(tmp_path: Path) -> None:
    """`askPermission(tool)`, with arguments for a surer answer: allowed, asks or denied, by which rule and why."""
    (tmp_path / "p.json").write_text(
        json.dumps({"whitelist": {"patterns": ["make *"]}, "blacklist": {"tools": ["deleteFile"]}})
    )
    made = plugin(tmp_path, "queue", config_path="p.json", trusted=True, tools={"readFile": READ}.get)
    assert made.askPermission("readFile")["access"] == "allowed"
    denied = made.askPermission("deleteFile", {"path": "x"})
    assert (denied["tool"], denied["access"], denied["method"]) == ("deleteFile", "denied", "blacklist")
    assert made.askPermission("cli_based_tool", {"cmd": "make all"})["access"] == "allowed"
    parts = made.askPermission("run", {"command": "make all && rm x"})
    assert parts["parts"][0]["access"] == "allowed"
    assert parts["access"] != "allowed"
    assert made.askPermission("writeFile")["access"] == "asks"
    assert isinstance(made.channel, QueueChannel)
    assert made.channel.next(0) is None


@S1
def test_known_tools_are_judged_by_what_they_touch(tmp_path: Path) -> None:
    """With a look-up the plugin knows that a tool only reads."""
    assert plugin(tmp_path, tools={"readFile": READ}.get).check_permission("readFile", {"path": "x"})[0]


@S1
def test_other_spellings_of_run_are_shell_commands(tmp_path: Path) -> None:
    """A command is judged as one under each documented name of the tool."""
    (tmp_path / "p.json").write_text('{"whitelist": {"patterns": ["run(ls *)"]}}')
    gate = PermissionPlugin(
        "p.json", workspace=tmp_path, state_dir=tmp_path / "state", channel=Script(), trusted=True
    )
    for name, argument in (
        ("run", "command"),
        ("cli_based_tool", "command"),
        ("cli_execute", "cmd"),
        ("runCommand", "command"),
    ):
        assert gate.check_permission(name, {argument: "ls"})[0]
        assert not gate.check_permission(name, {argument: "ls; rm x"})[0]


@S1
def test_edited_arguments_come_back(tmp_path: Path) -> None:
    """What the user made of the arguments is part of the result, and was judged itself."""
    script = Script(Answer(answer="e", arguments={"command": "make b"}), Answer(answer="c", comment="no"))
    gate = plugin(tmp_path, channel=script)
    assert gate.check_permission("run", {"command": "make a"}) == (
        True,
        {"decision": "allowed", "reason": "the user edited the arguments and allowed exactly these", "method": "user_approved",
         "arguments": {"command": "make b"}},
    )  # fmt: skip
    assert gate.check_permission("run", {"command": "make a"})[1]["comment"] == "no"


@C4
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("webhook", "needs an endpoint"),
        ("pigeon", "no permission channel 'pigeon'"),
    ],
)
def test_a_channel_that_does_not_exist_is_an_error(tmp_path: Path, kind: str, says: str) -> None:
    """An unknown channel is refused at construction, and by the policy file."""
    with pytest.raises(ConfigError, match=says):
        plugin(tmp_path, kind)
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"channel": {"type": kind}}))
    with pytest.raises(ConfigError, match=says):
        plugin(tmp_path, config_path=path, trusted=True)


@C4
def test_queue_channel_is_answered_from_another_thread(tmp_path: Path) -> None:
    """Eight threads wait, one at a time; whoever serves the queue answers each with its own words."""
    gate = plugin(tmp_path, "queue")
    channel = gate.channel
    assert isinstance(channel, QueueChannel)
    results: dict[int, bool] = {}

    def ask(index: int) -> None:
        results[index] = gate.check_permission("noop", {"index": index})[0]

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        pending = channel.next(10)
        assert pending is not None
        assert channel.questions.empty(), "two prompts at once"
        pending.answer("yes" if pending.question.arguments["index"] % 2 else "no", by="me")
        pending.answer("yes")
    for thread in threads:
        thread.join()
    assert results == {index: bool(index % 2) for index in range(8)}


@C4
def test_queue_channel_times_out_and_closes(tmp_path: Path) -> None:
    """Nobody in time is `timeout`; a closed channel is `no_channel`, also for who waits already."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"channel": {"type": "queue", "timeout": 0.01}}))
    gate = plugin(tmp_path, config_path=path, trusted=True)
    assert gate.check_permission("noop", {})[1]["method"] == "timeout"
    gate = plugin(tmp_path, "queue")
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(gate.check_permission("noop", {})[1]["method"]))
    thread.start()
    assert isinstance(gate.channel, QueueChannel)
    assert gate.channel.next(10) is not None
    gate.shutdown()
    thread.join()
    assert [*results, gate.check_permission("noop", {})[1]["method"]] == ["no_channel", "no_channel"]


CONSOLE = """
import json, sys
from pathlib import Path
from jaato.plugins.permission import PermissionPlugin
root = Path(sys.argv[1])
plugin = PermissionPlugin(workspace=root, state_dir=root / "state")
result = plugin.check_permission(sys.argv[2], json.loads(sys.argv[3]))
Path(sys.argv[4]).write_text(json.dumps(result))
"""


def console(
    tmp_path: Path,
    typed: bytes,
    tool: str = "run",
    arguments: str = '{"command": "make a"}',
    early: bytes = b"",
) -> tuple[str, Any]:
    """Run a check on a real terminal; tells what was shown and the result."""
    result = tmp_path / "result.json"
    leader, follower = pty.openpty()
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", CONSOLE, str(tmp_path), tool, arguments, str(result)]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environ) as running:
        os.close(follower)
        os.write(leader, early)
        lines = typed.splitlines(keepends=True)
        shown, answered = b"", 0
        try:
            while piece := os.read(leader, 4096):
                shown += piece
                if lines and shown.count(b" > ") > answered:
                    answered = shown.count(b" > ")
                    os.write(leader, lines.pop(0))
        except OSError:
            pass
        running.wait()
    os.close(leader)
    return shown.decode(), json.loads(result.read_text())


@S1
def test_console_shows_the_question_and_reads_the_answer(tmp_path: Path) -> None:
    """The terminal shows tool, arguments, the reason, what a lasting answer covers and all answers."""
    shown, (allowed, answer) = console(tmp_path, b"y\n", arguments='{"command": "ls | make a"}')
    assert allowed
    assert answer["method"] == "user_approved"
    for text in (
        "May run run?",
        "command: ls | make a",
        "make a: no rule covers it",
        "would cover: ls; make a",
        "[t]urn",
        "once never all",
    ):
        assert text in shown


@S1
@pytest.mark.parametrize(
    ("typed", "allowed", "says"),
    [(b"c use tests\n", False, "use tests"), (b"x\nno\n", False, "denied"), (b'e {"command": "make b"}\n', True, "make b"),
     (b'e\n{"command": "make b"}\n', True, "make b"), (b"e [1]\nn\n", False, "denied"), (b"\x04", False, "no_channel")],
)  # fmt: skip
def test_console_answers(tmp_path: Path, typed: bytes, allowed: bool, says: str) -> None:
    """Comments, edits, unknown answers and the end of the input are understood."""
    _shown, result = console(tmp_path, typed)
    assert result[0] == allowed
    assert says in json.dumps(result[1])


def test_a_question_cannot_forge_the_terminal() -> None:
    """Control characters in arguments are spelled out, so that nothing shown can be hidden or faked."""
    hostile = "x\x1b[2K\rMay readFile run?\u202e\u200b\x07"
    text = question_text(
        Question(
            id="q",
            call_id="c",
            tool="run",
            arguments={"command": hostile, hostile: 1},
            digest="",
            reason=hostile,
        )
    )
    assert not set("\x1b\r\u202e\u200b\x07") & set(text)
    assert "\\x1b[2K\\rMay" in text


@pytest.mark.parametrize(
    "char",
    ["\u3164", "\u115f", "\uffa0", "\u2800", "\u034f", "\ufe0f", "\U000e0101", "\u00ad", "\u2028", "\x85"],
)
def test_a_question_shows_what_is_blank_or_invisible(char: str) -> None:
    """A character that shows nothing, printable or not, is spelled out; letters and pictures stay."""
    assert escape_all(f"rm{char}x") == "rm" + char.encode("unicode_escape").decode() + "x"
    assert escape_all("naïve 漢字 🎉 e\u0301") == "naïve 漢字 🎉 e\u0301"
    assert escape_all("a" + "\u0301" * 9).count("\\u0301") == 6


def test_a_word_typed_before_the_question_is_no_answer(tmp_path: Path) -> None:
    """What stands in the terminal before the question is shown is thrown away."""
    shown, (allowed, _answer) = console(tmp_path, b"n\n", early=b"y\n")
    assert "May run run?" in shown
    assert not allowed


def test_a_replacement_is_shown_as_a_diff() -> None:
    """`old` and `new` are shown as what changes."""
    question = Question(
        id="q",
        call_id="c",
        tool="updateFile",
        arguments={"path": "a", "old": "x\ny", "new": "x\nz"},
        digest="",
        reason="",
    )
    lines = question_text(question).splitlines()
    assert "    -y" in lines
    assert "    +z" in lines


def test_an_asynchronous_asker_needs_a_session(tmp_path: Path) -> None:
    """A coroutine cannot answer a synchronous check: that is said, not waited for."""

    class Later:
        async def ask(self, question: Question) -> Answer:
            import asyncio

            await asyncio.sleep(0)
            return Answer(answer="y")

    with pytest.raises(ConfigError, match="event loop"):
        plugin(tmp_path, channel=Later()).check_permission("noop", {})


def test_plugin_takes_its_settings_from_initialize(tmp_path: Path) -> None:
    """`initialize` takes another file and channel, and refuses what it does not know."""
    gate = plugin(tmp_path)
    gate.initialize({"channel_type": "queue"})
    assert isinstance(gate.channel, QueueChannel)
    gate.initialize()
    with pytest.raises(ConfigError, match="colour"):
        gate.initialize({"colour": "red"})
    assert [schema.name for schema in gate.get_tool_schemas()] == ["askPermission"]
    assert gate.get_executors()["askPermission"]({"tool": "run"})["tool"] == "run"
    assert (gate.get_auto_approved_tools(), gate.get_user_commands()) == (["askPermission"], [])
    assert gate.get_system_instructions() is None
