"""Plugins broken in every way: the runtime goes on, and the user reads what is wrong and whose fault it is."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.broken_plugins.plugins import AT_IMPORT, DECLARED, ENRICHING, IN_THE_MAKING, LEAVES, plugin_text
from tests.cli.environment import CliEnvironment, say
from tests.kit import call, plan, results, runtime
from tests.kit import say as scripted

from jaato.runtime import enrichment
from jaato.runtime.plugins import lifecycle as wiring
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.settings import environment

BROKEN = {
    f"{place}: {name}": entry
    for place, table in (("import", AT_IMPORT), ("making", IN_THE_MAKING), ("declared", DECLARED))
    for name, entry in table.items()
}


def load_plugin(path: Path, text: str, seconds: float = 5.0, name: str = "animal") -> PluginRegistry:
    """A registry over a directory with this plugin, everything exposed."""
    folder = path / "plugins"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    registry = PluginRegistry(
        workspace=path, plugin_dirs=[folder], services={"environ": {}}, loading_s=seconds
    )
    registry.expose_all()
    return registry


def test_there_are_enough_broken_plugins() -> None:
    """At least thirty ways to be broken before the first call."""
    assert len(BROKEN) >= 50


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.6")
@pytest.mark.parametrize("case", list(BROKEN))
def test_a_broken_plugin_is_named_and_left_out(tmp_path: Path, case: str) -> None:
    """Its problem is told in words under its name, nothing of it stays, and the others work."""
    text, words = BROKEN[case]
    registry = load_plugin(tmp_path, text, 0.4 if "hangs" in case else 5.0)
    try:
        assert words in registry.problems["animal"] or words in " ".join(registry.problems.values()), (
            registry.problems
        )
        assert len(registry.problems["animal"]) < 700
        assert "animal" not in registry.list_exposed()
        assert registry.catalog.find("growl") is None
        assert registry.catalog.find("readFile") is not None
        assert {"cli", "file_edit", "todo"} <= {*registry.list_exposed()}
    finally:
        registry.shutdown()


@pytest.mark.parametrize("case", list(ENRICHING))
def test_the_users_words_reach_the_model_whatever_a_plugin_does(
    tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The prompt stays as it was, and the log names the plugin and what it did."""
    text, words = ENRICHING[case]
    registry = load_plugin(tmp_path, text)
    try:
        assert registry.problems == {}
        assert registry.enrich_prompt("Fix it.").prompt == "Fix it."
        assert any(words in said and "animal" in said for said in caplog.messages), caplog.messages
    finally:
        registry.shutdown()


def test_an_enrichment_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first prompt waits its time, the next does not."""
    monkeypatch.setattr(enrichment, "WITHIN_S", 0.1)
    registry = load_plugin(
        tmp_path,
        plugin_text(
            "asked = []\n"
            "def subscribes_to_prompt_enrichment(self): return True\n"
            "def enrich_prompt(self, prompt):\n    self.asked.append(1)\n    import time\n    time.sleep(30)"
        ),
    )
    toolset = registry.toolset("animal")
    assert toolset is not None
    for _ in range(2):
        assert registry.enrich_prompt("Fix it.").prompt == "Fix it."
    assert toolset.plugin.asked == [1]
    assert toolset.plugin not in registry.get_prompt_enrichment_subscribers()
    registry.shutdown()


@pytest.fixture
def untouched() -> Iterator[None]:
    """The process is afterwards as it was."""
    before = (list(sys.path), os.getcwd(), sys.displayhook)
    yield
    sys.path[:], sys.displayhook = before[0], before[2]
    os.chdir(before[1])
    for name in [name for name in environment() if name.startswith("ZOO_")]:
        del os.environ[name]  # noqa: TID251 what the plugin of the test has put there


@pytest.mark.parametrize("case", list(LEAVES))
@pytest.mark.usefixtures("untouched")
def test_what_a_plugin_changes_around_it_is_noticed(tmp_path: Path, case: str) -> None:
    """It runs, for it may have its reasons, and the user can read what it did."""
    statement, words = LEAVES[case]
    registry = load_plugin(tmp_path, plugin_text(after=statement))
    assert "animal" in registry.list_exposed()
    assert words in registry.noticed["animal"]
    registry.shutdown()
    module = registry.modules.find()["animal"]
    if hasattr(module, "STOP"):
        module.STOP.set()


@pytest.mark.parametrize(
    "statement", ["raise OSError('no')", "exit(1)", "raise KeyboardInterrupt", "import time; time.sleep(30)"]
)
def test_a_shutdown_that_fails_or_hangs_holds_nobody_up(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry lets go of everything, twice if it is told twice, in its time."""
    monkeypatch.setattr(wiring, "NOTIFY_TIMEOUT_S", 0.1)
    registry = load_plugin(tmp_path, plugin_text(f"def shutdown(self): {statement}"))
    begun = time.monotonic()
    registry.shutdown()
    registry.shutdown()
    assert registry.list_exposed() == []
    assert time.monotonic() - begun < 20


