"""What plugins add to the result of a call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from tests.kit import call, plan, results, runtime, say
from tests.spec.documented import Documented

from jaato.abc.plugin import Enrichment, Plugin
from jaato.agent import tool_runner
from jaato.errors import PluginError
from jaato.runtime import enrichment
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.adapter import adapt
from jaato.tools.call import Call
from jaato.tools.tool import tool


@tool(access="read", category="test", core=True)
def measure(length: int) -> dict[str, Any]:
    """Measure."""
    return {"length": length}


class Lint(Plugin):
    """A native plugin that looks at one tool."""

    name: ClassVar[str] = "lint"
    enriches_results: ClassVar[tuple[str, ...]] = ("measure",)

    async def enrich_result(self, call: Call, value: Any) -> Any:
        return {**value, "unit": "m", "asked": call.arguments["length"]}


class Everywhere(Documented):
    """One of the documented shape that sees every result."""

    def subscribes_to_tool_result_enrichment(self) -> bool:
        return True

    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        return {**result, "by": tool_name} if isinstance(result, dict) else result


class Failing(Everywhere):
    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        raise SystemExit(1)


class Late(Everywhere):
    over = threading.Event()

    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        self.over.wait(60)
        return "late"


@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.6")
def test_plugins_add_to_the_result_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native plugin for the tools it names, a documented one for all; one that fails or is late is passed over."""
    monkeypatch.setattr(enrichment, "RESULT_WITHIN_S", 1.0)

    async def main() -> None:
        made = runtime(tmp_path, [measure])
        for plugin in (Lint(None), Late("late"), Failing("failing"), Everywhere("everywhere")):  # type: ignore[arg-type]
            made.registry.register_plugin(plugin, expose=True)
        try:
            script = [call("measure", length=3), call("list_tools"), call("measure", length="x"), say("done")]
            async with made.create(plan(tmp_path, script)) as live:
                await live.post("go")
                measured, listed, wrong = results(live)
        finally:
            Late.over.set()
            made.close()
        assert measured.structured == {"length": 3, "unit": "m", "asked": 3, "by": "measure"}
        assert listed.structured["by"] == "list_tools"
        assert wrong.error is not None

    anyio.run(main)


def test_the_executor_enriches_too(tmp_path: Path) -> None:
    """Plugins that need no loop are asked for library calls as well."""
    made = runtime(tmp_path, [measure])
    for plugin in (Lint(None), Failing("failing"), Everywhere("everywhere")):  # type: ignore[arg-type]
        made.registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor()
    executor.set_registry(made.registry)
    assert executor.execute("measure", {"length": 3}) == (True, {"length": 3, "by": "measure"})
    made.close()


class Careless(Everywhere):
    """Forgets to give the result back."""

    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        return None


class Asynchronous(Everywhere):
    """The documented form, with a coroutine."""

    async def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        await anyio.sleep(0)
        return {**result, "later": True}


