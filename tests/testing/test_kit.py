"""The conformance kit finds what is wrong, and says what to do."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.broken_plugins.plugins import AT_IMPORT, DECLARED, IN_THE_MAKING
from tests.cli.environment import CliEnvironment
from tests.compaction.test_room import Strategy
from tests.spec.documented import Documented, Enriching

from jaato.abc.plugin import Plugin, PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.runtime.plugins.discovery import load_module
from jaato.testing import assert_plugin, check_plugin
from jaato.testing.tool_checks import STOP_WITHIN_S
from jaato.tools.call import Call
from jaato.tools.tool import tool

WORDS = "Do something with a text, and say how it went."


class Sloppy(Plugin):
    """One that does everything a little wrong."""

    name = "sloppy plugin"

    @tool(access="read")
    def silent(self) -> str:
        return "x"

    @tool(category="sloppy", access="read")
    def talks(self) -> str:
        """Say the long and the short of it, and also everything else that comes to mind while one is at it, for a
        description can go on and on and nobody has to read it but a model, which is paid by the word, and does not
        complain about it at all, ever."""
        print("hello")
        return "y"

    @tool(category="sloppy", access="read")
    def odd(self) -> dict[str, Any]:
        """Give something that is no JSON at all, in a dictionary."""
        return {"a": object()}

    @tool(category="sloppy", access="read", examples=({"number": "one"},))
    def example(self, number: int) -> int:
        """Count to a number, and give the number back to you."""
        return number

    @tool(category="sloppy", access="write")
    def breaks(self, text: str) -> str:
        """Fail, whatever it is given, but only if somebody calls it."""
        raise OSError(text)

    def user_commands(self) -> Any:
        """Two that are wrong."""
        return {
            UserCommand("two words", "Say two."): str,
            UserCommand("mute", ""): str,
            UserCommand("odd", "As the tool."): str,
        }

    def shutdown(self) -> None:
        """Fails."""
        raise RuntimeError("no")


class Deaf(Sloppy):
    """One that cannot be stopped, either."""

    @tool(category="sloppy", access="read")
    def deaf(self) -> str:
        """Sleep for a while, and pay no attention to anybody at all."""
        time.sleep(STOP_WITHIN_S + 1)
        return "awake"


@pytest.mark.slow
def test_every_fault_is_found_and_nothing_is_called_that_only_writes() -> None:
    """Each rule names its tool and says what to do."""
    report = check_plugin(Deaf, calls={"breaks": {"text": "boom"}, "absent": {}})
    found = {(finding.rule, finding.about): finding.text for finding in report.errors}
    assert "letters" in found["name", "sloppy plugin"]
    assert "write for a model" in found["description", "silent"]
    assert "words; say it in 40" in found["description", "talks"]
    assert "call.output" in found["stdout", "talks"]
    assert "JSON" in found["result", "odd"]
    assert "example 1 does not fit" in found["examples", "example"]
    assert "call.token" in found["stop", "deaf"]
    assert "boom" in found["call", "breaks"]
    assert "no such tool" in found["call", "absent"]
    assert "one word" in found["command", "/two words"]
    assert "say in a sentence" in found["command", "/mute"]
    assert "no" in found["shutdown", "sloppy plugin"]
    assert not report.ok
    with pytest.raises(AssertionError, match="say it in 40"):
        assert_plugin(Sloppy)
    assert "breaks" not in check_plugin(Sloppy).called


@pytest.mark.parametrize(
    "text",
    [
        text
        for table in (AT_IMPORT, IN_THE_MAKING, DECLARED)
        for name, (text, _) in table.items()
        if "hang" not in name
    ],
)
def test_no_animal_of_the_zoo_passes(tmp_path: Path, text: str) -> None:
    """What the runtime refuses, the kit refuses too; none takes the test down."""
    (tmp_path / "animal.py").write_text(text)
    report = check_plugin(lambda: load_module(tmp_path / "animal.py", "animal"), services={"builtins": True})
    collides = any(word in text for word in ("'readFile'", "name = 'cli'", "'plan'"))
    assert report.ok is collides or not report.ok
    assert report.findings or collides


class Leaving(Documented):
    """One that starts a thread and declares other tools each time."""

    def __init__(self) -> None:
        super().__init__("leaving")
        self.stop = threading.Event()
        self.count = 0

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self.count += 1
        threading.Thread(target=self.stop.wait, daemon=True, name="left").start()

    def get_tool_schemas(self) -> list[Any]:
        return [ToolSchema(f"tool_{self.count}", WORDS, {"type": "object", "required": ["a"]}, "x")]

    def get_executors(self) -> dict[str, Any]:
        return {f"tool_{self.count}": lambda _arguments: "x"}


def test_what_is_left_behind_and_what_changes_is_found() -> None:
    """Threads after the shutdown, tools that come and go, requirements nobody describes."""
    plugin = Leaving()
    report = check_plugin(plugin)
    plugin.stop.set()
    rules = {finding.rule for finding in report.errors}
    assert {"side effect", "initialise", "schema"} <= rules


class Eager(Enriching):
    """One whose metadata is no JSON."""

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        return PromptEnrichmentResult(f"{prompt}!", {"a": object()})


def test_enrichment_is_held_against_its_rules() -> None:
    """The prompt is text, the metadata JSON."""
    assert any(finding.rule == "enrichment" for finding in check_plugin(Eager("eager")).errors)
    assert_plugin(Enriching("fine"))


class Heeding(Plugin):
    """One that looks at its token."""

    name = "heeding"

    @tool(category="x", access="read")
    def wait(self, call: Call) -> str:
        """Wait for a good while, unless somebody has had enough of it."""
        while not call.token.wait(0.01):
            time.sleep(0)
        return "stopped"


def test_a_stopped_call_may_end_by_itself() -> None:
    """A loop that looks at the token passes the rule of stopping."""
    report = check_plugin(Heeding, seconds=0.3)
    assert "stop" not in {finding.rule for finding in report.errors}


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        (Strategy(lambda history: history[::-1]), "strategy"),
        (Strategy(lambda history: history), "verdict"),
        (Strategy(lambda history: 1 / 0, (False, "")), "strategy"),
        (Strategy(lambda history: history, 7), "strategy"),
    ],
)
def test_a_strategy_is_held_against_its_rules(strategy: Strategy, rule: str) -> None:
    """Order, verdict, failures."""
    assert rule in {finding.rule for finding in check_plugin(strategy).errors}


def test_the_terminal_says_the_same(tmp_path: Path) -> None:
    """`jaato plugins check FILE` ends with 1 and names the rules; --json gives them to programs."""
    desk = CliEnvironment(tmp_path)
    (desk.work / "mine.py").write_text(
        "from jaato import Plugin, tool\nclass Mine(Plugin):\n    name = 'mine'\n"
        "    @tool(access='read')\n    def x(self) -> str: return 'x'\n"
    )
    done = desk.run("plugins", "check", "mine.py")
    assert done.returncode == 1
    assert "write for a model" in done.stdout
    document = json.loads(desk.run("plugins", "check", "mine.py", "--json").stdout)
    assert document["ok"] is False
    assert desk.run("plugins", "check", "nobody").returncode == 2