EXECUTORS: dict[str, tuple[str, bool, str]] = {
    "raises": ("def run(arguments): raise OSError('no')", False, "no"),
    "exits": ("def run(arguments): exit(1)", False, "SystemExit"),
    "interrupts": ("def run(arguments): raise KeyboardInterrupt", False, "KeyboardInterrupt"),
    "stops": ("def run(arguments): raise StopIteration", False, "StopIteration"),
    "calls itself for ever": ("def run(arguments): return run(arguments)", False, "recursion"),
    "takes nothing": ("def run(): return 1", False, "argument"),
    "is asynchronous": ("async def run(arguments): return 'later'", True, "later"),
    "gives a coroutine": ("async def it(): return 'deep'\ndef run(arguments): return it()", True, "deep"),
    "gives what is no JSON": ("def run(arguments): return {'a': {1, 2}, 'b': object()}", True, "object"),
    "gives fifty megabytes": ("def run(arguments): return 'x' * 50_000_000", True, "xxx"),
    "gives itself": ("def run(arguments):\n    a = []\n    a.append(a)\n    return a", True, ""),
    "gives what cannot be shown": (
        "class Dumb:\n    def __repr__(self): raise ValueError\ndef run(arguments): return Dumb()",
        True,
        "",
    ),
    "raises what harms who looks": (
        (
            "class Bad(BaseException):\n    problem = property(lambda self: exit(4))\n"
            "    def __str__(self): raise KeyboardInterrupt\ndef run(arguments): raise Bad"
        ),
        False,
        "",
    ),
    "gives what harms who looks": (
        "class Bad:\n    def __repr__(self): raise KeyboardInterrupt\n    __str__ = __repr__\ndef run(arguments): return [Bad()]",
        True,
        "",
    ),
    "changes its arguments": ("def run(arguments):\n    arguments.clear()\n    return 'gone'", True, "gone"),
}


@pytest.mark.parametrize("case", list(EXECUTORS))
def test_a_tool_that_misbehaves_ends_its_call_only(tmp_path: Path, case: str) -> None:
    """The model reads a result in words, the turn goes on to its end."""
    code, well, words = EXECUTORS[case]

    async def main() -> None:
        folder = tmp_path / "plugins"
        folder.mkdir()
        text = plugin_text("def get_executors(self): return {'growl': run}", after=code)
        (folder / "animal.py").write_text(text)
        made = runtime(tmp_path)
        other = PluginRegistry(workspace=tmp_path / "work", plugin_dirs=[folder], services={"environ": {}})
        for name in ("introspection", "animal"):
            assert other.expose_tool(name)
        made.registry.shutdown()
        made.registry = other
        script = [call("get_tool_schemas", names=["growl"]), call("growl"), scripted("done")]
        try:
            async with made.create(plan(tmp_path, script)) as live:
                turn = await live.post("go")
                assert turn is not None
                assert turn.reason == "stop"
                result = results(live)[-1]
                assert result.ok is well
                assert words.lower() in str(result.result).lower()
                assert len(str(result.result)) < 100_000
        finally:
            made.close()

    anyio.run(main)


def test_a_thousand_tools_are_no_trouble(tmp_path: Path) -> None:
    """They are all there, and found; only their number would be one."""
    registry = load_plugin(
        tmp_path,
        plugin_text(
            "def get_tool_schemas(self):\n"
            "    return [ToolSchema(f'growl_{n}', f'Growl at visitor {n}.', PARAMETERS) for n in range(1000)]\n"
            "def get_executors(self): return {f'growl_{n}': len for n in range(1000)}"
        ),
    )
    assert registry.problems == {}
    assert registry.catalog.find("growl_999") is not None
    registry.shutdown()


def test_a_real_process_with_the_whole_zoo_answers_and_names_every_animal(tmp_path: Path) -> None:
    """With every plugin that does not hang in the user's directory, `jaato run` answers and `doctor` names them."""
    desk = CliEnvironment(tmp_path)
    folder = desk.config / "plugins"
    folder.mkdir(parents=True)
    names: dict[str, Any] = {}
    for number, (case, (text, _)) in enumerate(BROKEN.items()):
        if "hangs" not in case and "without end" not in case:
            (folder / f"zoo{number}.py").write_text(text.replace("'animal'", f"'zoo{number}'"))
            names[f"zoo{number}"] = case
    (folder / "loud.py").write_text(
        "print('I am here')\n" + plugin_text("name = 'loud'").replace("growl", "shout")
    )
    done = desk.run("run", *desk.script(say("All is well.")), "--output", "json", "How are you?")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "All is well."
    assert "Traceback" not in done.stderr
    found = desk.run("doctor", "--json")
    (plugins,) = [one for one in json.loads(found.stdout)["checks"] if one["name"] == "plugins"]
    assert plugins["grade"] == "warn"
    for name in names:
        assert f"{name} " in plugins["text"], names[name]
    listed = desk.run("tools", "list", "--json")
    assert "shout" in {tool["name"] for tool in json.loads(listed.stdout)}