class Dead(BaseException):
    """No Exception, and not to be shown."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Deadly(Plugin):
    """Raises what would end the loop."""

    name: ClassVar[str] = "deadly"
    enriches_results: ClassVar[tuple[str, ...]] = ("*",)
    what: type[BaseException] = Dead

    async def enrich_result(self, call: Call, value: Any) -> Any:
        raise self.what


class Stubborn(Deadly):
    """Swallows its cancellation."""

    async def enrich_result(self, call: Call, value: Any) -> Any:
        while True:
            try:
                await anyio.sleep(60)
            except asyncio.CancelledError:
                pass


@pytest.mark.parametrize("what", [Dead, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_whatever_a_coroutine_of_a_plugin_raises_the_result_reaches_the_model(
    tmp_path: Path, what: type[BaseException]
) -> None:
    """Nothing it raises ends the turn, the loop or the program."""
    plugin = Deadly(None)  # type: ignore[arg-type]
    plugin.what = what
    assert measured(tmp_path, plugin) == {"length": 3}


def measured(tmp_path: Path, plugin: Any, **more: Any) -> Any:
    """What the model is given for a measurement with this plugin there."""

    async def main() -> Any:
        made = runtime(tmp_path, [measure])
        made.registry.register_plugin(plugin, expose=True)
        for toolset in made.registry.toolsets():
            if toolset.plugin is plugin:
                toolset.foreign = more.get("foreign", False)
        try:
            async with made.create(plan(tmp_path, [call("measure", length=3), say("done")])) as live:
                turn = await live.post("go")
                assert turn is not None
                assert turn.reason == "stop"
                return results(live)[0].structured
        finally:
            made.close()

    return anyio.run(main)


def test_a_coroutine_of_the_documented_form_is_awaited(tmp_path: Path) -> None:
    """Its value, not the coroutine, is what the model reads."""
    assert measured(tmp_path, Asynchronous("later")) == {"length": 3, "later": True}


def test_a_plugin_that_forgets_the_result_does_not_lose_it(tmp_path: Path) -> None:
    """None in place of a result is no result."""
    assert measured(tmp_path, Careless("careless")) == {"length": 3}


def test_a_coroutine_that_swallows_its_cancellation_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its time, and its grace, the turn goes on."""
    monkeypatch.setattr(enrichment, "RESULT_WITHIN_S", 0.02)
    monkeypatch.setattr(tool_runner, "GRACE_S", 0.02)
    assert measured(tmp_path, Stubborn(None)) == {"length": 3}  # type: ignore[arg-type]


def test_somebody_elses_plugin_that_hangs_over_results_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread keeps neither the next call nor the end of the program waiting."""
    monkeypatch.setattr(enrichment, "RESULT_WITHIN_S", 0.05)
    release = threading.Event()
    threads: list[bool] = []

    class Hanging(Everywhere):
        def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
            threads.append(threading.current_thread().daemon)
            release.wait(30)
            return result

    plugin = Hanging("hanging")
    assert measured(tmp_path, plugin, foreign=True) == {"length": 3}
    release.set()
    assert threads == [True]


def test_a_plugin_works_on_a_copy_of_the_result(tmp_path: Path) -> None:
    """What somebody else's plugin does to a result before it fails is not seen."""

    class Vandal(Everywhere):
        def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
            result.clear()
            raise OSError("done")

    assert measured(tmp_path, Vandal("vandal"), foreign=True) == {"length": 3}


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("enriches_results", 7, "enriches_results"),
        ("enriches_results", (7,), "enriches_results"),
        ("enrichment", 7, "enrichment"),
        ("enrichment", Enrichment(priority="high"), "priority"),  # type: ignore[arg-type]
        ("enrichment", Enrichment(pattern="("), "pattern"),
        ("enrichment", Enrichment(pattern=b"x"), "pattern"),  # type: ignore[arg-type]
        ("enrichment", Enrichment(present=7), "present"),  # type: ignore[arg-type]
    ],
)
def test_what_a_native_plugin_says_of_its_enrichment_is_checked(
    tmp_path: Path, attribute: str, value: object, words: str
) -> None:
    """It is refused when it is exposed, and does not spoil every prompt and result after."""
    made = runtime(tmp_path)
    wrong = type("Wrong", (Plugin,), {"name": "wrong", attribute: value})
    with pytest.raises(PluginError, match=words):
        made.registry.register_plugin(wrong(None), expose=True)
    assert made.registry.enrich_prompt("x").prompt == "x"
    made.close()


def test_one_name_in_place_of_a_tuple_names_one_tool() -> None:
    """`enriches_results = "measure"` is not every tool whose name is part of that word."""

    class One(Plugin):
        name: ClassVar[str] = "one"
        enriches_results = "measure"  # type: ignore[assignment]

    assert adapt(One(None)).enriches_results == ("measure",)  # type: ignore[arg-type]
